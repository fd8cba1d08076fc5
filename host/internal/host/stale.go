package host

import (
	"fmt"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// stale says why the config file, as it stands on disk, is not what the host runs by.
type stale struct {
	why   *fault.Error
	since time.Time
}

// notInForce notes that the file is not taken up, and tells of it once a reason.
func (h *Host) notInForce(err error) {
	f := fault.From(err)
	h.mu.Lock()
	was := h.stale
	now := &stale{f, time.Now()}
	if was != nil {
		now.since = was.since
	}
	h.stale = now
	h.mu.Unlock()
	if was == nil || was.why.Message != f.Message {
		h.events.Publish(event.Event{Type: "config.refused"}, map[string]any{"file": h.cfg().File,
			"error": api.Error{Code: string(f.Class), Message: f.Message, Ref: string(f.Ref)}})
	}
}

// inForce notes that the file says what the host runs by.
func (h *Host) inForce() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stale = nil
}

// staleness is the warning of it, or nothing.
func (h *Host) staleness() []string {
	h.mu.Lock()
	s := h.stale
	h.mu.Unlock()
	if s == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s as it stands on disk is not in force since %s, the host runs by what it said before: %s (%s)",
		h.cfg().File, s.since.UTC().Format(time.RFC3339), s.why.Message, s.why.Ref)}
}
