package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
)

// maxStreams is how many streams one agent may have open: of events, and of MCP in
// either era.
const maxStreams = 64

// RequestShare is how many requests one agent may have in hand where connections
// many are admitted: a quarter, so that no single one shuts the others out.
func RequestShare(connections int) int {
	return max(connections/4, min(32, connections/2), 1)
}

// hands are the requests in hand, by agent. They are bounded, and end with the
// rights they were let in by.
type hands struct {
	mu   sync.Mutex
	open map[string]*grip
}

// grip is what one agent has in hand.
type grip struct {
	requests map[*hand]struct{}
	streams  int
}

// hand is one request in hand.
type hand struct {
	all    *hands
	agent  string
	share  int
	door   bool // it came through TCP, where a token lets in
	stream bool
	cancel context.CancelCauseFunc
}

var errRulesChanged = fault.New(fault.UnknownAgent, "the agent was changed or removed in the config")

// take notes a request of an agent; the context it returns ends when the agent
// loses what let it in. share bounds what the agent has in hand, 0 does not.
func (hs *hands) take(ctx context.Context, agent string, door bool, share int) (context.Context, *hand, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	h := &hand{all: hs, agent: agent, share: share, door: door, cancel: cancel}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	g := hs.open[agent]
	if g == nil {
		g = &grip{requests: map[*hand]struct{}{}}
		if hs.open == nil {
			hs.open = map[string]*grip{}
		}
		hs.open[agent] = g
	}
	if share > 0 && len(g.requests) >= share {
		cancel(nil)
		return ctx, nil, fault.New(fault.HostBusy, "agent %q has %d requests in hand; let some end first", agent, share)
	}
	g.requests[h] = struct{}{}
	return ctx, h, nil
}

// leave gives the request's place back.
func (h *hand) leave() {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.cancel(nil)
	g := h.all.open[h.agent]
	delete(g.requests, h)
	if h.stream {
		g.streams--
	}
	if len(g.requests) == 0 {
		delete(h.all.open, h.agent)
	}
}

// lasts says that the request goes on until somebody ends it. An agent's streams
// never take all of its share.
func (h *hand) lasts() error {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	most := maxStreams
	if h.share > 0 {
		most = min(most, max(1, h.share/2))
	}
	g := h.all.open[h.agent]
	if g.streams >= most {
		return fault.New(fault.HostBusy, "agent %q has %d streams open; close some", h.agent, most)
	}
	h.stream = true
	g.streams++
	return nil
}

// end cancels an agent's requests that which picks.
func (hs *hands) end(agent string, which func(*hand) bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	g := hs.open[agent]
	if g == nil {
		return
	}
	for h := range g.requests {
		if which(h) {
			h.cancel(errRulesChanged)
		}
	}
}

// Changed ends what agents have open that new rules took the ground from. Whoever
// is gone loses every request; a new token or other rights end streams and MCP
// sessions, and let what is being done end by itself. Who came through the control
// socket needed no token, and is asked for its rights at every message.
func (a *API) Changed(c policy.Changes) {
	a.MCP.Changed(c)
	for _, name := range c.Gone {
		a.hands.end(name, func(*hand) bool { return true })
	}
	for _, name := range c.Changed {
		a.hands.end(name, func(h *hand) bool { return h.stream && h.door })
	}
}

// inHand runs a request of an agent as one that is in hand. The rules may have
// changed since the agent was found: only what is noted first and asked then is
// sure to be ended by the next change.
func (a *API) inHand(w http.ResponseWriter, r *http.Request, who who, refuse refuser, rt route) {
	share := a.Share
	if who.operator {
		share = 0
	}
	ctx, h, err := a.hands.take(r.Context(), who.agent.Name, !who.operator, share)
	if err != nil {
		f := fault.From(err)
		refuse(w, r, statusFor(err, f), f)
		return
	}
	defer h.leave()
	now, err := a.Policy.Agent(who.agent.Name)
	if err != nil || !who.operator && !now.SameToken(who.agent) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="bulkhead"`)
		refuse(w, r, http.StatusUnauthorized, errRulesChanged)
		return
	}
	who.agent, who.hand = now, h
	if rt.access == approver && !who.all() {
		refuse(w, r, http.StatusForbidden, fault.New(fault.NotApprover, "agent %q is no approver and may not do this", who.agent.Name))
		return
	}
	if f := media(r, strings.HasPrefix(rt.pattern, "/mcp")); f != nil {
		w.Header().Set("Accept-Encoding", "identity")
		refuse(w, r, statusFor(f, f), f)
		return
	}
	rt.handle(w, r.WithContext(ctx), who)
}
