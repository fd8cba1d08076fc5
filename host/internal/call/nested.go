package call

import (
	"context"
	"slices"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Nested is a call that a plugin makes.
type Nested struct {
	Plugin    string
	Tool      string
	Arguments []byte
	Timeout   time.Duration
	// OwnSource, when set, is the source the tool must have, and Plugin its owner.
	OwnSource string
	Events    func(*pluginv1.InvokeEvent)
}

// CallWithin runs a nested call in the name of a running one: as its agent and
// its session, within its time, and cancelled with it.
func (p *Pipeline) CallWithin(ctx context.Context, live Live, n Nested) *Reply {
	parent := live.l.call
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(live.l.ctx, func() { cancel(context.Cause(live.l.ctx)) })
	defer stop()
	who := parent.Caller
	who.Door = "plugin"
	return p.run(ctx, &call{
		Request: &Request{Caller: who, Tool: n.Tool, Arguments: n.Arguments, Timeout: n.Timeout, Raw: true,
			Events: n.Events, TraceParent: parent.TraceParent, Hold: live.Root().Hold, Asked: live.Root().Asked},
		name: n.Tool, args: n.Arguments, attempt: &pluginv1.Attempt{}, ownSource: n.OwnSource,
		chain: append(slices.Clone(parent.chain), n.Plugin), parent: parent,
	})
}

// CallFor runs a nested call of a plugin that acts for a session by a handle, or
// as itself (agent and session nil).
func (p *Pipeline) CallFor(ctx context.Context, agent *policy.Agent, s *session.Session, n Nested) *Reply {
	who := Caller{Agent: agent, Session: s, Door: "plugin", ModelTier: "balanced"}
	if agent != nil && agent.ModelTier != "" {
		who.ModelTier = agent.ModelTier
	}
	return p.run(ctx, &call{
		Request: &Request{Caller: who, Tool: n.Tool, Arguments: n.Arguments, Timeout: n.Timeout, Raw: true, Events: n.Events},
		name:    n.Tool, args: n.Arguments, attempt: &pluginv1.Attempt{}, ownSource: n.OwnSource,
		chain: []string{n.Plugin},
	})
}
