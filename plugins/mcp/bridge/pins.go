package bridge

import (
	"slices"
	"strconv"
	"sync"
)

// pins remembers which servers each session called last, for as many as may stay
// listed at once. Each has a place, and a place is a set of the session's list: a
// server that comes takes the place of the one that goes, so that a session never
// keeps more sets than there are places, whatever becomes of this process or of a
// server's tools.
type pins struct {
	mu    sync.Mutex
	sets  map[string][]pinned // by session, the least recently called first
	order []string            // of sessions, oldest first
}

// pinned is a server in its place; mark moves when its tools do.
type pinned struct {
	server, mark string
	place        int
}

const maxPinSessions = 2000

// use notes a call of a server. It gives the set that is the server's now, whether
// it has to be written anew, and sets that are of no more use.
func (p *pins) use(session, server, mark string, most int) (set string, fresh bool, dropped []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sets == nil {
		p.sets = map[string][]pinned{}
	}
	if _, known := p.sets[session]; !known {
		p.order = append(p.order, session)
		if len(p.order) > maxPinSessions {
			delete(p.sets, p.order[0])
			p.order = p.order[1:]
		}
	}
	now := p.sets[session]
	one := pinned{server: server, mark: mark, place: -1}
	if i := slices.IndexFunc(now, func(x pinned) bool { return x.server == server }); i >= 0 {
		one.place, fresh = now[i].place, now[i].mark != mark
		now = slices.Delete(now, i, i+1)
	} else {
		fresh = true
	}
	for len(now) >= most { // there are fewer places than before, or a new server wants one
		if one.place < 0 {
			one.place = now[0].place
		} else {
			dropped = append(dropped, place(now[0].place))
		}
		now = slices.Delete(now, 0, 1)
	}
	for one.place < 0 {
		free := 0
		for slices.ContainsFunc(now, func(x pinned) bool { return x.place == free }) {
			free++
		}
		one.place = free
	}
	p.sets[session] = append(now, one)
	return place(one.place), fresh, dropped
}

func place(n int) string { return "called " + strconv.Itoa(n+1) }
