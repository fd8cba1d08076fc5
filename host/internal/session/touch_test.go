package session

import (
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
)

// A handle in use survives the sweep of idle ones; an idle one does not.
func TestTouchKeepsHandlesInUse(t *testing.T) {
	now := time.Now()
	db, err := store.Open(t.Context(), store.Options{Dir: t.TempDir(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	rules := policy.New(policy.Rules{})
	ss := New(db, rules, 10)
	agent, err := rules.Agent(policy.DefaultAgent)
	if err != nil {
		t.Fatal(err)
	}
	handle := func(id string) (string, *Session) {
		s, err := ss.Open(t.Context(), agent, id)
		if err != nil {
			t.Fatal(err)
		}
		h, err := ss.Handle(t.Context(), "plugin", agent, s)
		if err != nil {
			t.Fatal(err)
		}
		return h, s
	}
	used, _ := handle("used")
	idle, s := handle("idle")
	s.used.Store(now.Add(-2 * Idle).UnixNano())
	now = now.Add(Idle + time.Hour)
	if err := ss.Touch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.HandleSweep(t.Context(), Idle, func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if _, found, err := db.HandleGet(t.Context(), used); err != nil || !found {
		t.Errorf("the handle in use is gone: %v", err)
	}
	if _, found, err := db.HandleGet(t.Context(), idle); err != nil || found {
		t.Errorf("the idle handle is still there: %v", err)
	}
}
