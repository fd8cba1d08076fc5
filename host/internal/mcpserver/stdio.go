package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
)

const (
	maxLine     = 8 << 20 // bytes of one message; a larger one is refused and skipped
	maxInFlight = 128     // requests of one client at a time
	// farewell is what calls in flight get when the client closes its end.
	farewell = 5 * time.Second
	// readPatience is how long a client may not read before it counts as gone.
	readPatience = 10 * time.Second
)

// conn is one client on a pair of streams, newline-delimited JSON-RPC. The
// library's own stdio server keeps one session a process, and a running host has
// many.
type conn struct {
	door   *door
	client *client
	in     *bufio.Reader

	write  sync.Mutex
	out    io.Writer
	broken error  // of the first write that failed
	leave  func() // ends the connection

	slots   chan struct{}
	running sync.WaitGroup
	streams context.Context // of subscriptions/listen: ends with the input
	pending pending
	open    inFlight
}

// Serve speaks MCP on a pair of streams, as agent and in session s, until the
// input ends or ctx does. The caller closes the streams.
func (core *Core) Serve(ctx context.Context, agent *policy.Agent, s *session.Session, in io.Reader, out io.Writer) error {
	d, err := core.door(agent.Name, false)
	if err != nil {
		return err
	}
	cl := &client{session: s, notify: make(chan mcp.JSONRPCNotification, 64), level: mcp.LoggingLevelInfo}
	c := &conn{door: d, client: cl, in: bufio.NewReaderSize(in, 64<<10), out: out, slots: make(chan struct{}, maxInFlight)}
	if err := d.lib.RegisterSession(ctx, cl); err != nil {
		return err
	}
	defer d.lib.UnregisterSession(ctx, cl.SessionID())
	active, end := s.Watch()
	defer end()
	ctx, cancel := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		for {
			select {
			case <-active:
				c.listChanged()
			case <-ctx.Done():
				return
			}
		}
	}()
	err = c.serve(ctx)
	cancel()
	<-followed
	return err
}

// listChanged tells a client of the session era that its own list changed. A
// client of 2026-07-28 has a list that does not depend on its session.
func (c *conn) listChanged() {
	if c.client.newList() {
		// A client that can't be written to shows at the next read.
		_ = c.send(map[string]any{"jsonrpc": "2.0", "method": mcp.MethodNotificationToolsListChanged})
	}
}

// serve reads messages until the input ends or ctx does. What is in flight when
// the input ends gets a moment to answer.
func (c *conn) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.leave = cancel
	streams, endStreams := context.WithCancel(ctx)
	defer endStreams()
	c.streams = streams
	ctx = c.door.lib.WithContext(ctx, c.client)
	notified := make(chan struct{})
	go func() {
		defer close(notified)
		for {
			select {
			case n := <-c.client.notify:
				if err := c.send(n); err != nil {
					cancel() // nobody reads any more
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	err := c.read(ctx)
	endStreams() // who closes its end listens no more
	done := make(chan struct{})
	go func() {
		c.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(farewell):
		cancel()
		<-done
	case <-ctx.Done():
		<-done
	}
	cancel()
	<-notified
	return err
}

func (c *conn) read(ctx context.Context) error {
	lines := make(chan []byte)
	failed := make(chan error, 1)
	go func() { // ends with the stream, which its owner closes
		defer close(lines)
		for {
			line, err := readLine(c.in)
			if len(line) > 0 {
				select {
				case lines <- line:
				case <-ctx.Done():
					return
				}
			}
			if errors.Is(err, errTooLong) {
				err = c.send(rpcError(nil, mcp.INVALID_REQUEST, fmt.Sprintf("a message has at most %d bytes", maxLine)))
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line, ok := <-lines:
			if !ok {
				if err := <-failed; !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
					return err
				}
				return nil
			}
			if err := c.message(ctx, line); err != nil {
				return err
			}
		}
	}
}

var errTooLong = errors.New("message too long")

// readLine reads one line of at most maxLine bytes and skips the rest of a longer one.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			tooLong, line = true, nil
		}
		if !tooLong {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if tooLong && err == nil {
			err = errTooLong
		}
		for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
			line = line[:len(line)-1]
		}
		return line, err
	}
}

// message handles one message. Requests run beside each other; notifications
// and answers are taken in order.
func (c *conn) message(ctx context.Context, line []byte) error {
	if err := content.Check(line); err != nil {
		return c.send(rpcError(nil, mcp.PARSE_ERROR, "the message is "+err.Error()))
	}
	m := gjson.ParseBytes(line)
	if !m.IsObject() {
		return c.send(rpcError(nil, mcp.INVALID_REQUEST, "one JSON-RPC object a line"))
	}
	if f := malformed(m); f != "" {
		return c.send(rpcError(nil, mcp.INVALID_REQUEST, f))
	}
	id, method := m.Get("id"), m.Get("method")
	switch {
	case !method.Exists() && id.Exists():
		c.pending.answer("", m) // late or never asked: nobody waits
		return nil
	case !id.Exists():
		if method.Str == "notifications/cancelled" && c.open.cancel("", m.Get("params.requestId").Raw) {
			return nil
		}
		c.door.lib.HandleMessage(ctx, line)
		return nil
	case id.Type != gjson.String && id.Type != gjson.Number:
		return c.send(rpcError(nil, mcp.INVALID_REQUEST, "a request's id is a string or a number"))
	}
	done, ok := c.open.enter("", id.Raw)
	if !ok {
		return c.send(rpcError(nil, mcp.INVALID_REQUEST, twice(id.Raw)))
	}
	select {
	case c.slots <- struct{}{}:
	default:
		done()
		return c.send(rpcError(json.RawMessage(id.Raw), mcp.INTERNAL_ERROR, fmt.Sprintf("more than %d requests at once", maxInFlight)))
	}
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		defer func() { <-c.slots }()
		defer done()
		if err := c.send(c.request(ctx, line, id.Raw)); err != nil {
			c.door.core.Log.Debug("an answer could not be sent", "session", c.client.session.ID, "error", err)
		}
	}()
	return nil
}

// request runs one request through the library.
func (c *conn) request(ctx context.Context, line []byte, id string) (response any) {
	defer func() {
		if p := recover(); p != nil {
			response = rpcError(json.RawMessage(id), mcp.INTERNAL_ERROR, "the host failed on this request")
			c.door.core.Log.Error("an MCP request panicked", "panic", p)
		}
	}()
	agent, err := c.door.core.Pipeline.Policy.Agent(c.door.name)
	if err != nil {
		return rpcError(json.RawMessage(id), mcp.INVALID_REQUEST, err.Error())
	}
	c.door.takes(agent) // the rules may have changed since the last message
	x := &exchange{params: gjson.GetBytes(line, "params"), id: json.RawMessage(id), splice: rawObject{}, peer: &peer{agent: agent, session: c.client.session, send: c.send,
		ask: func(ctx context.Context, method string, params any) (json.RawMessage, error) {
			return c.pending.ask(ctx, "", method, params, c.send)
		},
		spawn: func(f func()) { c.running.Go(f) }}}
	if gjson.GetBytes(line, "method").Str == string(mcp.MethodSubscriptionsListen) {
		return c.listen(ctx, x, line)
	}
	message, _ := c.door.toLibrary(line)
	raw, err := json.Marshal(c.door.lib.HandleMessage(withExchange(ctx, x), message))
	if err != nil {
		return rpcError(json.RawMessage(id), mcp.INTERNAL_ERROR, "the answer could not be written: "+err.Error())
	}
	if gjson.GetBytes(line, "method").Str == string(mcp.MethodToolsCall) {
		c.listChanged() // after it is committed, before the result
	}
	return json.RawMessage(x.finish(raw))
}

// send writes one message. A client that does not read for a while has left: what
// waits for it must not wait for ever.
func (c *conn) send(v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	c.write.Lock()
	defer c.write.Unlock()
	if c.broken != nil {
		return c.broken
	}
	if d, ok := c.out.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = d.SetWriteDeadline(time.Now().Add(readPatience)) // streams without deadlines are the caller's own
	}
	if _, c.broken = c.out.Write(append(raw, '\n')); c.broken != nil {
		c.leave()
	}
	return c.broken
}
