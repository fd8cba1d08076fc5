package host

import (
	"context"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/session"
)

const (
	sweepEvery = 10 * time.Minute
	sweepTime  = time.Minute
	// keptFor is how long sessions, inboxes and ended calls stay that nobody uses.
	keptFor = 30 * 24 * time.Hour
)

// sweep forgets from time to time what nobody uses any more, so that the database
// does not grow with its age. It ends with ctx.
func (h *Host) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.sweepOnce(ctx)
		}
	}
}

func (h *Host) sweepOnce(ctx context.Context) {
	ctx, end := context.WithTimeout(ctx, sweepTime)
	defer end()
	failed := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			h.log.Warn("old entries could not be swept", "of", what, "error", err)
		}
	}
	failed("handles in use", h.API.Sessions.Touch(ctx)) // before idle ones go
	_, err := h.store.HandleSweep(ctx, session.Idle, func(agent string) bool {
		_, err := h.rules.Agent(agent)
		return err == nil
	})
	failed("handles", err)
	old := time.Now().Add(-keptFor)
	_, err = h.store.SessionSweep(ctx, keptFor)
	failed("sessions", err)
	_, err = h.store.InboxPrune(ctx, old)
	failed("inboxes", err)
	_, err = h.store.SweepFrozen(ctx, old)
	failed("calls", err)
}
