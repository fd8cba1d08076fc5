package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// stream is the library's view of one subscriptions/listen of a client on streams;
// over HTTP the library has its own. It hears nothing that was not asked for.
type stream struct {
	id     string
	notify chan mcp.JSONRPCNotification

	mu     sync.Mutex
	filter mcp.SubscriptionFilter
}

var _ server.SessionWithSubscriptionFilter = (*stream)(nil)

func (s *stream) Initialize()                                         {}
func (s *stream) Initialized() bool                                   { return true }
func (s *stream) SessionID() string                                   { return s.id }
func (s *stream) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.notify }

func (s *stream) SetSubscriptionFilter(f mcp.SubscriptionFilter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filter = f
}

func (s *stream) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filter, true
}

// listen serves one subscriptions/listen until the client cancels it or leaves. All
// of its messages go out before its answer.
func (c *conn) listen(ctx context.Context, x *exchange, line []byte) any {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.streams, cancel)()
	c.open.cancelBy("", string(x.id), cancel)
	s := &stream{id: "listen_" + rand.Text(), notify: make(chan mcp.JSONRPCNotification, 100)}
	if err := c.door.lib.RegisterSession(ctx, s); err != nil {
		return rpcError(x.id, mcp.INTERNAL_ERROR, err.Error())
	}
	pass := func(n mcp.JSONRPCNotification) {
		raw, err := json.Marshal(n)
		if err == nil && x.listening != nil {
			err = c.send(json.RawMessage(x.listening.out(raw)))
		}
		if err != nil {
			cancel()
		}
	}
	answered, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case n := <-s.notify:
				pass(n)
			case <-answered:
				for {
					select {
					case n := <-s.notify:
						pass(n)
					default:
						return
					}
				}
			}
		}
	}()
	answer := c.door.lib.HandleMessage(withExchange(c.door.lib.WithContext(ctx, s), x), line)
	x.listening.end()
	c.door.lib.UnregisterSession(ctx, s.id)
	close(answered)
	<-passed
	raw, err := json.Marshal(answer)
	if err != nil {
		return rpcError(x.id, mcp.INTERNAL_ERROR, "the answer could not be written: "+err.Error())
	}
	return json.RawMessage(x.finish(raw))
}
