package httpapi

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

// Connections bounds the open connections of a listener. A new one that finds no
// room takes the place of the one that has been without a request for longest;
// when every connection has a request in hand it is told to come back. So those who
// only hold connections open can't keep others out.
type Connections struct {
	max int

	mu   sync.Mutex
	all  map[net.Conn]*list.Element // nil: a request is in hand
	idle *list.List                 // of idling, longest idle first

	dropped, refused uint64
}

// idling is a connection without a request, and since when.
type idling struct {
	conn  net.Conn
	since time.Time
}

// grace is how long a connection may take to begin its request before it can lose
// its place, and so long at most a new one waits for it: in a storm of connections
// none would ever get to speak otherwise.
const grace = 100 * time.Millisecond

// NewConnections admits at most max at a time.
func NewConnections(max int) *Connections {
	return &Connections{max: max, all: map[net.Conn]*list.Element{}, idle: list.New()}
}

const (
	reservedFiles  = 192   // plugins, sockets, database, logs
	maxConnections = 16384 // a number at which memory is still no matter
	minConnections = 16
)

// ConnectionLimit is how many connections a process that may have files files open
// can admit: three quarters, and never what the host itself needs.
func ConnectionLimit(files uint64) int {
	n := min(files, 1<<20)
	return max(minConnections, min(maxConnections, int(n/4*3), int(n)-reservedFiles))
}

// ConnectionCounts is how it stands.
type ConnectionCounts struct {
	Open, Idle, Limit int
	Dropped           uint64 // idle ones that made room
	Refused           uint64 // turned away
}

// Counts says how it stands.
func (c *Connections) Counts() ConnectionCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ConnectionCounts{Open: len(c.all), Idle: c.idle.Len(), Limit: c.max, Dropped: c.dropped, Refused: c.refused}
}

// admit finds room for one more that came at a time, or says how long to wait
// before trying again.
func (c *Connections) admit(conn net.Conn, came time.Time) (ok bool, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= c.max {
		front := c.idle.Front()
		if front == nil {
			c.refused++
			return false, 0
		}
		oldest := front.Value.(idling)
		if wait := grace - max(time.Since(oldest.since), time.Since(came)); wait > 0 {
			return false, wait
		}
		c.forget(oldest.conn)
		c.dropped++
		_ = oldest.conn.Close() // nothing was under way on it
	}
	c.all[conn] = c.idle.PushBack(idling{conn, time.Now()})
	return true, 0
}

func (c *Connections) forget(conn net.Conn) {
	e, known := c.all[conn]
	if !known {
		return
	}
	if e != nil {
		c.idle.Remove(e)
	}
	delete(c.all, conn)
}

// state follows a connection as the server sees it.
func (c *Connections) state(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, known := c.all[conn]
	if !known {
		return // it has made room already
	}
	switch s {
	case http.StateActive:
		if e != nil {
			c.idle.Remove(e)
			c.all[conn] = nil
		}
	case http.StateIdle:
		if e == nil {
			c.all[conn] = c.idle.PushBack(idling{conn, time.Now()})
		}
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
	}
}

// over says that nothing more is going to happen on a connection whose request is in
// hand still: it makes room like an idle one.
func (c *Connections) over(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, known := c.all[conn]; known && e == nil {
		c.all[conn] = c.idle.PushBack(idling{conn, time.Now()})
	}
}

// listener admits connections within the bound.
type listener struct {
	net.Listener
	conns *Connections

	once   sync.Once
	closed chan struct{}
}

func newListener(l net.Listener, conns *Connections) *listener {
	return &listener{Listener: l, conns: conns, closed: make(chan struct{})}
}

// Close ends Accept, also while it waits for room.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// pause waits; it reports false when the listener is closed first.
func (l *listener) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.closed:
		return false
	}
}

const busy = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"

// Accept returns the next admitted connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		came := time.Now()
		ok, wait := l.conns.admit(conn, came)
		for wait > 0 {
			if !l.pause(wait) { // the ones that follow wait in the kernel's queue
				_ = conn.Close()
				return nil, net.ErrClosed
			}
			ok, wait = l.conns.admit(conn, came)
		}
		if ok {
			return conn, nil
		}
		// The few bytes fit the socket's buffer; who does not read them loses only them.
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte(busy))
		_ = conn.Close()
	}
}
