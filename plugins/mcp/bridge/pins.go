package bridge

import (
	"slices"
	"sync"
)

// pins remembers which servers each session called last, for as many as may stay
// listed at once. A restart forgets it; the host's own lists go on.
type pins struct {
	mu    sync.Mutex
	sets  map[string][]string // by session, oldest first
	order []string            // of sessions, oldest first
}

const maxPinSessions = 2000

// use notes a call of a set's server. It gives the sets that had to make room, and
// whether this one was not among the last already.
func (p *pins) use(session, set string, most int) (dropped []string, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sets == nil {
		p.sets = map[string][]string{}
	}
	if _, known := p.sets[session]; !known {
		p.order = append(p.order, session)
		if len(p.order) > maxPinSessions {
			delete(p.sets, p.order[0])
			p.order = p.order[1:]
		}
	}
	fresh = !slices.Contains(p.sets[session], set)
	now := append(slices.DeleteFunc(p.sets[session], func(s string) bool { return s == set }), set)
	if n := len(now) - most; n > 0 {
		dropped, now = slices.Clone(now[:n]), slices.Clone(now[n:])
	}
	p.sets[session] = now
	return dropped, fresh
}
