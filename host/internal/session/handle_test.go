package session

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

func bad(t *testing.T, what string, err error, want fault.Ref) {
	t.Helper()
	if err == nil || fault.From(err).Ref != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// A handle is good for the plugin it was minted for alone, in the host that minted
// it and in one that was started later.
func TestHandlesBelongToTheirPlugin(t *testing.T) {
	ss := newSessions(t)
	s, err := ss.Open(t.Context(), ann, "talk")
	if err != nil {
		t.Fatal(err)
	}
	h, err := ss.Handle(t.Context(), "one", ann, s)
	if err != nil {
		t.Fatal(err)
	}
	later := New(ss.db, ss.policy, 40)
	for name, ss := range map[string]*Sessions{"held": ss, "read from the store": later} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ss.ByHandle(t.Context(), "two", h)
			bad(t, "another plugin's", err, fault.BadHandle)
			_, err = ss.Derive(t.Context(), "two", h, "subagent/x", "", 0)
			bad(t, "derived by another plugin", err, fault.BadHandle)
			bad(t, "released by another plugin", ss.Release(t.Context(), "two", h), fault.BadHandle)
			agent, got, err := ss.ByHandle(t.Context(), "one", h)
			if err != nil || agent.Name != "ann" || got.ID != "talk" {
				t.Errorf("its own: %v %v %v", agent, got, err)
			}
			_, _, err = ss.ByHandle(t.Context(), "two", h) // now that it is held
			bad(t, "another plugin's, after its own use", err, fault.BadHandle)
		})
	}
}

// Two plugins, or two agents, that choose the same name for a run share no memory.
func TestDerivedRunsShareNothing(t *testing.T) {
	ss := newSessions(t)
	seen := map[string]string{}
	for _, a := range []string{"ann", "bob"} {
		agent := ann
		if a == "bob" {
			agent = bob
		}
		s, err := ss.Open(t.Context(), agent, "talk-of-"+a)
		if err != nil {
			t.Fatal(err)
		}
		for _, plugin := range []string{"one", "two"} {
			h, err := ss.Handle(t.Context(), plugin, agent, s)
			if err != nil {
				t.Fatal(err)
			}
			run, err := ss.Derive(t.Context(), plugin, h, "patrol/daily", "", 0)
			if err != nil {
				t.Fatal(err)
			}
			_, got, err := ss.ByHandle(t.Context(), plugin, run)
			if err != nil {
				t.Fatal(err)
			}
			if who, twice := seen[got.Namespace]; twice {
				t.Errorf("%s of %s and %s share %q", plugin, a, who, got.Namespace)
			}
			seen[got.Namespace] = plugin + " of " + a
			again, err := ss.Derive(t.Context(), plugin, h, "patrol/daily", "", 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, next, err := ss.ByHandle(t.Context(), plugin, again); err != nil || next.Namespace != got.Namespace {
				t.Errorf("the next run of the task remembers nothing: %v %v", next, err)
			}
		}
	}
}

// A plugin that derives run after run and releases none is stopped; another one
// is not held up, and a release makes room.
func TestDerivedRunsAreBounded(t *testing.T) {
	ss := newSessions(t)
	s, err := ss.Open(t.Context(), ann, "talk")
	if err != nil {
		t.Fatal(err)
	}
	h, err := ss.Handle(t.Context(), "one", ann, s)
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for i := range maxRuns {
		if last, err = ss.Derive(t.Context(), "one", h, fmt.Sprintf("wisp/%d", i), "", 0); err != nil {
			t.Fatal(err)
		}
	}
	_, err = ss.Derive(t.Context(), "one", h, "wisp/more", "", 0)
	bad(t, "one more", err, fault.RunLimit)
	other, err := ss.Handle(t.Context(), "two", ann, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ss.Derive(t.Context(), "two", other, "wisp/more", "", 0); err != nil {
		t.Errorf("another plugin is held up: %v", err)
	}
	if err := ss.Release(t.Context(), "one", last); err != nil {
		t.Fatal(err)
	}
	if _, err := ss.Derive(t.Context(), "one", h, "wisp/more", "", 0); err != nil {
		t.Errorf("after a release: %v", err)
	}
}

// A run that was given a time ends with it, and makes room.
func TestRunsEndWithTheirTime(t *testing.T) {
	ss := newSessions(t)
	s, err := ss.Open(t.Context(), ann, "s")
	if err != nil {
		t.Fatal(err)
	}
	h, err := ss.Handle(t.Context(), "one", ann, s)
	if err != nil {
		t.Fatal(err)
	}
	for range maxRuns {
		if _, err := ss.Derive(t.Context(), "one", h, "patrol/daily", "", time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	run, err := ss.Derive(t.Context(), "one", h, "patrol/daily", "", 50*time.Millisecond)
	if err != nil {
		t.Fatalf("runs that are over take room: %v", err)
	}
	if _, _, err := ss.ByHandle(t.Context(), "one", run); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for err = nil; err == nil && time.Now().Before(deadline); _, _, err = ss.ByHandle(t.Context(), "one", run) {
		time.Sleep(time.Millisecond)
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.Ref != fault.BadHandle {
		t.Errorf("a run that is over: %v", err)
	}
}

// What is for a run of a scheduled task is told in a session that its agent can
// open, and no other agent.
func TestPatrolInbox(t *testing.T) {
	ss := newSessions(t)
	s, err := ss.Open(t.Context(), ann, "s")
	if err != nil {
		t.Fatal(err)
	}
	h, err := ss.Handle(t.Context(), "one", ann, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ss.Open(t.Context(), bob, "patrol:ann:daily"); err == nil {
		t.Error("bob opens a session that is ann's by its name")
	}
	run, err := ss.Derive(t.Context(), "one", h, "patrol/daily", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	agent, at, err := ss.ByHandle(t.Context(), "one", run)
	if err != nil {
		t.Fatal(err)
	}
	to, err := ss.Inbox(t.Context(), agent, at)
	if err != nil || to.ID != "patrol:ann:daily" {
		t.Errorf("%v %v", to, err)
	}
	if own, err := ss.Inbox(t.Context(), ann, s); err != nil || own != s {
		t.Errorf("of a session: %v %v", own, err)
	}
}
