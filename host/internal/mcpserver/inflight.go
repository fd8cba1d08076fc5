package mcpserver

import (
	"context"
	"fmt"
	"sync"
)

// inFlight are the requests that have no answer yet. An id stands for one of them
// at a time: by it a client cancels, and tells answers apart.
type inFlight struct {
	mu   sync.Mutex
	open map[[2]string]context.CancelFunc // by session and id; nil: the library's to cancel
}

// enter notes a request; false when another one of the session has its id.
func (f *inFlight) enter(session, id string) (done func(), ok bool) {
	key := [2]string{session, id}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, taken := f.open[key]; taken {
		return nil, false
	}
	if f.open == nil {
		f.open = map[[2]string]context.CancelFunc{}
	}
	f.open[key] = nil
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, key)
	}, true
}

// cancelBy says how a request that was noted is cancelled.
func (f *inFlight) cancelBy(session, id string, cancel context.CancelFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[[2]string{session, id}] = cancel
}

// cancel ends a request; false when none of ours has that id.
func (f *inFlight) cancel(session, id string) bool {
	f.mu.Lock()
	cancel := f.open[[2]string{session, id}]
	f.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

func twice(id string) string {
	return fmt.Sprintf("a request with the id %.100s is in flight already; every request of a session has an id of its own", id)
}
