package httpapi

import (
	"context"
	"net/http"
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
	Hold      time.Duration // how long a call waits for an answer before it says so
	Shared    string        // the real folder that tools call /shared
	Loopback  bool          // the TCP address is a loopback one: no token is needed
	Hosts     []string      // host names served beside the loopback ones
	Origins   []string      // origins that may call beside our own
	Status    func() api.Status
	Reload    func(context.Context) (notes []string, err error)
	Ready     func() bool
	Metrics   http.Handler
	Log       hclog.Logger

	// Share is how many requests one agent may have in hand on TCP; see RequestShare.
	Share int

	hands   hands
	guesses guesses
}

const (
	maxBody        = 4 << 20 // bytes of a request on TCP
	maxControlBody = 8 << 20 // on the control socket; the pipeline bounds arguments again
)

// access is what a route asks of its caller.
type access int

const (
	anyone   access = iota // without a token too
	agents                 // an agent, by token or on loopback; or the operator
	approver               // an agent that is an approver, or the operator
	control                // the control socket only
)

type route struct {
	pattern string
	access  access
	handle  func(http.ResponseWriter, *http.Request, who)
	refuse  refuser // nil: the plain form
}

// refuser answers with an error in the form of a route.
type refuser = func(http.ResponseWriter, *http.Request, int, *fault.Error)

// routes is everything both doors serve.
func (a *API) routes() []route {
	value := func(pattern string, access access, h func(*http.Request, who) (any, error)) route {
		return route{pattern: pattern, access: access, handle: func(w http.ResponseWriter, r *http.Request, who who) {
			v, err := h(r, who)
			if err != nil {
				fail(w, err)
				return
			}
			write(w, http.StatusOK, v)
		}}
	}
	return []route{
		value("GET /healthz", anyone, a.health),
		{pattern: "GET /readyz", access: anyone, handle: a.ready},
		{pattern: "GET /metrics", access: agents, handle: a.metrics},
		{pattern: "/mcp", access: agents, handle: a.mcpHTTP},
		{pattern: "/mcp/s/{id}", access: agents, handle: a.mcpHTTP},
		{pattern: "POST /v1/mcp", access: control, handle: a.mcp},

		value("GET /v1/status", agents, a.status),
		value("GET /v1/plugins", agents, a.plugins),
		value("GET /v1/plugins/{name}", agents, a.plugin),
		value("POST /v1/plugins/{name}/{action}", approver, a.act),
		value("POST /v1/reload", approver, a.reload),

		value("GET /v1/tools", agents, a.tools),
		value("GET /v1/tools/{name}", agents, a.tool),
		{pattern: "POST /v1/tools/{name}/call", access: agents, handle: a.call, refuse: refuseCall},
		value("GET /v1/guides", agents, a.guides),
		value("GET /v1/guides/{name}", agents, a.guide),

		value("GET /v1/questions", agents, a.questions),
		value("GET /v1/questions/{id}", agents, a.question),
		value("POST /v1/questions/{id}", agents, a.answer),

		value("GET /v1/sessions/{id}/inbox", agents, a.inbox),
		value("POST /v1/sessions/{id}/turns", agents, a.turns),
		value("GET /v1/sessions/{id}/context", agents, a.context),
		{pattern: "GET /v1/files/{id}", access: agents, handle: a.file},

		value("GET /v1/schedule", agents, a.schedule),
		{pattern: "GET /v1/schedule.ics", access: agents, handle: a.calendar},
		value("GET /v1/schedule/{name}", agents, a.scheduled),
		value("POST /v1/schedule/{name}/{action}", agents, a.steer),

		{pattern: "GET /v1/events", access: agents, handle: a.events},
		value("GET /v1/audit", agents, a.audit),
	}
}

// Public is the handler of the TCP address.
func (a *API) Public() http.Handler {
	mux := a.mux(func(r *http.Request) (who, error) {
		agent, err := a.authenticate(r)
		return who{agent: agent}, err
	})
	return a.door(mux)
}

// Control is the handler of the control socket.
func (a *API) Control() http.Handler {
	mux := a.mux(func(r *http.Request) (who, error) {
		agent, err := a.named(r)
		return who{agent: agent, operator: true}, err
	})
	return http.MaxBytesHandler(paced(mux), maxControlBody)
}

// mux serves the routes to whoever find says calls.
func (a *API) mux(find func(*http.Request) (who, error)) http.Handler {
	mux := http.NewServeMux()
	for _, rt := range a.routes() {
		refuse := rt.refuse
		if refuse == nil {
			refuse = refused
		}
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			if rt.access == anyone {
				rt.handle(w, r, who{})
				return
			}
			who, err := find(r)
			switch {
			case err != nil && who.operator:
				f := fault.From(err)
				refuse(w, r, statusOf(f.Class), f)
			case err != nil:
				a.unknown(w, r, err, refuse)
			case rt.access == control && !who.operator:
				nothing(w, r)
			default:
				a.inHand(w, r, who, refuse, rt)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		misses := miss{header: http.Header{}}
		h.ServeHTTP(&misses, r)
		if allow := misses.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
			write(w, http.StatusMethodNotAllowed, map[string]any{"error": api.Error{Code: string(fault.InvalidArguments), Message: "served here is " + allow}})
			return
		}
		nothing(w, r)
	})
}

// miss hears what the mux has to say of a request that fits no route.
type miss struct{ header http.Header }

func (m *miss) Header() http.Header         { return m.header }
func (m *miss) WriteHeader(int)             {}
func (m *miss) Write(b []byte) (int, error) { return len(b), nil }

func nothing(w http.ResponseWriter, r *http.Request) {
	write(w, http.StatusNotFound, map[string]any{"error": api.Error{Code: string(fault.NotFound), Message: "nothing is served at " + clip(r.URL.Path)}})
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

func (a *API) health(*http.Request, who) (any, error) { return map[string]string{"status": "ok"}, nil }

func (a *API) ready(w http.ResponseWriter, _ *http.Request, _ who) {
	if !a.Ready() {
		w.Header().Set("Retry-After", "1")
		write(w, http.StatusServiceUnavailable, map[string]string{"status": "starting"})
		return
	}
	write(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (a *API) metrics(w http.ResponseWriter, r *http.Request, _ who) { a.Metrics.ServeHTTP(w, r) }
