package session

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const (
	maxTurns     = 200
	maxTurnBytes = 32 << 10
	turnCost     = 256 // bytes of a turn beside its text
)

// Session is one conversation of one agent, or a run derived from it.
type Session struct {
	ID        string
	Agent     string
	Namespace string // session/{id}, subagent/{id}, …

	used atomic.Int64 // when last, in nanoseconds

	all    *Sessions
	weight int // bytes of turns as counted; guarded by all.mu

	mu        sync.Mutex
	limit     int      // activations kept
	activated []string // oldest first
	pinned    map[string][]string
	turns     []*pluginv1.Turn
	handles   map[string]string // plugin and profile → handle
	watchers  map[chan struct{}]struct{}
	asked     bool
	version   uint64
}

// MarkAsked notes that a call of this session was frozen, so that repeats are
// looked up; Asks tells. A session taken up again after a restart may have.
func (s *Session) MarkAsked() {
	s.mu.Lock()
	s.asked = true
	s.mu.Unlock()
}

// Asks says whether a call of this session may be frozen.
func (s *Session) Asks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Activate lists names in this session until idle or pushed out by newer ones.
// It returns what was pushed out.
func (s *Session) Activate(names []string) (dropped []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		s.activated = append(slices.DeleteFunc(s.activated, func(a string) bool { return a == n }), n)
	}
	if over := len(s.activated) - s.limit; s.limit > 0 && over > 0 {
		dropped = slices.Clone(s.activated[:over])
		s.activated = slices.Delete(s.activated, 0, over)
	}
	s.changed()
	return dropped
}

// Deactivate takes names off the list again; pinned ones stay.
func (s *Session) Deactivate(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.activated = slices.DeleteFunc(s.activated, func(a string) bool { return slices.Contains(names, a) })
	s.changed()
}

// Pin replaces the names pinned under set.
func (s *Session) Pin(set string, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinned == nil {
		s.pinned = map[string][]string{}
	}
	if len(names) == 0 {
		delete(s.pinned, set)
	} else {
		s.pinned[set] = slices.Clone(names)
	}
	s.changed()
}

// Active is the set of names activated or pinned.
func (s *Session) Active() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := map[string]bool{}
	for _, n := range s.activated {
		set[n] = true
	}
	for names := range maps.Values(s.pinned) {
		for _, n := range names {
			set[n] = true
		}
	}
	return set
}

// Watch returns a channel that gets a value when the session's list may have
// changed; end releases it.
func (s *Session) Watch() (changed <-chan struct{}, end func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers == nil {
		s.watchers = map[chan struct{}]struct{}{}
	}
	s.watchers[ch] = struct{}{}
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, ch)
	}
}

// Version counts the changes of the session's list.
func (s *Session) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *Session) changed() {
	s.version++
	for ch := range s.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// AddTurn records what was said; the last 200 turns are kept, fewer when the agent's
// sessions together hold too much.
func (s *Session) AddTurn(role, text, author string) {
	if len(text) > maxTurnBytes {
		text = strings.ToValidUTF8(text[:maxTurnBytes], "")
	}
	s.mu.Lock()
	s.turns = append(s.turns, &pluginv1.Turn{Role: role, Text: strings.Clone(text), Author: author, AtMs: time.Now().UnixMilli()})
	if over := len(s.turns) - maxTurns; over > 0 {
		s.turns = slices.Delete(s.turns, 0, over)
	}
	s.mu.Unlock()
	s.all.weigh(s)
}

// size is about how many bytes the turns take.
func (s *Session) size() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.turns {
		n += turnCost + len(t.Text) + len(t.Author)
	}
	return n
}

// Turns returns the last n turns, oldest first.
func (s *Session) Turns(n int) []*pluginv1.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(max(n, 0), len(s.turns))
	return slices.Clone(s.turns[len(s.turns)-n:])
}

func (s *Session) usedSince(t time.Time) bool { return s.used.Load() > t.UnixNano() }

func (s *Session) touch(now time.Time) { s.used.Store(now.UnixNano()) }

func handleKey(plugin string, a *policy.Agent) string { return plugin + "\x00" + a.Profile }
