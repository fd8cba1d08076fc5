package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
)

// serve keeps a link in order until it is of no more use.
func (s *server) serve(ctx context.Context, l *link) {
	defer s.down(l)
	var tick <-chan time.Time
	t := time.NewTicker(time.Hour)
	defer t.Stop()
	tune := func() {
		if tick = nil; s.inForce().SurfaceRefresh > 0 {
			t.Reset(s.inForce().SurfaceRefresh.Std())
			tick = t.C
		}
	}
	tune()
	// A server that says all the time that it changed is looked at ever more rarely.
	var due, told <-chan time.Time
	var looked time.Time
	wait := debounce
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.conn.Done():
			s.log.Warn("the connection is over", "reason", l.conn.Err())
			return
		case old := <-s.renewed:
			if old == l {
				return
			}
		case old := <-s.doubted:
			if old == l && !s.answers(ctx, l) {
				return
			}
		case <-s.changed:
			if due == nil {
				if wait = min(2*wait, maxDebounce); looked.IsZero() || time.Since(looked) > wait {
					wait = debounce
				}
				due = time.After(wait)
			}
		case <-due:
			due = nil
			select {
			case <-s.changed:
			default:
			}
			s.update(func() {
				if s.churn = 0; wait > churning {
					s.churn = wait
				}
			})
			s.refresh(ctx, l)
			looked = time.Now()
		case <-s.updated:
			if told == nil {
				told = time.After(debounce)
			}
		case <-told:
			told = nil
			s.tellTouched()
		case <-s.retuned:
			tune()
			s.summarize(ctx, &l.conn.Info, l.view.Load())
		case <-tick:
			if time.Since(looked) > maxDebounce {
				s.update(func() { s.churn = 0 })
			}
			s.refresh(ctx, l)
		}
	}
}

// touch notes that a resource changed; the host is told of many at once.
func (s *server) touch(uri string) {
	s.mu.Lock()
	if s.touched == nil {
		s.touched = map[string]bool{}
	}
	if len(s.touched) < maxTouched && len(uri) <= 4096 {
		s.touched[uri] = true
	}
	s.mu.Unlock()
	poke(s.updated)
}

func (s *server) tellTouched() {
	s.mu.Lock()
	uris := slices.Sorted(maps.Keys(s.touched))
	s.touched = nil
	s.mu.Unlock()
	s.b.plugin.Offers().ResourceUpdated(uris...)
}

// refresh lists anew on the connection there is.
func (s *server) refresh(ctx context.Context, l *link) {
	try, cancel := context.WithTimeout(ctx, s.inForce().ConnectTime(&s.conf))
	defer cancel()
	before := l.view.Load()
	surface, err := l.conn.List(try, before.surface)
	if err != nil {
		s.log.Warn("what the server offers could not be read anew", "error", err)
		if auth := refusal(err); auth != nil {
			s.deny(l, auth)
			return
		}
		switch {
		case downstream.Broken(err):
			s.renew(l)
		case errors.Is(err, context.DeadlineExceeded):
			s.doubt(l)
		}
		return
	}
	if surface.Fingerprint != "" && surface.Fingerprint == before.surface.Fingerprint {
		return
	}
	l.view.Store(s.publish(surface))
	s.keep(surface)
	s.summarize(ctx, &l.conn.Info, l.view.Load())
}

// renew tells the owner that a link is of no more use.
func (s *server) renew(l *link) {
	select {
	case s.renewed <- l:
	default: // it has been told
	}
}

// doubt tells the owner that a request over a link had no answer in its time.
func (s *server) doubt(l *link) {
	select {
	case s.doubted <- l:
	default: // one is being looked into
	}
}

// answers reports whether a server answers anything: one whose tool is slow does, and
// keeps its connection. Whatever it answers, also that it knows no ping, is one. What
// runs over a link that is given up goes on until its own time is up.
func (s *server) answers(ctx context.Context, l *link) bool {
	try, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	_, err := l.conn.Request(try, "ping", nil, nil, nil)
	switch {
	case ctx.Err() != nil:
		return true // who asks is being stopped
	case err == nil, !downstream.Broken(err) && !errors.Is(err, context.DeadlineExceeded):
		return true
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("a request had no answer in its time, nor had a ping within %s", pingTime)
	}
	s.log.Warn("the connection is made anew", "reason", err)
	l.why.Store(&err)
	return false
}

// refusal is the error in err that says that the credentials are not, or no longer,
// taken: 401. A 403 in the middle of things is about one request.
func refusal(err error) *downstream.AuthError {
	var auth *downstream.AuthError
	if errors.As(err, &auth) && auth.Status == http.StatusUnauthorized {
		return auth
	}
	return nil
}

// deny tells that credentials are not taken: the connection ends, and no other is
// tried until the settings change.
func (s *server) deny(l *link, err *downstream.AuthError) {
	s.denied.Store(err)
	s.renew(l)
}

func (s *server) up(l *link) {
	s.update(func() {
		s.link, s.state, s.reason, s.next, s.churn = l, stateReady, nil, time.Time{}, 0
		s.attempts++
	})
	v := l.view.Load()
	s.log.Info("connected", "transport", l.conn.Known.Transport, "protocol", l.conn.Info.Version, "tools", len(v.tools), "prompts", len(v.prompts), "resources", len(v.surface.Resources))
	for _, n := range v.surface.Notes {
		s.log.Warn("odd offer", "note", n)
	}
	s.b.settled()
}

func (s *server) down(l *link) {
	s.update(func() {
		s.link, s.state = nil, stateFailed
		if why := l.why.Load(); why != nil {
			s.reason = s.hide.Error(*why)
			s.mended = fmt.Sprintf("its connection was made anew at %s: %v", time.Now().UTC().Format(time.RFC3339), s.reason)
		}
		if s.reason == nil {
			s.reason = s.hide.Error(l.conn.Err())
		}
		if s.reason == nil {
			s.reason = errors.New("the connection is made anew")
		}
	})
	l.retire()
}

func (s *server) failed(ctx context.Context, err error) {
	state := stateFailed
	var auth *downstream.AuthError
	if errors.As(err, &auth) {
		state = stateAuth
		s.b.plugin.Offers().Remove(s.set())
		s.discard()
	}
	if s.borrowed.Swap(false) {
		s.b.plugin.Offers().Remove(s.set())
		s.full.Store(nil)
		s.newest.Store(nil)
	}
	s.update(func() {
		s.state, s.reason = state, s.hide.Error(err)
		s.attempts++
	})
	if ctx.Err() == nil {
		s.log.Warn("server is not connected", "reason", err)
	}
	s.b.settled()
}
