package browser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/browser/chrome"
	"github.com/bulkhead-dev/bulkhead/plugins/browser/proxy"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// maxServed is how many pages one browser shows before a fresh one takes over:
// what leaks in it does not leak for ever.
const maxServed = 100

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
	spent  bool // takes no more pages; ends with the last one
}

func newStable(set *settings, dir string) (*stable, error) {
	g, err := netguard.New(set.AllowHosts)
	if err != nil {
		return nil, err
	}
	return &stable{set: set, dir: dir, proxy: proxy.New(g), slots: make(chan struct{}, set.Pages)}, nil
}

// take waits for a free slot and gives a running browser. release must be called;
// broken says that the browser did not do what it should.
func (s *stable) take(ctx context.Context) (b *stall, release func(broken bool), err error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, sdk.Errorf(sdk.Unavailable, "all %d pages are in use (pages)", cap(s.slots)).After(time.Second)
	}
	if b, err = s.enter(ctx); err != nil {
		<-s.slots
		return nil, nil, err
	}
	return b, func(broken bool) {
		s.leave(b, broken)
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

func (s *stable) leave(b *stall, broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.users--
	switch {
	case broken && !b.spent:
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
