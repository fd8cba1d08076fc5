package clock

import (
	"sync"
	"time"
)

// Fake is a clock that stands still until it is moved; for tests.
type Fake struct {
	mu     sync.Mutex
	wall   time.Time
	ran    time.Duration // time that timers count
	timers map[chan time.Time]time.Duration
	armed  chan struct{}
}

// NewFake makes a clock that shows now.
func NewFake(now time.Time) *Fake {
	return &Fake{wall: now.UTC(), timers: map[chan time.Time]time.Duration{}, armed: make(chan struct{}, 1)}
}

// Now is what the clock shows.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wall
}

// Timer counts down with Run.
func (f *Fake) Timer(d time.Duration) (<-chan time.Time, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan time.Time, 1)
	if d <= 0 {
		c <- f.wall
		return c, func() {}
	}
	f.timers[c] = f.ran + d
	select {
	case f.armed <- struct{}{}:
	default:
	}
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.timers, c)
	}
}

// Armed gets a value when a timer was set.
func (f *Fake) Armed() <-chan struct{} { return f.armed }

// Run lets time pass.
func (f *Fake) Run(d time.Duration) { f.move(d, d) }

// Set moves the clock without time passing: somebody set it, or the machine was
// suspended.
func (f *Fake) Set(to time.Time) { f.move(to.Sub(f.Now()), 0) }

func (f *Fake) move(wall, ran time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wall, f.ran = f.wall.Add(wall), f.ran+ran
	for c, at := range f.timers {
		if at <= f.ran {
			c <- f.wall
			delete(f.timers, c)
		}
	}
}
