package call

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// dispatch sends one round of the call to its owner and waits for the result,
// under the host's clock and the caller's cancel. A call that died with its
// plugin is repeated once when it provably was not sent, or when its tool says
// that repeating does no harm.
func (p *Pipeline) dispatch(ctx context.Context, c *call) (*pluginv1.Result, error) {
	owner, timeout := c.owner(), p.timeout(c)
	ctx, clock, stop := startClock(ctx, timeout, c.name)
	defer stop(context.Canceled)
	c.clock = clock

	if owner == registry.Host {
		return p.Own.Invoke(ctx, c.Caller, c.tool.Name, c.args)
	}
	id := c.id
	for attempt := 0; ; attempt++ {
		result, sent, err := p.send(ctx, stop, c, owner, id, timeout)
		if err == nil {
			return result, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause // the clock or the caller ended it, whatever the RPC says
		}
		var f *fault.Error
		died := errors.As(err, &f) && f.Ref == fault.PluginDied
		harmless := c.tool != nil && (c.tool.Rating.Idempotent || c.tool.ReadOnly)
		if attempt > 0 || !died || (sent && !harmless) {
			return nil, err
		}
		// A new id: the old one ended with the process it was given to.
		c.attempt.RetryOfCallId = id
		id = newID()
	}
}

// send makes the call known under id for as long as it runs, so that the plugin
// can call back in its name, and invokes the plugin.
func (p *Pipeline) send(ctx context.Context, cancel context.CancelCauseFunc, c *call, owner, id string, timeout time.Duration) (*pluginv1.Result, bool, error) {
	live := &liveCall{call: c, owner: owner, ctx: ctx, cancel: cancel}
	p.live.Store(id, live)
	defer p.live.Delete(id)

	req := &pluginv1.InvokeRequest{
		CallId: id, Kind: c.Kind, Name: c.name, Arguments: c.args,
		Attempt: c.attempt, TraceParent: c.TraceParent, LogLevel: c.LogLevel,
		DeadlineMs: timeout.Milliseconds(), Completion: c.Completion,
		Run: p.facts(c),
	}
	if c.tool != nil {
		req.Name = c.tool.Name
	}
	if req.Kind == pluginv1.InvokeRequest_KIND_UNSPECIFIED {
		req.Kind = pluginv1.InvokeRequest_KIND_TOOL
	}
	if c.Session != nil && c.Agent != nil {
		ref, err := p.Sessions.Handle(ctx, owner, c.Agent, c.Session)
		if err != nil {
			return nil, false, err
		}
		req.SessionRef = ref
	}
	ctx = supervise.OnDispatch(ctx, live.generation.Store)
	result, how, err := p.Plugins.Invoke(backstopped{ctx, time.Now().Add(timeout + backstop)}, owner, c.plugin() != "", req, c.Events)
	return result, how.Sent, err
}

// backstopped carries a deadline to the other side of the RPC. On this side the
// host's own clock ends the context, so no timer stands behind it.
type backstopped struct {
	context.Context
	at time.Time
}

func (b backstopped) Deadline() (time.Time, bool) { return b.at, true }

// facts is what the plugin is told of the caller.
func (p *Pipeline) facts(c *call) *pluginv1.RunFacts {
	f := &pluginv1.RunFacts{Run: c.Run, ModelTier: c.ModelTier, Chain: slices.Clone(c.chain), CanElicit: c.CanElicit}
	if c.Agent != nil {
		f.Agent, f.Profile = c.Agent.Name, c.Agent.Profile
		f.CanAnswer = c.forwarded() && c.Agent.Profile != "scheduled"
		f.MayTask = c.forwarded()
		if find, ok := p.Registry.Snapshot().Tool(FindTools); ok {
			f.ListsFindTools = c.Agent.Allows(find)
		}
	}
	if c.Session != nil {
		f.Namespace = c.Session.Namespace
	}
	return f
}

// FindTools is the tool whose presence in an agent's list lets tools come on demand.
const FindTools = "mcp_find_tools"

// forwarded reports whether the agent itself made the call, or the tool's own plugin
// for it and nobody else: what the agent can then the call still can.
func (c *call) forwarded() bool {
	owner := c.owner()
	return !slices.ContainsFunc(c.chain, func(plugin string) bool { return plugin != owner })
}

// timeout is the time this call gets: what the caller asked, else the tool's,
// else the plugin's, else the default; never more than what is left above it.
func (p *Pipeline) timeout(c *call) time.Duration {
	d := DefaultTimeout
	if p.PluginTimeout != nil && c.tool != nil {
		if own := p.PluginTimeout(c.tool.Owner); own > 0 {
			d = own
		}
	}
	if c.tool != nil && c.tool.Rating.Timeout > 0 {
		d = c.tool.Rating.Timeout
	}
	if c.Timeout > 0 {
		d = c.Timeout
	}
	d = min(d, MaxTimeout)
	if c.parent != nil {
		d = min(d, c.parent.clock.remaining())
	}
	return max(d, time.Millisecond)
}
