package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
)

// status is the host and its plugins. An agent without the power to approve sees
// of it what it needs to know: whether what it may call is there.
func (a *API) status(_ *http.Request, who who) (any, error) {
	s := a.Status()
	if who.all() {
		return s, nil
	}
	return api.AgentStatus{Host: api.AgentHost{Version: s.Host.Version, StartedAt: s.Host.StartedAt}, Plugins: a.mine(who)}, nil
}

// mine is the plugins an agent may call tools of.
func (a *API) mine(who who) []api.AgentPlugin {
	count := map[string]int{}
	for _, t := range listing.Callable(a.Registry.Snapshot(), who.agent) {
		count[t.Owner]++
	}
	out := []api.AgentPlugin{}
	for _, p := range a.Status().Plugins {
		if n := count[p.Name]; n > 0 {
			out = append(out, api.AgentPlugin{Name: p.Name, Version: p.Version, State: p.State, Tools: n, NextAttempt: p.NextAttempt})
		}
	}
	return out
}

func (a *API) plugins(_ *http.Request, who who) (any, error) {
	if who.all() {
		return a.Status().Plugins, nil
	}
	return a.mine(who), nil
}

func (a *API) plugin(r *http.Request, who who) (any, error) {
	name := r.PathValue("name")
	if !who.all() {
		for _, p := range a.mine(who) {
			if p.Name == name {
				return p, nil
			}
		}
		return nil, noPlugin(name)
	}
	for _, p := range a.Status().Plugins {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, noPlugin(name)
}

func noPlugin(name string) error { return fault.New(fault.UnknownPlugin, "no plugin %.80q", name) }

func (a *API) act(r *http.Request, who who) (any, error) {
	act := map[string]func(context.Context, string) error{
		"restart": a.Plugins.Restart, "stop": a.Plugins.Stop, "start": a.Plugins.Start}[r.PathValue("action")]
	if act == nil {
		return nil, fault.New(fault.BadArguments, "unknown action %.40q: restart, stop or start", r.PathValue("action"))
	}
	ctx, end := context.WithTimeout(r.Context(), time.Minute)
	defer end()
	if err := act(ctx, r.PathValue("name")); err != nil {
		return nil, err
	}
	return a.plugin(r, who)
}

func (a *API) reload(r *http.Request, _ who) (any, error) {
	notes, err := a.Reload(r.Context())
	if err != nil {
		return nil, err
	}
	return api.Reloaded{Status: a.Status(), Notes: append([]string{}, notes...)}, nil
}

// audit is the trail of calls: an agent's own, or with the power to approve all.
func (a *API) audit(r *http.Request, who who) (any, error) {
	after, err := number(r, "after")
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit")
	if err != nil {
		return nil, err
	}
	from := int64(after)
	if r.URL.Query().Get("after") == "" {
		from = -1 // the last ones
	}
	whose := ""
	if !who.all() {
		whose = who.agent.Name
	}
	if err := a.Store.AuditFlush(r.Context()); err != nil {
		return nil, err
	}
	rows, err := a.Store.AuditTailOf(r.Context(), whose, from, int(min(limit, 1000)))
	if err != nil {
		return nil, err
	}
	out := make([]api.AuditRow, len(rows))
	for i, x := range rows {
		out[i] = api.AuditRow{Seq: x.Seq, At: x.At, CallID: x.CallID, ParentCallID: x.ParentCallID, Agent: x.Agent, Session: x.Session,
			Tool: x.Tool, Plugin: x.Plugin, Tier: x.Tier, Door: x.Door, Status: x.Status, Ref: x.Ref, DurationMs: x.DurationMs,
			ArgsHash: x.ArgsHash, ArgsBytes: x.ArgsBytes, ResultBytes: x.ResultBytes, Arguments: content.Valid(x.Arguments), Result: string(x.Result), Note: x.Note}
	}
	return out, nil
}
