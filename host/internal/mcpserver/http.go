package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
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

// Caller is who sends a request over HTTP.
type Caller struct {
	Agent   *policy.Agent
	Session string // of a path /mcp/s/{id}, or empty
	// Lasts says that the request goes on until somebody ends it; an error refuses
	// that, for the agent has too many of those.
	Lasts func() error
}

// ServeHTTP serves one request of the Streamable HTTP transport.
func (core *Core) ServeHTTP(w http.ResponseWriter, r *http.Request, c Caller) {
	d, err := core.door(c.Agent.Name, true)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	out := &responder{ResponseWriter: w, control: http.NewResponseController(w)}
	switch r.Method {
	case http.MethodPost:
		d.post(out, r, c)
	case http.MethodGet, http.MethodDelete:
		id := r.Header.Get(server.HeaderKeySessionID)
		if id == "" && !modernHeader(r) {
			http.Error(out, noSessionID, http.StatusBadRequest)
			return
		}
		// The library would open a session for whatever id it is given.
		if _, err := d.ids.Validate(id); err != nil && !modernHeader(r) {
			http.Error(out, noSuchSession, http.StatusNotFound)
			return
		}
		if r.Method == http.MethodGet && !modernHeader(r) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			done, ok := d.ids.streams(id, cancel)
			if !ok {
				http.Error(out, noSuchSession, http.StatusNotFound)
				return
			}
			defer done()
			r = r.WithContext(ctx)
		}
		d.http.ServeHTTP(out, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

const noSessionID = "the header Mcp-Session-Id is missing: it carries the id that the answer to initialize had"

const noSuchSession = "no such session; initialize first"

func modernHeader(r *http.Request) bool {
	return mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
}

// modernMessage says whether a message names a revision without sessions.
func modernMessage(m gjson.Result) bool {
	return mcp.IsModernProtocol(m.Get(versionKey).Str)
}

const versionKey = `params._meta.io\.modelcontextprotocol/protocolVersion`

func (d *door) post(out *responder, r *http.Request, c Caller) {
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
		out.refuse(nil, mcp.PARSE_ERROR, "the message is "+err.Error())
		return
	}
	m := gjson.ParseBytes(message)
	method, request := m.Get("method"), m.Get("id")
	if f := malformed(m); f != "" {
		out.refuse(nil, mcp.INVALID_REQUEST, f)
		return
	}
	modern := modernMessage(m) || modernHeader(r)
	id := r.Header.Get(server.HeaderKeySessionID)
	if modern {
		id = "" // that revision has no sessions; a header of the older ones means nothing
		r.Header.Del(server.HeaderKeySessionID)
	}
	if !method.Exists() && request.Exists() && !modern {
		d.answered(out, id, m)
		return
	}
	if !modern && id == "" && method.Exists() && method.Str != string(mcp.MethodInitialize) {
		http.Error(out, noSessionID, http.StatusBadRequest)
		return
	}
	s, err := d.session(r, m, c.Agent, id, c.Session)
	if err != nil {
		status := http.StatusBadRequest
		if fault.From(err).Class == fault.NotFound {
			status = http.StatusNotFound
		}
		http.Error(out, err.Error(), status)
		return
	}
	if method.Str == string(mcp.MethodSubscriptionsListen) && c.Lasts != nil {
		if err := c.Lasts(); err != nil {
			out.Header().Set("Retry-After", "1")
			http.Error(out, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	x := &exchange{params: m.Get("params"), id: json.RawMessage(request.Raw), splice: rawObject{}}
	if s != nil {
		x.peer = &peer{agent: c.Agent, session: s, send: out.event, spawn: func(f func()) { go f() }}
		if id != "" {
			x.peer.ask = func(ctx context.Context, method string, params any) (json.RawMessage, error) {
				return d.pending.ask(ctx, id, method, params, out.event)
			}
		}
	}
	// Calls that pass the library by are cancelled here, the others there.
	if method.Str == "notifications/cancelled" && x.peer != nil && d.open.cancel(id, m.Get("params.requestId").Raw) {
		out.WriteHeader(http.StatusAccepted)
		return
	}
	if id != "" && x.peer != nil && method.Exists() && request.Exists() {
		done, ok := d.open.enter(id, request.Raw)
		if !ok {
			out.refuse(nil, mcp.INVALID_REQUEST, twice(request.Raw))
			return
		}
		defer done()
	}
	out.exchange = x
	if s != nil && method.Str == string(mcp.MethodToolsCall) && id != "" {
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
	if name != "" && modern {
		if err := sameNames(r, m); err != nil {
			out.exchange = nil
			out.refuse(x.id, mcp.HEADER_MISMATCH, err.Error())
			return
		}
		r.Header.Set(mcp.HeaderName, anyTool) // as the message has it inside
	}
	r = r.WithContext(withExchange(r.Context(), x))
	defer func() { x.listening.end() }()
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	d.http.ServeHTTP(out, r)
}

// answered takes what a client of the session era answers to a request of ours.
func (d *door) answered(out *responder, id string, m gjson.Result) {
	if id == "" {
		http.Error(out, noSessionID, http.StatusBadRequest)
		return
	}
	if _, err := d.ids.Validate(id); err != nil {
		http.Error(out, noSuchSession, http.StatusNotFound)
		return
	}
	// An empty result answers a ping, which nobody waits for.
	if result := m.Get("result"); !d.pending.answer(id, m) && (!result.IsObject() || len(result.Map()) > 0) {
		out.refuse(nil, mcp.INVALID_REQUEST, fmt.Sprintf("nothing waits for an answer to %.100s: it was answered, or the call that asked has ended", m.Get("id").Raw))
		return
	}
	out.WriteHeader(http.StatusAccepted)
}

// sameNames checks the headers that mirror a call against its message: the library
// would see the name that calls have inside. What it refuses before it compares
// these is left to it.
func sameNames(r *http.Request, m gjson.Result) error {
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	if version != m.Get(versionKey).Str {
		return nil
	}
	return mcp.ValidateStandardHeaders(r.Header.Get, version, mcp.MCPMethod(m.Get("method").Str), json.RawMessage(m.Get("params").Raw))
}

// refuse answers with a JSON-RPC error before anything else was answered.
func (o *responder) refuse(id json.RawMessage, code int, message string) {
	o.Header().Set("Content-Type", "application/json")
	o.WriteHeader(http.StatusBadRequest)
	_, _ = o.Write(mustJSON(rpcError(id, code, message))) // a client that left needs no word
}

// session is the one a message belongs to: by the protocol's own id up to
// 2025-11-25, else by metadata, header or path, else the agent's default one.
// Initialize and unknown ids have none; the library answers these.
func (d *door) session(r *http.Request, m gjson.Result, agent *policy.Agent, id, fixed string) (*session.Session, error) {
	if !modernMessage(m) {
		if id == "" {
			return nil, nil
		}
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
