package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/mcpserver"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
)

// Plugins is what operators do to plugins; the supervisor does it.
type Plugins interface {
	Restart(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
	Start(ctx context.Context, name string) error
}

// API serves one host. Its fields are set once.
type API struct {
	Pipeline  *call.Pipeline
	Registry  *registry.Registry
	Policy    *policy.Policy
	Sessions  *session.Sessions
	Questions *question.Desk
	Store     *store.Store
	Events    *event.Bus
	Plugins   Plugins
	MCP       *mcpserver.Core
	Budget    int
	Loopback  bool     // the TCP address is a loopback one: no token is needed
	Hosts     []string // host names served beside the loopback ones
	Origins   []string // origins that may call beside our own
	Status    func() api.Status
	Reload    func(context.Context) error
	Ready     func() bool
	Log       hclog.Logger
}

const maxBody = 8 << 20 // bytes; arguments are bounded again by the pipeline

// Public is the handler of the TCP address.
func (a *API) Public() http.Handler {
	mux := http.NewServeMux()
	a.health(mux)
	mux.Handle("/mcp", a.guarded(http.HandlerFunc(a.mcpHTTP)))
	mux.Handle("/mcp/s/{id}", a.guarded(http.HandlerFunc(a.mcpHTTP)))
	return mux
}

// Control is the handler of the control socket.
func (a *API) Control() http.Handler {
	mux := http.NewServeMux()
	a.health(mux)
	get := func(path string, h func(*http.Request) (any, error)) { mux.Handle("GET "+path, a.json(h)) }
	post := func(path string, h func(*http.Request) (any, error)) { mux.Handle("POST "+path, a.json(h)) }
	get("/v1/status", func(*http.Request) (any, error) { return a.Status(), nil })
	get("/v1/tools", a.tools)
	get("/v1/tools/{name}", a.tool)
	mux.HandleFunc("POST /v1/tools/{name}/call", a.call)
	get("/v1/questions", a.questions)
	get("/v1/questions/{id}", a.question)
	post("/v1/questions/{id}", a.answer)
	get("/v1/guides", a.guides)
	get("/v1/guides/{name}", a.guide)
	get("/v1/sessions/{id}/inbox", a.inbox)
	mux.HandleFunc("GET /v1/events", a.events)
	post("/v1/plugins/{name}/{action}", a.plugin)
	post("/v1/reload", func(r *http.Request) (any, error) {
		if err := a.Reload(r.Context()); err != nil {
			return nil, err
		}
		return a.Status(), nil
	})
	mux.HandleFunc("POST /v1/mcp", a.mcp)
	return http.MaxBytesHandler(mux, maxBody)
}

func (a *API) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !a.Ready() {
			write(w, http.StatusServiceUnavailable, map[string]string{"status": "starting"})
			return
		}
		write(w, http.StatusOK, map[string]string{"status": "ready"})
	})
}

// json adapts a handler that answers with a value or an error.
func (a *API) json(h func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := h(r)
		if err != nil {
			fail(w, err)
			return
		}
		write(w, http.StatusOK, v)
	})
}

func write(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // a reader that left needs no word
}

func fail(w http.ResponseWriter, err error) {
	f := fault.From(err)
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
	}
	write(w, status(f.Class), map[string]any{"error": errorView(f)})
}

func errorView(f *fault.Error) *api.Error {
	return &api.Error{Code: string(f.Class), Message: f.Message, Retryable: f.Retryable, Ref: string(f.Ref), RetryAfterMs: f.RetryAfter.Milliseconds()}
}

func status(c fault.Class) int {
	switch c {
	case fault.InvalidArguments:
		return http.StatusBadRequest
	case fault.Denied:
		return http.StatusForbidden
	case fault.ToolNotFound, fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Timeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// agent is who calls: the one named, else the default.
func (a *API) agent(r *http.Request) (*policy.Agent, error) {
	name := r.Header.Get(api.HeaderAgent)
	if name == "" {
		name = policy.DefaultAgent
	}
	return a.Policy.Agent(name)
}

// operator is who answers on the control socket: the host's own user.
func operator() question.By {
	return question.By{Name: policy.Operator, Approver: true, Person: true}
}

func body(r *http.Request, v any) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			return fault.New(fault.ArgumentsTooBig, "the request body is over %d bytes", tooBig.Limit)
		}
		return fault.New(fault.BadJSON, "the body could not be read: %w", err)
	}
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fault.New(fault.BadJSON, "the body is not the JSON expected: %w", err)
	}
	return nil
}

func (a *API) plugin(r *http.Request) (any, error) {
	name := r.PathValue("name")
	act := map[string]func(context.Context, string) error{
		"restart": a.Plugins.Restart, "stop": a.Plugins.Stop, "start": a.Plugins.Start}[r.PathValue("action")]
	if act == nil {
		return nil, fault.New(fault.BadArguments, "unknown action %q: restart, stop or start", r.PathValue("action"))
	}
	ctx, end := context.WithTimeout(r.Context(), time.Minute)
	defer end()
	if err := act(ctx, name); err != nil {
		return nil, err
	}
	for _, p := range a.Status().Plugins {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fault.New(fault.UnknownPlugin, "no plugin %q", name)
}
