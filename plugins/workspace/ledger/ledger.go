// Package ledger remembers which versions of which files a session has seen, so that
// nothing is overwritten that nobody read. A version is known by the hash of its
// bytes: an identical copy read elsewhere counts, a changed file does not.
package ledger

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// maxEntries is how many files are remembered; beyond it the oldest quarter goes.
const maxEntries = 4096

// Hash names a version of a file.
type Hash [sha256.Size]byte

// Of is the hash of a file's bytes.
func Of(raw []byte) Hash { return sha256.Sum256(raw) }

// Ledger is safe for use by many at once. The zero value is ready.
type Ledger struct {
	mu      sync.Mutex
	entries map[key]*entry
	clock   uint64
}

type key struct{ session, path string }

type entry struct {
	hash  Hash
	lines int
	seen  []span // in order, apart from each other
	used  uint64
}

type span struct{ first, last int }

// Saw notes that a session saw lines first to last of a version with so many lines.
func (l *Ledger) Saw(session, path string, hash Hash, first, last, lines int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entry(key{session, path})
	if e.hash != hash || e.lines != lines {
		e.hash, e.lines, e.seen = hash, lines, nil
	}
	e.seen = merged(append(e.seen, span{first, last}))
}

// Knows notes that a session knows a version whole, having written it.
func (l *Ledger) Knows(session, path string, hash Hash, lines int) {
	l.Saw(session, path, hash, 1, max(lines, 1), lines)
}

// Edited notes that a session turned one version into another by an edit: it knows
// the new one whole only if it did the old one.
func (l *Ledger) Edited(session, path string, from, to Hash, lines int) {
	whole := l.Check(session, path, from) == nil
	if whole {
		l.Knows(session, path, to, lines)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, key{session, path})
}

// entry finds or makes an entry; the lock is held.
func (l *Ledger) entry(k key) *entry {
	l.clock++
	e := l.entries[k]
	if e == nil {
		if l.entries == nil {
			l.entries = map[key]*entry{}
		}
		if len(l.entries) >= maxEntries {
			l.evict()
		}
		e = &entry{}
		l.entries[k] = e
	}
	e.used = l.clock
	return e
}

func (l *Ledger) evict() {
	used := make([]uint64, 0, len(l.entries))
	for _, e := range l.entries {
		used = append(used, e.used)
	}
	slices.Sort(used)
	limit := used[len(used)/4]
	for k, e := range l.entries {
		if e.used < limit {
			delete(l.entries, k)
		}
	}
}

// Reason says why a session may not overwrite a version.
type Reason struct {
	Kind string // never, stale or partial
	Seen string // of partial: the lines that were seen
	Next int    // of partial: the first line that was not
}

func (r *Reason) Error() string {
	switch r.Kind {
	case "stale":
		return "it has changed since it was read here; read it again first"
	case "partial":
		return fmt.Sprintf("only lines %s of it were read here; read on from line %d first", r.Seen, r.Next)
	}
	return "it exists and was not read here; read it first, since writing replaces all of it"
}

// Check says whether a session knows a version of a file whole: nil, or a *Reason.
func (l *Ledger) Check(session, path string, hash Hash) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key{session, path}]
	if e != nil && e.hash == hash && e.next() == 0 {
		return nil
	}
	for k, other := range l.entries {
		if k.session == session && other.hash == hash && other.next() == 0 {
			return nil // the same bytes under another name
		}
	}
	switch {
	case e == nil:
		return &Reason{Kind: "never"}
	case e.hash != hash:
		return &Reason{Kind: "stale"}
	}
	return &Reason{Kind: "partial", Seen: e.ranges(), Next: e.next()}
}

// next is the first line that was not seen; 0 = all were.
func (e *entry) next() int {
	switch {
	case e.lines == 0 && len(e.seen) > 0:
		return 0
	case len(e.seen) == 0 || e.seen[0].first > 1:
		return 1
	case e.seen[0].last >= e.lines:
		return 0
	}
	return e.seen[0].last + 1
}

func (e *entry) ranges() string {
	var all []string
	for _, s := range e.seen {
		all = append(all, fmt.Sprintf("%d–%d", s.first, s.last))
	}
	return strings.Join(all, ", ")
}

// merged joins spans that touch.
func merged(all []span) []span {
	slices.SortFunc(all, func(a, b span) int { return a.first - b.first })
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && s.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, s.last)
			continue
		}
		out = append(out, s)
	}
	return out
}
