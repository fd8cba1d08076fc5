package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
)

func newSessions(t *testing.T) *Sessions {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return New(db, policy.New(policy.Rules{Agents: []*policy.Agent{ann, bob}}), 40)
}

var ann, bob = &policy.Agent{Name: "ann"}, &policy.Agent{Name: "bob"}

func unknownSession(t *testing.T, err error) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Ref != fault.UnknownSession {
		t.Errorf("error %v, want an unknown session", err)
	}
}

func TestSessionsBelongToTheirAgent(t *testing.T) {
	ss := newSessions(t)
	if _, err := ss.Open(t.Context(), ann, "s"); err != nil {
		t.Fatal(err)
	}
	_, err := ss.Open(t.Context(), bob, "s")
	unknownSession(t, err)
	_, err = ss.Lookup(t.Context(), bob, "s")
	unknownSession(t, err)
	_, err = ss.Lookup(t.Context(), ann, "other")
	unknownSession(t, err)
	for _, id := range []string{"", "a/b", "ä", string(make([]byte, 200))} {
		if _, err := ss.Lookup(t.Context(), ann, id); err == nil {
			t.Errorf("found %q", id)
		}
	}
}

// A default session is its agent's own, before that agent ever came.
func TestDefaultSessions(t *testing.T) {
	ss := newSessions(t)
	_, err := ss.Open(t.Context(), bob, Default("ann"))
	unknownSession(t, err)
	_, err = ss.Open(t.Context(), bob, "default:nobody")
	unknownSession(t, err)
	if s, err := ss.Open(t.Context(), ann, Default("ann")); err != nil || s.ID != "default:ann" {
		t.Errorf("%v %v", s, err)
	}
}

// Two that open a session at once get the same one.
func TestOpenAtOnce(t *testing.T) {
	ss := newSessions(t)
	var all sync.WaitGroup
	got := make([]*Session, 16)
	for i := range got {
		all.Go(func() {
			s, err := ss.Open(context.Background(), ann, "s")
			if err != nil {
				t.Error(err)
			}
			got[i] = s
		})
	}
	all.Wait()
	for _, s := range got {
		if s != got[0] {
			t.Fatal("two sessions with one id")
		}
	}
}

// One agent's flood pushes out its own sessions only, and is bounded.
func TestFlood(t *testing.T) {
	ss := newSessions(t)
	kept, err := ss.Open(t.Context(), bob, "kept")
	if err != nil {
		t.Fatal(err)
	}
	first, err := ss.Open(t.Context(), ann, "first")
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxAgent {
		if _, err := ss.Open(t.Context(), ann, fmt.Sprint("flood-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := ss.count["ann"]; n != maxAgent || len(ss.open) != maxAgent+1 {
		t.Errorf("%d of ann's, %d in all", n, len(ss.open))
	}
	if again, err := ss.Lookup(t.Context(), bob, "kept"); err != nil || again != kept {
		t.Errorf("bob's: %v", err)
	}
	// The one pushed out is still ann's, from the store.
	if again, err := ss.Lookup(t.Context(), ann, "first"); err != nil || again == first {
		t.Errorf("the oldest: %v", err)
	}
	_, err = ss.Open(t.Context(), bob, "first")
	unknownSession(t, err)
}

// What is trimmed from the store takes its inbox along.
func TestTrim(t *testing.T) {
	ss := newSessions(t)
	for _, id := range []string{"a", "b", "c"} {
		if _, err := ss.Open(t.Context(), ann, id); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ss.db.InboxAppend(t.Context(), store.InboxItem{Session: id, Agent: "ann", Kind: "notice", Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ss.Open(t.Context(), bob, "d"); err != nil {
		t.Fatal(err)
	}
	if err := ss.db.SessionTrim(t.Context(), "ann", 1); err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, id := range []string{"a", "b", "c", "d"} {
		_, found, err := ss.db.SessionGet(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		items, err := ss.db.InboxRead(t.Context(), id, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		if found {
			left++
		}
		if id != "d" && found != (len(items) == 1) {
			t.Errorf("%s: kept %t, %d items", id, found, len(items))
		}
	}
	if left != 2 {
		t.Errorf("%d sessions are left", left)
	}
}
