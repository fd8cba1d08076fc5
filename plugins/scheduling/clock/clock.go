package clock

import (
	"context"
	"time"
)

// Cap is the longest the alarm sleeps: how late a jump of the clock, or the end of
// a suspend, is noticed at worst.
const Cap = 30 * time.Second

// Clock tells the wall-clock time and counts down.
type Clock interface {
	// Now is without a monotonic reading, in UTC.
	Now() time.Time
	// Timer gives a channel on which something comes after d, and its end.
	Timer(d time.Duration) (fired <-chan time.Time, stop func())
}

// System is the machine's clock.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time { return time.Now().Round(0).UTC() }

func (system) Timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Alarm runs work when it is due, until ctx is done: at once, when the moment has
// come that work gave when it ran last (zero = none), and when poked. work gets the
// time. It counts the times it woke up.
func Alarm(ctx context.Context, c Clock, poked <-chan struct{}, woke func(), work func(now time.Time) (next time.Time)) {
	next := work(c.Now())
	for {
		wait := Cap
		if !next.IsZero() {
			wait = min(max(next.Sub(c.Now()), 0), Cap)
		}
		fired, stop := c.Timer(wait)
		select {
		case <-ctx.Done():
			stop()
			return
		case <-poked:
			stop()
		case <-fired:
		}
		woke()
		next = work(c.Now())
	}
}
