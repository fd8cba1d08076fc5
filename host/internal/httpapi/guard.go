package httpapi

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
)

// bodyTime is how long a client may take to send a request's body.
const bodyTime = 30 * time.Second

type agentKey struct{}

// guarded admits a request to a TCP door: from a host name and an origin that are
// ours, with a token that belongs to an agent, or with none on loopback.
func (a *API) guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.hostAllowed(r.Host) {
			refuse(w, http.StatusForbidden, fault.New(fault.ForeignRequest, "host %.100q is not served here; name it in frontend \"http\" { hosts = [...] }", r.Host))
			return
		}
		if o := r.Header.Get("Origin"); o != "" && !a.originAllowed(o, r.Host) {
			refuse(w, http.StatusForbidden, fault.New(fault.ForeignRequest, "origin %.100q may not call; name it in frontend \"http\" { origins = [...] }", o))
			return
		}
		agent, err := a.authenticate(r)
		if err != nil {
			w.Header().Set("WWW-Authenticate", `Bearer realm="bulkhead"`)
			refuse(w, http.StatusUnauthorized, fault.From(err))
			return
		}
		// A body that trickles in must not hold a connection for ever; streams out
		// have deadlines of their own, a write each.
		control := http.NewResponseController(w)
		if err := control.SetReadDeadline(time.Now().Add(bodyTime)); err == nil && r.Method == http.MethodGet {
			_ = control.SetReadDeadline(time.Time{})
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), agentKey{}, agent)))
	})
}

func refuse(w http.ResponseWriter, status int, f *fault.Error) {
	write(w, status, map[string]any{"error": errorView(f)})
}

// authenticate finds the agent of a request.
func (a *API) authenticate(r *http.Request) (*policy.Agent, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return a.Policy.ByToken(strings.TrimSpace(token))
	}
	if scheme != "" {
		return nil, fault.New(fault.UnknownAgent, "the Authorization header must be Bearer TOKEN")
	}
	if !a.Loopback {
		return nil, fault.New(fault.UnknownAgent, "this address needs a token: Authorization: Bearer TOKEN")
	}
	return a.Policy.Agent(policy.DefaultAgent)
}

// hostAllowed keeps names out that a foreign DNS points here.
func (a *API) hostAllowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if slices.ContainsFunc(a.Hosts, func(h string) bool { return strings.EqualFold(h, name) || strings.EqualFold(h, host) }) {
		return true
	}
	if ip := net.ParseIP(name); ip != nil {
		return !a.Loopback || ip.IsLoopback()
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// originAllowed admits pages of our own address and those the config names.
func (a *API) originAllowed(origin, host string) bool {
	if slices.Contains(a.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// mcpHTTP is MCP's Streamable HTTP transport.
func (a *API) mcpHTTP(w http.ResponseWriter, r *http.Request) {
	agent, ok := r.Context().Value(agentKey{}).(*policy.Agent)
	if !ok {
		refuse(w, http.StatusUnauthorized, fault.New(fault.UnknownAgent, "nobody called"))
		return
	}
	a.MCP.ServeHTTP(w, r, agent, r.PathValue("id"))
}
