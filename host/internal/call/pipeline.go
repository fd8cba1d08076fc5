package call

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const (
	// DefaultTimeout is a call's time when neither tool nor plugin says one.
	DefaultTimeout = 60 * time.Second
	// MaxTimeout is the most any call gets.
	MaxTimeout = 900 * time.Second
	// StartWait is how long a caller waits for plugins that are still starting.
	StartWait = 5 * time.Second
	// lastMoment is what cancelled calls get at a stop.
	lastMoment = 3 * time.Second
	// backstop is how much later than the host's own timer the RPC gives up.
	backstop = 10 * time.Second
)

// Plugins runs invocations on plugin processes; the supervisor does.
type Plugins interface {
	Invoke(ctx context.Context, plugin string, nested bool, req *pluginv1.InvokeRequest, on func(*pluginv1.InvokeEvent)) (*pluginv1.Result, supervise.Dispatch, error)
}

// Own runs the host's own tools.
type Own interface {
	Invoke(ctx context.Context, who Caller, tool string, arguments []byte) (*pluginv1.Result, error)
}

// Pipeline is the call path. All fields but Asks are set before the first call
// and never change.
type Pipeline struct {
	Registry  *registry.Registry
	Policy    *policy.Policy
	Sessions  *session.Sessions
	Questions *question.Desk
	Plugins   Plugins
	Own       Own
	Shaper    *Shaper
	Audit     func(store.AuditRow)
	Observe   func(tool, status string, took time.Duration)
	Events    *event.Bus
	Log       hclog.Logger
	// PluginTimeout is the call time of a plugin's tools; nil or zero: the default.
	PluginTimeout func(plugin string) time.Duration
	// Settled returns when every plugin was ready or failed once, or with ctx; nil:
	// they are. Who calls right after the start waits a little for the tool to come.
	Settled func(ctx context.Context) error

	live     sync.Map // call id → *call
	stopping sync.RWMutex
	stopped  bool
	running  sync.WaitGroup
}

// call is one call on its way through the stages.
type call struct {
	*Request
	id      string
	name    string // as asked, then as resolved by call_tool
	tool    *registry.Tool
	args    []byte
	chain   []string // plugins above, outermost first
	parent  *call
	started time.Time
	clock   *clock
	attempt *pluginv1.Attempt
	taken   bool // it goes on with a frozen call
	// ownSource is the source the tool must have, and the calling plugin its owner;
	// empty = any.
	ownSource string

	returned bool // the tool itself gave the result

	openMu sync.Mutex
	open   []store.Question // of nested calls that came back with them
}

// owner is the plugin that is asked.
func (c *call) owner() string {
	if c.tool != nil {
		return c.tool.Owner
	}
	return c.Owner
}

// kinds are the prefixes under which calls of other things than tools are frozen.
var kinds = map[pluginv1.InvokeRequest_Kind]string{
	pluginv1.InvokeRequest_KIND_PROMPT: "prompt:", pluginv1.InvokeRequest_KIND_RESOURCE: "resource:", pluginv1.InvokeRequest_KIND_COMPLETE: "complete:"}

// subject is what is called, as questions and frozen calls name it.
func (c *call) subject() string {
	if c.tool != nil {
		return c.tool.Name
	}
	return kinds[c.Kind] + c.name
}

// plugin is who made the call, empty for an agent.
func (c *call) plugin() string {
	if len(c.chain) == 0 {
		return ""
	}
	return c.chain[len(c.chain)-1]
}

// Call runs one call of an agent to its end. It never fails: what went wrong is
// in the reply's result.
func (p *Pipeline) Call(ctx context.Context, req Request) *Reply {
	return p.run(ctx, &call{Request: &req, name: req.Tool, args: req.Arguments, attempt: &pluginv1.Attempt{}})
}

// run takes a call through all stages.
func (p *Pipeline) run(ctx context.Context, c *call) *Reply {
	c.id, c.started = newID(), time.Now()
	reply := &Reply{CallID: c.id, ToolCallID: c.ToolCallID}
	if reply.ToolCallID == "" {
		reply.ToolCallID = c.id
	}
	if err := p.enter(); err != nil {
		reply.Tool, reply.Result = c.name, Failed(err)
		return reply
	}
	defer p.running.Done()

	result, err := p.stages(ctx, c, reply)
	if err != nil {
		result = Failed(err)
	}
	reply.Tool, reply.Result, reply.Returned = c.name, result, c.returned
	if c.parent == nil && len(reply.Questions) == 0 && result.Error != nil {
		reply.Questions = c.leftOpen(result)
	}
	if c.tool != nil {
		reply.Tool = c.tool.Name
	}
	p.audit(c, result)
	if !c.Raw && c.plugin() == "" && p.Shaper != nil && c.tool != nil {
		p.Shaper.shape(c, reply)
	}
	return reply
}

// stages is the order of things; an error from any of them ends the call.
func (p *Pipeline) stages(ctx context.Context, c *call, reply *Reply) (*pluginv1.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if c.Kind != pluginv1.InvokeRequest_KIND_UNSPECIFIED && c.Kind != pluginv1.InvokeRequest_KIND_TOOL {
		// Prompts, resources and completion have no arguments to check and no tier.
		if c.Agent == nil || !listing.Plugin(p.Registry.Snapshot(), c.Agent, c.Owner) {
			return nil, fault.New(fault.NotAllowed, "the agent may not use what plugin %q offers", c.Owner)
		}
		if done, result, err := p.repeat(ctx, c, reply); done || err != nil {
			return result, err
		}
		return p.rounds(ctx, c, reply)
	}
	if err := p.resolve(ctx, c); err != nil {
		return nil, err
	}
	if err := p.authorize(c); err != nil {
		return nil, err
	}
	args, err := object(c.args)
	if err != nil {
		return nil, err
	}
	if c.args, err = coerce(c.tool, args); err != nil {
		return nil, err
	}
	if err := unique(c.args); err != nil {
		return nil, err
	}
	if err := validate(c.tool, c.args); err != nil {
		return nil, err
	}
	if done, result, err := p.gate(ctx, c, reply); done || err != nil {
		return result, err
	}
	return p.rounds(ctx, c, reply)
}

// enter admits a call unless the host is stopping.
func (p *Pipeline) enter() error {
	p.stopping.RLock()
	defer p.stopping.RUnlock()
	if p.stopped {
		return fault.New(fault.HostStopping, "the host is stopping and takes no new calls")
	}
	p.running.Add(1)
	return nil
}

// Stop refuses new calls and waits for those in flight until ctx ends; then it
// cancels them and gives them a last moment.
func (p *Pipeline) Stop(ctx context.Context) {
	p.stopping.Lock()
	p.stopped = true
	p.stopping.Unlock()
	done := make(chan struct{})
	go func() {
		p.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	p.live.Range(func(_, v any) bool {
		v.(*liveCall).cancel(fault.New(fault.HostStopping, "the host stopped before the call ended"))
		return true
	})
	select {
	case <-done:
	case <-time.After(lastMoment):
		p.Log.Warn("calls did not end at the stop")
	}
}

// newID is an unguessable id of 32 hex digits.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
