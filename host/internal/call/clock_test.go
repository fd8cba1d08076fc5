package call

import (
	"context"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

func TestClockEndsTheContext(t *testing.T) {
	ctx, _, stop := startClock(context.Background(), 20*time.Millisecond, "t")
	defer stop(nil)
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the clock never ended the call")
	}
	if ref := refOf(context.Cause(ctx)); ref != fault.CallTimeout {
		t.Errorf("cause: %v", context.Cause(ctx))
	}
}

// While a call waits for an answer its time stands still.
func TestClockPauses(t *testing.T) {
	ctx, c, stop := startClock(context.Background(), time.Hour, "t")
	defer stop(nil)
	c.pause()
	c.pause()
	before := c.remaining()
	c.resume()
	if after := c.remaining(); after != before {
		t.Errorf("the clock ran on in an outer pause: %s, then %s", before, after)
	}
	c.resume()
	if left := c.remaining(); left > before || left <= 0 {
		t.Errorf("after the pause %s are left of %s", left, before)
	}
	if ctx.Err() != nil {
		t.Error(context.Cause(ctx))
	}
}

func TestClockStops(t *testing.T) {
	ctx, _, stop := startClock(context.Background(), time.Hour, "t")
	stop(nil)
	if ctx.Err() == nil {
		t.Error("stop left the context alive")
	}
}
