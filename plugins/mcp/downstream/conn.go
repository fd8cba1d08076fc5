package downstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// Info is what a server says of itself.
type Info struct {
	Version      string // of the protocol
	Server       json.RawMessage
	Name, Title  string
	Release      string // the server's own version
	Instructions string
	Capabilities map[string]json.RawMessage
}

// Has reports whether the server has a capability.
func (i *Info) Has(capability string) bool { _, ok := i.Capabilities[capability]; return ok }

// Conn is a connection to a server.
type Conn struct {
	Info  Info
	Known Known

	target *Target
	tr     transport.Interface
	remote *isolated // in place of tr: a worker has the transport
	post   *poster   // beside tr, for calls over Streamable HTTP
	prog   *program  // nil for HTTP
	free   func()    // gives back what the transport leaves
	log    *slog.Logger

	ctx    context.Context // lives as long as the connection
	cancel context.CancelCauseFunc
	done   chan struct{}
	over   sync.Once
	closed sync.WaitGroup
	flow   *flow
	logs   *logLimit

	ids      atomic.Uint64
	ownMetas atomic.Pointer[knownMeta]
	mu       sync.Mutex
	progress map[string]Progress
	events   Events
}

// Progress takes the steps of one request.
type Progress func(done, total float64, message string)

func newConn(t *Target, tr transport.Interface, prog *program, free func(), events Events, f *flow) *Conn {
	c := &Conn{flow: f, logs: newLogLimit(), target: t, tr: tr, prog: prog, free: free, log: t.Log, done: make(chan struct{}), progress: map[string]Progress{}, events: events}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	f.onEnd(c.end)
	if tr != nil {
		tr.SetNotificationHandler(c.notified)
	}
	if b, ok := tr.(transport.BidirectionalInterface); ok {
		b.SetRequestHandler(c.askedOverHTTP)
	}
	if s, ok := tr.(*transport.SSE); ok {
		s.SetConnectionLostHandler(func(err error) { c.end(t.hide.Error(fmt.Errorf("the server's stream ended: %v", err))) })
	}
	if prog != nil && tr != nil {
		go func() {
			<-prog.ended
			c.end(errors.New(prog.why()))
		}()
	}
	return c
}

// Done is closed when the connection is of no more use.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why the connection is over.
func (c *Conn) Err() error { return context.Cause(c.ctx) }

// PID is the process id of a stdio server's tree; 0 for others.
func (c *Conn) PID() int {
	if c.prog == nil {
		return 0
	}
	return c.prog.child.PID()
}

// Slowed is how often the server was read more slowly because it sent too much.
func (c *Conn) Slowed() int64 { return c.flow.slowedDown() }

// Noise is what a stdio server wrote beside its messages.
func (c *Conn) Noise() Noise {
	switch {
	case c.remote != nil:
		c.remote.mu.Lock()
		defer c.remote.mu.Unlock()
		return c.remote.noise
	case c.prog == nil:
		return Noise{}
	}
	return c.prog.msgs.noise()
}

// Close ends the connection and waits until nothing of it is left.
func (c *Conn) Close() {
	c.end(ErrClosed)
	c.closed.Wait()
}

// Fail ends the connection because err shows that it is of no more use.
func (c *Conn) Fail(err error) { c.end(err) }

func (c *Conn) end(why error) {
	c.over.Do(func() {
		c.closed.Add(1)
		c.cancel(why)
		close(c.done)
		c.flow.halt(why)
		go func() {
			defer c.closed.Done()
			if c.remote != nil {
				c.remote.close()
			} else if err := c.tr.Close(); err != nil {
				c.log.Debug("closing the transport", "error", err)
			}
			if c.prog != nil {
				c.prog.end()
			}
			if c.free != nil {
				c.free()
			}
		}()
	})
}

// Request sends one request and gives its result as the server wrote it. params
// is a JSON object or empty. tool is the tool a tools/call is for.
func (c *Conn) Request(ctx context.Context, method string, params json.RawMessage, tool *Tool, progress Progress) (json.RawMessage, error) {
	return c.Send(ctx, method, params, Sending{Tool: tool, Progress: progress})
}

// Sending is what a request may have beside its parameters.
type Sending struct {
	Tool     *Tool // that a tools/call is for
	Progress Progress
	Tasks    bool // the server may make a task of it
}

// Send is Request with more to say.
func (c *Conn) Send(ctx context.Context, method string, params json.RawMessage, how Sending) (json.RawMessage, error) {
	raw, err := c.send(ctx, method, params, how)
	if err == nil {
		err = checkShape(raw)
	}
	if err != nil {
		return nil, err
	}
	return raw, nil
}

func (c *Conn) send(ctx context.Context, method string, params json.RawMessage, how Sending) (json.RawMessage, error) {
	tool, progress := how.Tool, how.Progress
	select {
	case <-c.done:
		return nil, fmt.Errorf("%w: %w", ErrClosed, c.Err())
	default:
	}
	if c.remote != nil {
		return c.viaRemote(ctx, method, params, how)
	}
	id := ownPrefix + strconv.FormatUint(c.ids.Add(1), 10)
	params = c.withMeta(params, id, how)
	c.flow.earn()
	if progress != nil {
		c.mu.Lock()
		c.progress[id] = progress
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			delete(c.progress, id)
			c.mu.Unlock()
		}()
	}
	if c.prog != nil {
		var fail context.CancelCauseFunc
		ctx, fail = context.WithCancelCause(ctx)
		defer fail(nil)
		defer c.prog.msgs.expect(id, fail)()
	}
	req := transport.JSONRPCRequest{JSONRPC: "2.0", ID: mcp.NewRequestId(id), Method: method, Params: params}
	if c.modernHTTP() {
		req.Header = headersFor(c.Info.Version, method, params, tool)
	}
	send := func() (*transport.JSONRPCResponse, error) { return c.tr.SendRequest(ctx, req) }
	if c.post != nil && method == string(mcp.MethodToolsCall) {
		send = func() (*transport.JSONRPCResponse, error) { return c.post.send(ctx, c, req, id, params) }
	}
	resp, err := send()
	if err == nil && resp != nil && resp.ID.String() != req.ID.String() {
		return nil, badAnswer("it has the id %s and not with that of the request", clip(fmt.Sprint(resp.ID.Value()), 60))
	}
	var unreadable *AnswerError
	switch {
	case err != nil && errors.As(context.Cause(ctx), &unreadable):
		return nil, unreadable
	case err != nil && ctx.Err() != nil:
		c.tellCancelled(ctx, method, id)
		return nil, ctx.Err()
	case err != nil:
		return nil, c.failure(err)
	case resp == nil:
		return nil, &sentError{errors.New("the server ended its answer without a result")}
	case resp.Error != nil:
		data, err := json.Marshal(resp.Error.Data)
		if err != nil || string(data) == "null" {
			data = nil
		}
		return nil, &RPCError{Code: resp.Error.Code, Message: c.target.hide.Text(resp.Error.Message), Data: data}
	case len(resp.Result) == 0, string(resp.Result) == "null":
		return nil, badAnswer("it has neither a result nor an error")
	}
	return resp.Result, nil
}

// viaRemote is Request by way of the worker.
func (c *Conn) viaRemote(ctx context.Context, method string, params json.RawMessage, how Sending) (json.RawMessage, error) {
	raw, err := c.remote.request(ctx, c, method, params, how)
	var sent *sentError
	if c.prog != nil && errors.As(err, &sent) && ctx.Err() == nil {
		return nil, c.failure(err) // how the program ended says more
	}
	return raw, err
}

// failure says why a request failed, with a program's own end where there is one.
func (c *Conn) failure(err error) error {
	if c.prog != nil {
		// The transport only knows that the pipe closed.
		select {
		case <-c.done:
		case <-c.prog.ended:
			<-c.done
		case <-time.After(2 * time.Second):
			return c.target.hide.Error(classify(err))
		}
		return &sentError{c.Err()}
	}
	if isDone(c) && c.Err() != ErrClosed {
		return &sentError{c.Err()} // the transport only knows that it was ended
	}
	return c.target.hide.Error(classify(err))
}

func (c *Conn) modern() bool     { return c.Known.Era == Modern }
func (c *Conn) modernHTTP() bool { return c.modern() && c.prog == nil }

// tellCancelled tells the server that nobody waits any more. On modern HTTP the
// end of the stream says so, and a handshake is never cancelled.
func (c *Conn) tellCancelled(ctx context.Context, method, id string) {
	if c.modernHTTP() || method == string(mcp.MethodInitialize) || method == string(mcp.MethodServerDiscover) {
		return
	}
	c.notify(ctx, "notifications/cancelled", map[string]any{"requestId": id, "reason": "the caller cancelled or ran out of time"})
}

// notify sends a notification; one that gets lost is only logged.
func (c *Conn) notify(ctx context.Context, method string, params map[string]any) {
	ctx, cancel := detached(ctx, closeTime)
	defer cancel()
	if c.remote != nil {
		c.remote.notify(method, params)
		return
	}
	err := c.tr.SendNotification(ctx, mcp.JSONRPCNotification{JSONRPC: "2.0",
		Notification: mcp.Notification{Method: method, Params: mcp.NotificationParams{AdditionalFields: params}}})
	if err != nil {
		c.log.Debug("a notification was not taken", "method", method, "error", err)
	}
}

// withMeta puts what the protocol wants in _meta into the parameters, keeping all
// other bytes.
func (c *Conn) withMeta(params json.RawMessage, id string, how Sending) json.RawMessage {
	var meta []byte // the members
	if how.Progress != nil {
		meta = append(append(append(meta, `"progressToken":"`...), id...), '"')
	}
	if c.modern() {
		if len(meta) > 0 {
			meta = append(meta, ',')
		}
		meta = append(meta, c.ownMeta(how.Tasks)...)
	}
	if len(meta) == 0 {
		if len(params) == 0 {
			return json.RawMessage("{}")
		}
		return params
	}
	var out bytes.Buffer
	body := bytes.TrimSpace(params)
	if len(body) < 2 {
		body = []byte("{}")
	}
	out.WriteString(`{"_meta":{`)
	out.Write(meta)
	out.WriteByte('}')
	if inner := bytes.TrimSpace(body[1 : len(body)-1]); len(inner) > 0 {
		out.WriteByte(',')
		out.Write(inner)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// knownMeta is what every request of the newer era says of the client.
type knownMeta struct {
	version string
	members [2][]byte // without and with tasks
}

// ownMeta gives the members of _meta that are the same in every request; they are
// written once for each revision.
func (c *Conn) ownMeta(tasks bool) []byte {
	k := c.ownMetas.Load()
	if k == nil || k.version != c.Info.Version {
		k = &knownMeta{version: c.Info.Version}
		for i := range k.members {
			raw, err := json.Marshal(map[string]any{
				mcp.MetaKeyProtocolVersion: c.Info.Version, mcp.MetaKeyClientCapabilities: c.target.capabilities(i == 1), mcp.MetaKeyClientInfo: c.target.clientInfo(),
			})
			if err != nil { // strings and maps of them: can't fail
				panic(err)
			}
			k.members[i] = raw[1 : len(raw)-1]
		}
		c.ownMetas.Store(k)
	}
	if tasks {
		return k.members[1]
	}
	return k.members[0]
}

func (t *Target) clientInfo() map[string]any {
	return map[string]any{"name": "bulkhead", "version": t.ClientVersion}
}

// notified takes a notification; it runs on the transport's reader and must not
// block.
func (c *Conn) notified(n mcp.JSONRPCNotification) {
	f := n.Params.AdditionalFields
	switch n.Method {
	case "notifications/progress":
		token, _ := f["progressToken"].(string)
		c.mu.Lock()
		report := c.progress[token]
		c.mu.Unlock()
		if report != nil {
			done, _ := f["progress"].(float64)
			total, _ := f["total"].(float64)
			text, _ := f["message"].(string)
			report(done, total, clip(text, 1000))
		}
	case "notifications/tools/list_changed":
		c.changed(ToolsChanged)
	case "notifications/prompts/list_changed":
		c.changed(PromptsChanged)
	case "notifications/resources/list_changed":
		c.changed(ResourcesChanged)
	case "notifications/resources/updated":
		if uri, ok := f["uri"].(string); ok && c.events.ResourceUpdated != nil {
			c.events.ResourceUpdated(uri)
		}
	case "notifications/message":
		if ok, missed := c.logs.allow(); ok {
			c.log.Debug("log of the server", "level", clip(c.target.hide.Text(fmt.Sprint(f["level"])), 20), "data", clip(c.target.hide.Text(fmt.Sprint(f["data"])), 2000), "missed", missed)
		}
	}
}

func (c *Conn) changed(what Change) {
	if c.events.Changed != nil {
		c.events.Changed(what)
	}
}

// quiet turns the library's messages into debugging ones.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(demoted{log.Handler()}) }

type demoted struct{ slog.Handler }

func (d demoted) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

var _ http.RoundTripper = (*tripper)(nil)
