package supervise

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// slots admits calls to one plugin. Root calls may use half of the slots and wait
// in a bounded queue; the other half is kept for nested calls, which wait shortly
// and never stand in the root queue, so that a chain of plugins can't lock itself.
type slots struct {
	plugin string

	mu                sync.Mutex
	calls, queue      int // limits
	root, nested      int // taken
	rootWait, nestedQ []chan struct{}
}

func newSlots(plugin string, l Limits) *slots {
	return &slots{plugin: plugin, calls: l.Calls, queue: l.Queue}
}

// resize takes new limits; calls in flight above them are let finish.
func (s *slots) resize(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.queue = l.Calls, l.Queue
	s.wake()
}

func (s *slots) rootFree() bool {
	return s.root < s.calls-max(1, s.calls/2) && s.root+s.nested < s.calls
}

func (s *slots) nestedFree() bool { return s.root+s.nested < s.calls }

// take waits for a slot; every nil is answered by one give.
func (s *slots) take(ctx context.Context, nested bool, nestedWait time.Duration) error {
	s.mu.Lock()
	if nested && len(s.nestedQ) == 0 && s.nestedFree() {
		s.nested++
		s.mu.Unlock()
		return nil
	}
	if !nested && len(s.rootWait) == 0 && s.rootFree() {
		s.root++
		s.mu.Unlock()
		return nil
	}
	line := &s.rootWait
	if nested {
		line = &s.nestedQ
	}
	if len(*line) >= s.queue {
		calls, queue := s.calls, s.queue
		s.mu.Unlock()
		return fault.New(fault.PluginBusy, "plugin %q has all %d slots and %d places in its queue taken", s.plugin, calls, queue)
	}
	turn := make(chan struct{})
	*line = append(*line, turn)
	s.mu.Unlock()

	var late <-chan time.Time
	if nested {
		timer := time.NewTimer(nestedWait)
		defer timer.Stop()
		late = timer.C
	}
	var err error
	select {
	case <-turn:
		return nil
	case <-late:
		err = fault.New(fault.NestedBusy, "plugin %q had no slot for a nested call within %s", s.plugin, nestedWait)
	case <-ctx.Done():
		err = fault.From(ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(*line, turn); i >= 0 {
		*line = slices.Delete(*line, i, i+1)
		return err
	}
	return nil // the slot came at the same moment
}

// give gives a slot back.
func (s *slots) give(nested bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if nested {
		s.nested--
	} else {
		s.root--
	}
	s.wake()
}

// wake hands free slots to those who wait, nested calls first.
func (s *slots) wake() {
	for len(s.nestedQ) > 0 && s.nestedFree() {
		s.nested++
		close(s.nestedQ[0])
		s.nestedQ = slices.Delete(s.nestedQ, 0, 1)
	}
	for len(s.rootWait) > 0 && s.rootFree() {
		s.root++
		close(s.rootWait[0])
		s.rootWait = slices.Delete(s.rootWait, 0, 1)
	}
}

func (s *slots) count() (inFlight, queued int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.root + s.nested, len(s.rootWait) + len(s.nestedQ)
}
