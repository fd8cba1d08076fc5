package session

import (
	"fmt"
	"strings"
	"testing"
)

// What was said in all of an agent's sessions is bounded by its bytes, and one
// agent's flood takes nothing of another's.
func TestTurnsAreBoundedTogether(t *testing.T) {
	ss := newSessions(t)
	his, err := ss.Open(t.Context(), bob, "his")
	if err != nil {
		t.Fatal(err)
	}
	his.AddTurn("user", "kept", "")
	text := strings.Repeat("x", maxTurnBytes+5)
	var last *Session
	for i := range 12 { // of 6.25 MiB each
		if last, err = ss.Open(t.Context(), ann, fmt.Sprint("s", i)); err != nil {
			t.Fatal(err)
		}
		for range maxTurns + 10 {
			last.AddTurn("user", text, "author")
		}
		held := 0
		for _, s := range ss.open {
			if s.Agent == "ann" {
				held += s.size()
			}
		}
		if held > maxAgentTurns || held != ss.turns.agent["ann"] || held+his.size() != ss.turns.all {
			t.Fatalf("after session %d ann's turns hold %d bytes, counted %d, in all %d", i, held, ss.turns.agent["ann"], ss.turns.all)
		}
	}
	if n := len(last.Turns(1000)); n != maxTurns {
		t.Errorf("the session in use has %d turns", n)
	}
	if n := len(his.Turns(10)); n != 1 {
		t.Errorf("bob's has %d turns", n)
	}
	for i := range 12 {
		ss.mu.Lock()
		ss.forget(fmt.Sprint("s", i))
		ss.mu.Unlock()
	}
	last.AddTurn("user", text, "") // by one who has it in hand still
	if n, all := ss.turns.agent["ann"], ss.turns.all; n != 0 || all != his.size() {
		t.Errorf("%d bytes are counted of sessions that are gone, %d in all", n, all)
	}
}

// The bound of the host is kept at the cost of whoever holds most.
func TestTurnsOfAll(t *testing.T) {
	ss := newSessions(t)
	text := strings.Repeat("x", maxTurnBytes)
	small, err := ss.Open(t.Context(), bob, "small")
	if err != nil {
		t.Fatal(err)
	}
	small.AddTurn("user", "kept", "")
	agents := []string{"a", "b", "c", "d", "e", "f"}
	for i := range 6 {
		for _, name := range agents {
			ss.mu.Lock()
			s := ss.add(fmt.Sprint(name, i), name, "session/x")
			ss.mu.Unlock()
			for range maxTurns {
				s.AddTurn("user", text, "")
			}
		}
	}
	if ss.turns.all > maxAllTurns || ss.turns.all < maxAllTurns/2 || len(small.Turns(10)) != 1 {
		t.Errorf("%d bytes are held; the small one has %d turns", ss.turns.all, len(small.Turns(10)))
	}
}
