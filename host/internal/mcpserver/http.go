package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
)

const (
	maxBody     = 4 << 20          // bytes of one message over HTTP
	sessionIdle = 12 * time.Hour   // of a session nobody uses
	keepAlive   = 30 * time.Second // between pings on a listening stream

	// HeaderSession names a session where the protocol has none.
	HeaderSession = "Bulkhead-Session"
)

func newHTTP(d *door) *server.StreamableHTTPServer {
	return server.NewStreamableHTTPServer(d.lib,
		server.WithSessionIdManager(d.ids), server.WithSessionIdleTTL(sessionIdle), server.WithHeartbeatInterval(keepAlive),
		server.WithDisableLocalhostProtection(true), // Host and Origin are checked before anything else is read
		server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
}

// ServeHTTP serves one request of the Streamable HTTP transport, as agent. fixed
// is the session of a path /mcp/s/{id}, or empty.
func (core *Core) ServeHTTP(w http.ResponseWriter, r *http.Request, agent *policy.Agent, fixed string) {
	d := core.door(agent)
	out := &responder{ResponseWriter: w, control: http.NewResponseController(w)}
	switch r.Method {
	case http.MethodPost:
		d.post(out, r, agent, fixed)
	case http.MethodGet, http.MethodDelete:
		// The library would open a session for whatever id it is given.
		if _, err := d.ids.Validate(r.Header.Get(server.HeaderKeySessionID)); err != nil && !modernHeader(r) {
			http.Error(out, "no such session; initialize first", http.StatusNotFound)
			return
		}
		d.http.ServeHTTP(out, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

func modernHeader(r *http.Request) bool {
	return mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
}

// modernMessage says whether a message names a revision without sessions.
func modernMessage(m gjson.Result) bool {
	return mcp.IsModernProtocol(m.Get(`params._meta.io\.modelcontextprotocol/protocolVersion`).Str)
}

func (d *door) post(out *responder, r *http.Request, agent *policy.Agent, fixed string) {
	message, err := io.ReadAll(http.MaxBytesReader(out, r.Body, maxBody))
	if err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			http.Error(out, "a message has at most 4 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(out, "the message could not be read", http.StatusBadRequest)
		return
	}
	// The guard's deadline was for the body; now only a client that leaves ends the read.
	_ = out.control.SetReadDeadline(time.Time{})
	if err := content.Check(message); err != nil {
		write := rpcError(nil, mcp.PARSE_ERROR, "the message is "+err.Error())
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(http.StatusBadRequest)
		_, _ = out.Write(mustJSON(write)) // a client that left needs no word
		return
	}
	m := gjson.ParseBytes(message)
	id := r.Header.Get(server.HeaderKeySessionID)
	if modernMessage(m) {
		id = "" // that revision has no sessions; a header of the older ones means nothing
		r.Header.Del(server.HeaderKeySessionID)
	}
	if !m.Get("method").Exists() && m.Get("id").Exists() {
		if _, err := d.ids.Validate(id); err == nil && d.pending.answer(id, m) {
			out.WriteHeader(http.StatusAccepted)
			return
		}
	}
	s, err := d.session(r, m, agent, id, fixed)
	if err != nil {
		status := http.StatusBadRequest
		if fault.From(err).Class == fault.NotFound {
			status = http.StatusNotFound
		}
		http.Error(out, err.Error(), status)
		return
	}
	x := &exchange{params: m.Get("params"), id: json.RawMessage(m.Get("id").Raw), splice: rawObject{}}
	if s != nil {
		x.peer = &peer{agent: agent, session: s, send: out.event, spawn: func(f func()) { go f() }}
		if id != "" {
			x.peer.ask = func(ctx context.Context, method string, params any) (json.RawMessage, error) {
				return d.pending.ask(ctx, id, method, params, out.event)
			}
		}
	}
	// Calls that pass the library by are cancelled here, the others there.
	if m.Get("method").Str == "notifications/cancelled" && x.peer != nil && d.cancels.cancel(id, m.Get("params.requestId").Raw) {
		out.WriteHeader(http.StatusAccepted)
		return
	}
	out.exchange = x
	if s != nil && m.Get("method").Str == string(mcp.MethodToolsCall) && id != "" {
		before := s.Version()
		out.before = func() { // the list changed by this call: said before its result
			if s.Version() != before {
				_ = out.event(map[string]any{"jsonrpc": "2.0", "method": mcp.MethodNotificationToolsListChanged})
			}
		}
	}
	if d.direct(out, r, m, x, id) {
		return
	}
	body, name := d.toLibrary(message)
	switch said := r.Header.Get(mcp.HeaderName); {
	case name == "":
	case said == name: // where header and message agree they still do
		r.Header.Set(mcp.HeaderName, anyTool)
	case said == anyTool: // and where not, the library says so
		r.Header.Set(mcp.HeaderName, anyTool+anyTool)
	}
	r = r.WithContext(withExchange(r.Context(), x))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	d.http.ServeHTTP(out, r)
}

// session is the one a message belongs to: by the protocol's own id up to
// 2025-11-25, else by metadata, header or path, else the agent's default one.
// Initialize and unknown ids have none; the library answers these.
func (d *door) session(r *http.Request, m gjson.Result, agent *policy.Agent, id, fixed string) (*session.Session, error) {
	if !modernMessage(m) {
		if _, err := d.ids.Validate(id); err != nil {
			return nil, nil
		}
		return d.core.Sessions.Open(r.Context(), agent, id)
	}
	named := m.Get(`params._meta.dev\.bulkhead/session`).Str
	for _, name := range []string{named, r.Header.Get(HeaderSession), fixed, "default:" + agent.Name} {
		if name != "" {
			return d.core.Sessions.Open(r.Context(), agent, name)
		}
	}
	return nil, nil
}

// responder writes the answer of one POST. The library writes through it; what
// handlers left as bytes is spliced in on the way, and messages of ours go out
// before the answer, for which the answer becomes a stream.
type responder struct {
	http.ResponseWriter
	control  *http.ResponseController
	exchange *exchange
	before   func() // runs once, right before the answer

	mu     sync.Mutex
	status int
	stream bool
}

// Unwrap lets the response controller reach the connection.
func (o *responder) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// WriteHeader waits for the first byte: until then it is not known whether the
// answer is a stream.
func (o *responder) WriteHeader(status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.status == 0 {
		o.status = status
	}
	if o.exchange == nil || status != http.StatusOK {
		o.head()
	}
}

// head sends status and headers once.
func (o *responder) head() {
	if o.stream {
		return
	}
	if strings.HasPrefix(o.Header().Get("Content-Type"), "text/event-stream") {
		o.stream = true
	}
	o.ResponseWriter.WriteHeader(o.status)
}

// event sends a message of ours; the answer is a stream from then on.
func (o *responder) event(v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.upgrade()
	if err := o.write("event: message\ndata: ", raw, "\n\n"); err != nil {
		return err
	}
	return o.control.Flush()
}

func (o *responder) upgrade() {
	if o.stream {
		return
	}
	h := o.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Del("Content-Length")
	o.status = http.StatusOK
	o.head()
}

func (o *responder) write(before string, raw []byte, after string) error {
	for _, part := range [][]byte{[]byte(before), raw, []byte(after)} {
		if len(part) == 0 {
			continue
		}
		if _, err := o.ResponseWriter.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Write takes what the library writes: a JSON body in one piece, or one event of
// a stream.
func (o *responder) Write(p []byte) (int, error) {
	if o.exchange == nil {
		return o.ResponseWriter.Write(p)
	}
	before, data, after := cut(p)
	answer := gjson.GetBytes(data, "id").Exists() && !gjson.GetBytes(data, "method").Exists()
	if answer {
		if o.before != nil {
			o.before()
			o.before = nil
		}
		data = o.exchange.finish(bytes.TrimRight(data, "\n"))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.status == 0 {
		o.status = http.StatusOK
	}
	switch {
	case o.stream && before == "" && len(data) > 0: // the library does not know that this became a stream
		before, data, after = "event: message\ndata: ", content.Line(data), "\n\n"
	case o.stream:
		data = content.Line(data) // an event's data has no line ends of its own
	case !o.stream:
		if f := o.exchange.failure; answer && f != nil && f.status != 0 {
			o.status = f.status
		}
		o.head()
	}
	return len(p), o.write(before, data, after)
}

// cut takes an event apart; what is no event is all data.
func cut(p []byte) (before string, data []byte, after string) {
	if !bytes.HasPrefix(p, []byte("event:")) && !bytes.HasPrefix(p, []byte("id:")) && !bytes.HasPrefix(p, []byte("data:")) {
		return "", p, ""
	}
	head, rest, ok := bytes.Cut(p, []byte("data: "))
	if !ok {
		return "", p, ""
	}
	line, tail, _ := bytes.Cut(rest, []byte("\n"))
	return string(head) + "data: ", line, "\n" + string(tail)
}

// Flush sends what was written so far. A stream the library opens before it has
// anything to say sends its head.
func (o *responder) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.exchange != nil && !o.stream {
		if o.status == 0 || !strings.HasPrefix(o.Header().Get("Content-Type"), "text/event-stream") {
			return
		}
		o.head()
	}
	_ = o.control.Flush() // a reader that left shows at the next write
}
