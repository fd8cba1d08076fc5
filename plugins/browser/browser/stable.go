package browser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/browser/chrome"
	"github.com/bulkhead-dev/bulkhead/plugins/browser/proxy"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// maxServed is how many pages one browser shows before a fresh one takes over:
// what leaks in it does not leak for ever.
const maxServed = 100

// maxLate is how many pages in a row may take all of their time before a fresh
// browser takes over: a part of it may be stuck that its main process knows
// nothing of.
const maxLate = 3

// stable keeps the browser.
type stable struct {
	set   *settings
	dir   string // a private folder
	proxy *proxy.Proxy
	slots chan struct{}

	mu     sync.Mutex
	cur    *stall
	closed bool
	idle   *time.Timer
}

// stall is one browser and who is in it.
type stall struct {
	*chrome.Chrome
	users  int
	served int
	late   int  // pages in a row that were not there in time
	spent  bool // takes no more pages; ends with the last one

	hung atomic.Bool // it did not answer any more, and was ended for that
}

func newStable(set *settings, dir string) (*stable, error) {
	g, err := netguard.New(set.AllowHosts)
	if err != nil {
		return nil, err
	}
	return &stable{set: set, dir: dir, proxy: proxy.New(g), slots: make(chan struct{}, set.Pages)}, nil
}

// outcome is how a browser did with a page.
type outcome int

const (
	fine   outcome = iota
	tardy          // the page took all of its time
	broken         // the browser did not do what it should
)

// take waits for a free slot and gives a running browser; release must be called.
func (s *stable) take(ctx context.Context) (b *stall, release func(outcome), err error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, sdk.Errorf(sdk.Unavailable, "all %d pages are in use (pages)", cap(s.slots)).After(time.Second)
	}
	if b, err = s.enter(ctx); err != nil {
		<-s.slots
		return nil, nil, err
	}
	return b, func(o outcome) {
		s.leave(b, o)
		<-s.slots
	}, nil
}

// enter starts a browser if there is none to use. One start at a time: the others
// wait for it, since the lock is held.
func (s *stable) enter(ctx context.Context) (*stall, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, sdk.Errorf(sdk.Unavailable, "the browser plugin is stopping")
	}
	if s.idle != nil {
		s.idle.Stop()
	}
	if b := s.cur; b != nil {
		select {
		case <-b.Done():
			s.cur = nil
		default:
			if b.served >= maxServed {
				s.retire(b)
			} else if b.users == 0 && !b.Answers(ctx) { // it may have hung since its last page
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				s.end(b)
			}
		}
	}
	if s.cur == nil {
		c, err := chrome.Start(ctx, chrome.Config{Path: s.set.Path, UserAgent: s.set.UserAgent, Dir: s.dir,
			Log: func(format string, args ...any) {
				slog.Debug("the browser's protocol: " + fmt.Sprintf(format, args...))
			}}, s.proxy)
		if ctx.Err() != nil && err != nil {
			return nil, ctx.Err()
		} else if err != nil {
			return nil, sdk.Errorf(sdk.Unavailable, "the browser does not start: %w", err)
		}
		s.cur = &stall{Chrome: c}
	}
	s.cur.users++
	s.cur.served++
	return s.cur, nil
}

// retire lets a browser take no more pages; s.mu is held.
func (s *stable) retire(b *stall) {
	b.spent = true
	if s.cur == b {
		s.cur = nil
	}
	if b.users == 0 {
		go b.Close()
	}
}

// end ends a browser that does not answer, with all its pages; s.mu is held.
func (s *stable) end(b *stall) {
	if b.hung.Swap(true) {
		return
	}
	slog.Warn("the browser does not answer any more and is replaced", "pages", b.users)
	b.spent = true
	if s.cur == b {
		s.cur = nil
	}
	go b.Close()
}

// examine ends a browser that does not answer any more.
func (s *stable) examine(b *stall) {
	// The call's own time may be over; this takes chrome's.
	if b.Answers(context.Background()) {
		return
	}
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-b.Lost(): // it is ending by itself
		select {
		case <-b.Done():
			return
		case <-timer.C:
		}
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(b)
}

func (s *stable) leave(b *stall, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.users--
	if o == fine {
		b.late = 0
	} else {
		b.late++
	}
	switch {
	case (o == broken || b.late >= maxLate) && !b.spent:
		s.retire(b)
	case b.spent && b.users == 0:
		go b.Close()
	}
	if s.cur != nil && s.cur.users == 0 && !s.closed {
		cur := s.cur
		s.idle = time.AfterFunc(s.set.Idle.Std(), func() { s.rest(cur) })
	}
}

// rest ends a browser that nobody has used for a while.
func (s *stable) rest(b *stall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == b && b.users == 0 {
		s.retire(b)
	}
}

// Close takes no more pages; the browser ends with the last one that is open.
func (s *stable) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.idle != nil {
		s.idle.Stop()
	}
	if s.cur != nil {
		s.retire(s.cur)
	}
}

// plant is the plugin's stable, exchanged when the settings change.
type plant struct {
	mu  sync.Mutex
	cur *stable
}

var errNotReady = errors.New("the plugin is not configured yet")

func (p *plant) apply(set *settings, dir string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.cur
	fresh, err := newStable(set, dir)
	if err != nil {
		return err
	}
	p.cur = fresh
	if old != nil {
		old.Close()
	}
	return nil
}

func (p *plant) get() (*stable, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil {
		return nil, errNotReady
	}
	return p.cur, nil
}

func (p *plant) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur != nil {
		p.cur.Close()
	}
}
