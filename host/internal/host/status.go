package host

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/metrics"
)

// Status is the host and its plugins as they stand.
func (h *Host) Status() api.Status {
	s := api.Status{Host: api.HostStatus{PID: os.Getpid(), Version: h.opts.Version, StartedAt: h.started, Config: h.cfg().File, Doors: h.Doors},
		Plugins: []api.PluginStatus{}}
	tools, refused := map[string]int{}, map[string][]string{}
	snap := h.registry.Snapshot()
	for _, t := range snap.Tools() {
		tools[t.Owner]++
		if t.Rating.Note != "" {
			refused[t.Owner] = append(refused[t.Owner], fmt.Sprintf("%s %s", t.Name, t.Rating.Note))
		}
		if t.Mended != "" {
			refused[t.Owner] = append(refused[t.Owner], fmt.Sprintf("%s: %s", t.Name, t.Mended))
		}
	}
	for _, c := range snap.Conflicts {
		refused[c.Refused] = append(refused[c.Refused], c.String())
	}
	for _, p := range h.Plugins.Status() {
		v := api.PluginStatus{Name: p.Name, Binary: p.Binary, Version: p.Version, State: string(p.State), Detail: p.Detail, PID: p.PID,
			Generation: p.Generation, Restarts: p.Restarts, Tools: tools[p.Name], InFlight: p.InFlight, Queued: p.Queued,
			LastError: p.LastError, LastRef: p.LastRef, Tail: p.Tail, Refused: refused[p.Name]}
		for _, g := range p.MissingGrants {
			v.MissingGrants = append(v.MissingGrants, fmt.Sprintf("grants = [%q]", g))
		}
		if !p.NextAttempt.IsZero() {
			next := p.NextAttempt.UTC()
			v.NextAttempt = &next
		}
		if !p.LastErrorAt.IsZero() {
			at := p.LastErrorAt.UTC()
			v.LastErrorAt = &at
		}
		if p.Kept != "" {
			v.Kept = &api.Kept{Reason: p.Kept, Ref: p.KeptRef, Since: p.KeptSince.UTC()}
			s.Warnings = append(s.Warnings, fmt.Sprintf("plugin %q was not replaced at %s, what ran before goes on: %s (%s)",
				p.Name, p.KeptSince.UTC().Format(time.RFC3339), p.Kept, p.KeptRef))
		}
		if _, err := os.Stat(p.Binary); errors.Is(err, os.ErrNotExist) && p.PID != 0 {
			s.Warnings = append(s.Warnings, fmt.Sprintf("plugin %q runs on, but its binary %s is gone: once it ends it can't be started again", p.Name, p.Binary))
		}
		if p.Sandbox != nil {
			v.Sandbox = &api.Sandbox{Profile: p.Sandbox.Profile, Network: p.Sandbox.Network, InForce: p.Sandbox.InForce, Missing: p.Sandbox.Missing}
		}
		s.Plugins = append(s.Plugins, v)
	}
	for _, p := range h.cfg().Plugins {
		if !p.Enabled {
			s.Plugins = append(s.Plugins, api.PluginStatus{Name: p.Name, Binary: h.cfg().BinaryPath(p), State: "disabled"})
		}
	}
	s.Warnings = append(s.Warnings, h.staleness()...)
	for _, d := range unenforced(h.cfg()) {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s at %s", d.Summary, d.Subject))
	}
	h.mu.Lock()
	found := h.found
	h.mu.Unlock()
	for _, f := range found {
		if f.Problem != nil {
			s.Warnings = append(s.Warnings, f.Problem.Error())
		}
	}
	for _, w := range append(h.store.Warnings(), h.store.State()...) {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s (%s)", w.Message, w.Ref))
	}
	return s
}

func (h *Host) pluginMetrics() []metrics.Plugin {
	var out []metrics.Plugin
	for _, p := range h.Plugins.Status() {
		out = append(out, metrics.Plugin{Name: p.Name, State: string(p.State), Restarts: p.Restarts, InFlight: p.InFlight, Queued: p.Queued})
	}
	return out
}

func (h *Host) doorMetrics() metrics.Door { return metrics.Door(h.conns.Counts()) }
