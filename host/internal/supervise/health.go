package supervise

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// maxMisses probes in a row without an answer recycle a plugin.
const maxMisses = 3

// probe asks for the plugin's health until the generation ends.
func (g *generation) probe() {
	opts := &g.u.s.opts
	tick := time.NewTicker(opts.HealthInterval)
	defer tick.Stop()
	for misses := 0; ; {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(g.ctx, opts.HealthTimeout)
		health, err := g.proc.Client().Health(ctx, &pluginv1.HealthRequest{})
		cancel()
		if g.ctx.Err() != nil {
			return
		}
		switch {
		case err == nil:
			misses = 0
			g.u.health(g, health)
		case status.Code(err) == codes.Unimplemented:
			misses = 0
		default:
			misses++
			g.u.log.Warn("no answer to a health probe", "misses", misses, "of", maxMisses)
		}
		if misses >= maxMisses {
			select {
			case g.sick <- fault.New(fault.PluginDied, "plugin %q was killed: it left %d health probes in a row unanswered for %s each", g.u.name, maxMisses, opts.HealthTimeout):
			default:
			}
			return
		}
	}
}

// health moves between ready and degraded.
func (u *unit) health(g *generation, h *pluginv1.HealthResponse) {
	u.mu.Lock()
	state, detail := u.state, u.detail
	u.mu.Unlock()
	if u.cur.Load() != g || state != Ready && state != Degraded {
		return
	}
	bad := h.GetStatus() == pluginv1.HealthResponse_STATUS_DEGRADED
	switch {
	case bad && (state == Ready || detail != h.GetDetail()):
		u.setFrom(state, Degraded, h.GetDetail())
	case !bad && state == Degraded:
		u.setFrom(state, Ready, "")
	}
}

// setFrom changes the state unless it was changed meanwhile.
func (u *unit) setFrom(from, to State, detail string) {
	u.mu.Lock()
	same := u.state == from
	u.mu.Unlock()
	if same {
		u.set(to, detail)
	}
}
