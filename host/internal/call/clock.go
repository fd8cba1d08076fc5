package call

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// clock is the host's own timer of a call. It stands still while the call waits
// for an answer, which no context deadline can.
type clock struct {
	mu     sync.Mutex
	left   time.Duration
	since  time.Time // zero while paused
	paused int
	timer  *time.Timer
}

// startClock cancels the returned context with a timeout fault when the time is
// up. stop must be called; it also cancels the context, with the cause given.
func startClock(parent context.Context, d time.Duration, tool string) (ctx context.Context, c *clock, stop context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	c = &clock{left: d, since: time.Now()}
	c.timer = time.AfterFunc(d, func() {
		cancel(fault.New(fault.CallTimeout, "tool %q did not end within %s", tool, d))
	})
	return ctx, c, func(cause error) {
		c.timer.Stop()
		cancel(cause)
	}
}

// remaining is what is left of the call's time.
func (c *clock) remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return c.left
	}
	return c.left - time.Since(c.since)
}

// pause stops the clock; a pause may be nested.
func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused++
	if c.paused == 1 && c.timer.Stop() {
		c.left -= time.Since(c.since)
		c.since = time.Time{}
	}
}

// resume lets the clock go on when the last pause ends.
func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused--
	if c.paused == 0 && c.since.IsZero() {
		c.since = time.Now()
		c.timer.Reset(max(c.left, 0))
	}
}
