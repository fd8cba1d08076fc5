package call

import (
	"context"
	"sync/atomic"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// liveCall is a call between its dispatch and its result.
type liveCall struct {
	*call
	owner      string
	generation atomic.Uint64 // it was dispatched to; 0 = none yet
	ctx        context.Context
	cancel     context.CancelCauseFunc
}

// Live is a running call as the plugin that runs it may act in its name.
type Live struct{ l *liveCall }

// Live finds the running call id that was dispatched to this generation of plugin.
// An id is unguessable, belongs to one generation of one plugin and ends with its
// result or its process.
func (p *Pipeline) Live(plugin string, generation uint64, id string) (Live, error) {
	if v, ok := p.live.Load(id); ok {
		if l := v.(*liveCall); l.owner == plugin && l.generation.Load() == generation {
			return Live{l}, nil
		}
	}
	return Live{}, fault.New(fault.BadHandle, "call id %.32q is not a running call of generation %d of plugin %q", id, generation, plugin)
}

// Caller is for whom the call runs.
func (l Live) Caller() Caller { return l.l.Caller }

// Tool is the name of the running tool.
func (l Live) Tool() string { return l.l.name }

// Context ends with the call.
func (l Live) Context() context.Context { return l.l.ctx }

// Pause stops the call's clock until the returned function is called: waiting
// for a person is not the tool's time.
func (l Live) Pause() (resume func()) {
	l.l.clock.pause()
	return l.l.clock.resume
}

// Asked tells the caller's door of questions that are asked while the call runs.
func (l Live) Root() *Request {
	c := l.l.call
	for c.parent != nil {
		c = c.parent
	}
	return c.Request
}
