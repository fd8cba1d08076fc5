package sdk

import (
	"context"
	"sync"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Cancel ends the context of one running call; its stream ends when the handler
// has returned.
func (s *server) Cancel(_ context.Context, req *pluginv1.CancelRequest) (*pluginv1.CancelResponse, error) {
	cause := context.Canceled
	if req.GetReason() == "deadline" {
		cause = context.DeadlineExceeded
	}
	return &pluginv1.CancelResponse{Found: s.calls.cancel(req.GetCallId(), cause)}, nil
}

// calls knows the calls in flight and can cut them.
type calls struct {
	mu      sync.Mutex
	running map[*running]struct{}
	closed  bool
	idle    chan struct{} // closed when a drain waits and the last call ended
}

type running struct {
	id     string
	cancel context.CancelCauseFunc
}

func newCalls() *calls { return &calls{running: map[*running]struct{}{}} }

// begin admits a call, unless the plugin has drained, and gives its context and
// what ends it.
func (c *calls) begin(ctx context.Context, id string) (context.Context, func(), bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ctx, nil, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &running{id: id, cancel: cancel}
	c.running[r] = struct{}{}
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, r)
		if len(c.running) == 0 && c.idle != nil {
			close(c.idle)
			c.idle = nil
		}
	}, true
}

func (c *calls) cancel(id string, cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := false
	for r := range c.running {
		if r.id == id {
			r.cancel(cause)
			found = true
		}
	}
	return found
}

// drain waits until no call runs or ctx is done; then it admits no more, cancels
// what is left and says how many that were.
func (c *calls) drain(ctx context.Context) int {
	select {
	case <-c.whenIdle():
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.closed = true
	cut := len(c.running)
	for r := range c.running {
		r.cancel(context.Canceled)
	}
	c.mu.Unlock()
	if cut > 0 {
		// Handlers that were cut get a moment to send their result.
		select {
		case <-c.whenIdle():
		case <-time.After(time.Second):
		}
	}
	return cut
}

func (c *calls) whenIdle() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.running) == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}
