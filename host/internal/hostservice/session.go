package hostservice

import (
	"context"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// names checks that the plugin may list these tools: its own, others by grant.
func (s *service) names(names []string) error {
	if len(names) > maxNames {
		return fault.New(fault.BadArguments, "%d names at once; at most %d", len(names), maxNames)
	}
	snap := s.Calls.Registry.Snapshot()
	for _, n := range names {
		t, ok := snap.Tool(n)
		if !ok {
			return fault.New(fault.UnknownTool, "no tool %.80q to list", n)
		}
		if t.Owner != s.who.plugin && !s.Policy.Granted(s.who.plugin, "session") {
			return fault.New(fault.GrantMissing, "plugin %q may list only its own tools; for %q its block lacks grants = [\"session\"]", s.who.plugin, n)
		}
	}
	return nil
}

// SessionActivate lists tools in a session until newer ones push them out.
func (s *service) SessionActivate(ctx context.Context, r *pluginv1.SessionActivateRequest) (*pluginv1.SessionActivateResponse, error) {
	sc, err := s.inSession(ctx, r.Scope)
	if err == nil {
		err = s.names(r.Names)
	}
	if err != nil {
		return nil, wire(err)
	}
	dropped := sc.session.Activate(r.Names)
	return &pluginv1.SessionActivateResponse{Activated: r.Names, Dropped: dropped}, nil
}

// SessionPin replaces the names this plugin pinned under a set.
func (s *service) SessionPin(ctx context.Context, r *pluginv1.SessionPinRequest) (*pluginv1.SessionPinResponse, error) {
	sc, err := s.inSession(ctx, r.Scope)
	if err == nil {
		err = s.names(r.Names)
	}
	if err == nil && len(r.Set) > 128 {
		err = fault.New(fault.BadArguments, "the name of a set has at most 128 bytes")
	}
	if err != nil {
		return nil, wire(err)
	}
	sc.session.Pin(s.who.plugin+"/"+r.Set, r.Names)
	return &pluginv1.SessionPinResponse{}, nil
}

// SessionDeactivate takes tools off a session's list.
func (s *service) SessionDeactivate(ctx context.Context, r *pluginv1.SessionDeactivateRequest) (*pluginv1.SessionDeactivateResponse, error) {
	sc, err := s.inSession(ctx, r.Scope)
	if err == nil {
		err = s.names(r.Names)
	}
	if err != nil {
		return nil, wire(err)
	}
	sc.session.Deactivate(r.Names)
	return &pluginv1.SessionDeactivateResponse{}, nil
}

// SessionListed tells what the session's agent sees.
func (s *service) SessionListed(ctx context.Context, r *pluginv1.SessionListedRequest) (*pluginv1.SessionListedResponse, error) {
	sc, err := s.inSession(ctx, r.Scope)
	if err != nil {
		return nil, wire(err)
	}
	names, total, budget := s.Listed(sc.agent, sc.session)
	return &pluginv1.SessionListedResponse{Names: names, Total: uint32(total), Budget: uint32(budget)}, nil
}

// SessionTurns tells what was said last; it needs the grant "turns".
func (s *service) SessionTurns(ctx context.Context, r *pluginv1.SessionTurnsRequest) (*pluginv1.SessionTurnsResponse, error) {
	sc, err := s.inSession(ctx, r.Scope)
	if err == nil {
		err = s.grant("turns")
	}
	if err != nil {
		return nil, wire(err)
	}
	return &pluginv1.SessionTurnsResponse{Turns: sc.session.Turns(int(min(r.Last, 200)))}, nil
}
