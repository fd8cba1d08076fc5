package bridge

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// link is a connection that calls lease. Retired, it gives no more leases and
// ends with the last of those it gave.
type link struct {
	server *server
	conn   *downstream.Conn
	view   atomic.Pointer[view]
	why    atomic.Pointer[error] // it was given up although it looked well

	mu      sync.Mutex
	leases  int
	retired bool
}

func (l *link) lease() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return false
	}
	l.leases++
	return true
}

func (l *link) release() {
	l.mu.Lock()
	l.leases--
	last := l.retired && l.leases == 0
	l.mu.Unlock()
	if last {
		l.conn.Close()
	}
}

// retire waits for the end of the connection when nobody uses it.
func (l *link) retire() {
	l.mu.Lock()
	idle := !l.retired && l.leases == 0
	l.retired = true
	l.mu.Unlock()
	if idle {
		l.conn.Close()
	}
}

// acquire leases the server's link. Without one it wakes the owner and waits for
// the end of its next attempt.
func (s *server) acquire(ctx context.Context) (*link, error) {
	seen := -1
	for {
		s.mu.Lock()
		l, state, reason, attempts, next, change := s.link, s.state, s.reason, s.attempts, s.next, s.change
		s.mu.Unlock()
		if l != nil && !ended(l.conn) && l.lease() {
			return l, nil
		}
		if seen < 0 {
			seen = attempts
		}
		switch state {
		case stateRefused:
			return nil, sdk.Errorf(sdk.Denied, "server %q is not connected: %v", s.conf.Name, reason)
		case stateAuth:
			return nil, sdk.Errorf(sdk.AuthRequired, "server %q: %v; other credentials in its auth block or headers are needed", s.conf.Name, reason)
		case stateStopped:
			// What is under way goes to the server that has the name now, unless that one
			// has guards which have not seen it.
			if next := s.successor(); next != nil && reflect.DeepEqual(next.conf.ArgGuards, s.conf.ArgGuards) {
				return next.acquire(ctx)
			}
			return nil, sdk.Errorf(sdk.Unavailable, "server %q is being stopped", s.conf.Name).After(time.Second)
		case stateFailed:
			if attempts > seen {
				e := sdk.Errorf(sdk.Unavailable, "server %q is configured but not reachable: %v", s.conf.Name, reason)
				return nil, e.After(max(time.Until(next), 0).Round(100 * time.Millisecond))
			}
			poke(s.wake)
		}
		if attempts > seen+10 {
			return nil, sdk.Errorf(sdk.Unavailable, "server %q loses its connection again and again: %v", s.conf.Name, reason).After(time.Second)
		}
		select {
		case <-change:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errTimeUp) {
				return nil, sdk.Errorf(sdk.Unavailable, "server %q is not connected yet (%s); its connect_timeout is %s", s.conf.Name, state, s.inForce().ConnectTime(&s.conf)).After(time.Second)
			}
			return nil, ctx.Err()
		}
	}
}

func ended(c *downstream.Conn) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

var errTimeUp = errors.New("the call's time is up")
