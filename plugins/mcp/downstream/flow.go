package downstream

import (
	"fmt"
	"sync"
	"time"
)

// What a server may send that nobody asked for: notifications, requests of its own,
// lines that are no messages.
const (
	// floodRate is how many of these are read in a second, floodBurst how many at
	// once. Beyond, the server is read more slowly.
	floodRate  = 1000
	floodBurst = 10_000
	// floodTime is how long a server may want to be read faster.
	floodTime = 20 * time.Second
	// maxOpen is how many of its requests may be open: being answered, or answered
	// and not taken.
	maxOpen = 64
	// takeTime is how long a server with so many open may take none of the answers.
	takeTime = 2 * time.Second
)

// bucket lets through what comes at a rate.
type bucket struct {
	rate, burst float64
	tokens      float64
	at          time.Time
}

func newBucket(rate, burst float64) *bucket {
	return &bucket{rate: rate, burst: burst, tokens: burst, at: time.Now()}
}

// take takes n out and says how long to wait until there is something in again.
func (b *bucket) take(n float64) time.Duration {
	now := time.Now()
	b.tokens = min(b.tokens+now.Sub(b.at).Seconds()*b.rate, b.burst) - n
	b.at = now
	if b.tokens >= 0 || b.tokens > -b.rate/20 { // timers are too coarse for less
		return 0
	}
	return time.Duration(-b.tokens / b.rate * float64(time.Second))
}

// flow keeps what one server sends within bounds. It slows the reader down, so that
// the server has to wait, and ends the connection when that does not help.
type flow struct {
	mu      sync.Mutex
	all     *bucket
	slow    time.Time // since when the server is read more slowly; zero = it is not
	slowed  int64     // how often it was
	open    int
	freed   chan struct{} // an answer was taken
	why     error         // the connection is over
	end     func(error)
	stopped chan struct{}
	// patience is how long the server may be slowed down.
	patience time.Duration
}

func newFlow() *flow {
	return &flow{all: newBucket(floodRate, floodBurst), stopped: make(chan struct{}), freed: make(chan struct{}, 1), patience: floodTime}
}

// onEnd sets what ends the connection.
func (f *flow) onEnd(end func(error)) {
	f.mu.Lock()
	f.end = end
	why := f.why
	f.mu.Unlock()
	if why != nil {
		end(why)
	}
}

// halt says that the connection is over: waits end, and nothing more is read.
func (f *flow) halt(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == nil {
		f.why = why
		close(f.stopped)
	}
}

// stop ends the connection.
func (f *flow) stop(why error) {
	f.halt(why)
	f.mu.Lock()
	end := f.end
	f.mu.Unlock()
	if end != nil {
		end(why)
	}
}

// earn is called for every request that is sent: its answer is no surprise.
func (f *flow) earn() {
	f.mu.Lock()
	f.all.tokens++
	f.mu.Unlock()
}

// message counts what was read, and waits when it is too much. The error says that
// nothing more is to be read.
func (f *flow) message(n int) error {
	f.mu.Lock()
	if f.why != nil {
		defer f.mu.Unlock()
		return f.why
	}
	wait := f.all.take(float64(n))
	switch {
	case wait == 0:
		if f.all.tokens > f.all.burst/2 {
			f.slow = time.Time{}
		}
		f.mu.Unlock()
		return nil
	case f.slow.IsZero():
		f.slow = time.Now()
	}
	f.slowed++
	since := time.Since(f.slow)
	f.mu.Unlock()
	if since > f.patience {
		err := fmt.Errorf("the server has sent more than %d messages a second, which nobody asked for, for %s", floodRate, f.patience)
		f.stop(err)
		return err
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-f.stopped:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.why
	}
}

// room waits until one more request of the server may be open. A server that does
// not take its answers loses its connection.
func (f *flow) room() error {
	var late <-chan time.Time
	for {
		f.mu.Lock()
		open, why := f.open, f.why
		f.mu.Unlock()
		if why != nil || open < maxOpen {
			return why
		}
		if late == nil {
			t := time.NewTimer(takeTime)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-f.freed:
		case <-f.stopped:
		case <-late:
			err := fmt.Errorf("the server has sent more than %d requests whose answers it has not taken", maxOpen)
			f.stop(err)
			return err
		}
	}
}

// ask counts a request of the server, for which answered is due.
func (f *flow) ask() {
	f.mu.Lock()
	f.open++
	f.mu.Unlock()
}

func (f *flow) answered() {
	f.mu.Lock()
	f.open = max(f.open-1, 0)
	f.mu.Unlock()
	select {
	case f.freed <- struct{}{}:
	default:
	}
}

func (f *flow) anyOpen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open > 0
}

// slowedDown is how often the server had to wait.
func (f *flow) slowedDown() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slowed
}

// logLimit bounds the lines that a server writes into the log.
type logLimit struct {
	mu   sync.Mutex
	b    *bucket
	left int64
}

func newLogLimit() *logLimit { return &logLimit{b: newBucket(10, 100)} }

// allow says whether one more line is logged, and how many before it were not.
func (l *logLimit) allow() (ok bool, missed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.take(1) > 0 {
		l.b.tokens++ // it was not taken
		l.left++
		return false, 0
	}
	missed, l.left = l.left, 0
	return true, missed
}
