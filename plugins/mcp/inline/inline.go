package inline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	maxBody    = 64 << 10 // of a request; what is larger may need both directions at once
	maxInterim = 5        // answers of 1xx before the real one
)

// Transport is the RoundTripper.
type Transport struct {
	other *http.Transport

	mu    sync.Mutex
	idle  map[string][]*conn // by host and port, the one used last at the end
	sweep *time.Timer        // runs while there are idle ones
}

// New makes a transport that leaves to other what it does not do, and dials and
// limits as other is set to: DialContext, Proxy, MaxIdleConnsPerHost,
// IdleConnTimeout and MaxResponseHeaderBytes must be set.
func New(other *http.Transport) *Transport {
	return &Transport{other: other, idle: map[string][]*conn{}}
}

// CloseIdleConnections closes what lies idle here and in the other transport.
func (t *Transport) CloseIdleConnections() {
	t.drop(time.Now().Add(time.Hour))
	t.other.CloseIdleConnections()
}

// RoundTrip sends req and gives the answer once its headers are there. The body
// must be read to its end for the connection to be used again.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !peeks || !t.takes(req) {
		return t.other.RoundTrip(req)
	}
	addr := req.URL.Host
	if req.URL.Port() == "" {
		addr = net.JoinHostPort(req.URL.Hostname(), "80")
	}
	ctx := req.Context()
	for {
		c, err := t.get(ctx, addr)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		resp, err := c.roundTrip(req)
		var untaken *untakenError
		if err == nil || !c.used || !errors.As(err, &untaken) || req.GetBody == nil || ctx.Err() != nil {
			return resp, err
		}
		again := req.Clone(ctx)
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
		req = again
	}
}

// takes says whether a request is of the kind that is dealt with here.
func (t *Transport) takes(req *http.Request) bool {
	if req.URL.Scheme != "http" || req.Method != http.MethodPost || req.URL.Hostname() == "" ||
		req.Body == nil || req.ContentLength <= 0 || req.ContentLength > maxBody ||
		req.Close || len(req.TransferEncoding) > 0 || req.Header.Get("Expect") != "" || req.Header.Get("Upgrade") != "" {
		return false
	}
	if t.other.Proxy == nil {
		return true
	}
	proxy, err := t.other.Proxy(req)
	return proxy == nil && err == nil
}

// get gives a connection that lay idle and is good, or a new one.
func (t *Transport) get(ctx context.Context, addr string) (*conn, error) {
	for {
		t.mu.Lock()
		list := t.idle[addr]
		var c *conn
		if n := len(list); n > 0 {
			c, list[n-1] = list[n-1], nil
			t.idle[addr] = list[:n-1]
		}
		t.mu.Unlock()
		if c == nil {
			break
		}
		if time.Since(c.since) < t.other.IdleConnTimeout && c.r.Buffered() == 0 && quiet(c.Conn) {
			c.used = true
			return c, nil
		}
		c.Close()
	}
	raw, err := t.other.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, t: t, addr: addr}
	c.r, c.w = bufio.NewReader(&c.from), bufio.NewWriter(&c.to)
	c.from.r, c.to.w = raw, raw
	return c, nil
}

// put keeps a connection for the next request.
func (t *Transport) put(c *conn) {
	c.since = time.Now()
	t.mu.Lock()
	full := len(t.idle[c.addr]) >= t.other.MaxIdleConnsPerHost
	if !full {
		t.idle[c.addr] = append(t.idle[c.addr], c)
		if t.sweep == nil {
			t.sweep = time.AfterFunc(t.other.IdleConnTimeout, func() { t.drop(time.Now().Add(-t.other.IdleConnTimeout)) })
		}
	}
	t.mu.Unlock()
	if full {
		c.Close()
	}
}

// drop closes the connections that lie idle since before a time, and comes again
// while there are others.
func (t *Transport) drop(before time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sweep != nil {
		t.sweep.Stop()
		t.sweep = nil
	}
	for addr, list := range t.idle {
		n := 0
		for n < len(list) && !list[n].since.After(before) {
			list[n].Close()
			n++
		}
		if list = list[n:]; len(list) == 0 {
			delete(t.idle, addr)
			continue
		}
		t.idle[addr] = append([]*conn(nil), list...)
	}
	if len(t.idle) > 0 {
		t.sweep = time.AfterFunc(t.other.IdleConnTimeout, func() { t.drop(time.Now().Add(-t.other.IdleConnTimeout)) })
	}
}

func closeBody(req *http.Request) { _ = req.Body.Close() }

// untakenError says that not a byte of a request left.
type untakenError struct{ error }

func (e *untakenError) Unwrap() error { return e.error }

// conn is a connection that one request at a time has.
type conn struct {
	net.Conn
	t     *Transport
	addr  string
	used  bool      // by an earlier request
	since time.Time // it lies idle
	r     *bufio.Reader
	w     *bufio.Writer
	from  bounded
	to    counted
}

// roundTrip owns the connection until the answer's body is read or closed.
func (c *conn) roundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	// Whoever waits in a read or a write is freed when nobody wants the answer.
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	fail := func(err error) (*http.Response, error) {
		stop()
		c.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	c.to.n = 0
	err := req.Write(c.w)
	if err == nil {
		err = c.w.Flush()
	}
	if err != nil && c.to.n == 0 {
		return fail(&untakenError{err})
	}
	// A server that did not take it all may have said why.
	c.from.left = c.t.other.MaxResponseHeaderBytes
	resp, readErr := readResponse(c.r, req)
	c.from.left = -1
	if readErr != nil {
		if err == nil {
			err = readErr
		}
		return fail(fmt.Errorf("reading the answer: %w", err))
	}
	b := &body{ReadCloser: resp.Body, c: c, ctx: ctx, stop: stop, keep: err == nil && !resp.Close}
	if resp.Body == http.NoBody {
		b.end(true)
		return resp, nil
	}
	resp.Body = b
	return resp, nil
}

// readResponse reads the head of an answer, past those that only announce it.
func readResponse(r *bufio.Reader, req *http.Request) (*http.Response, error) {
	for range maxInterim + 1 {
		resp, err := http.ReadResponse(r, req)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the server changes the protocol unasked")
		case resp.StatusCode >= 200:
			return resp, nil
		}
	}
	return nil, fmt.Errorf("the server sent more than %d interim answers", maxInterim)
}

// body gives its connection back when it is read to its end.
type body struct {
	io.ReadCloser
	c    *conn
	ctx  context.Context
	stop func() bool
	keep bool
	over sync.Once
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		if err != io.EOF && b.ctx.Err() != nil {
			err = b.ctx.Err()
		}
		b.end(err == io.EOF)
	}
	return n, err
}

func (b *body) Close() error {
	b.end(false)
	return nil
}

// end lets go of the connection: whole = the answer was read to its end.
func (b *body) end(whole bool) {
	b.over.Do(func() {
		// What stop did not prevent may have set a deadline.
		if b.stop() && whole && b.keep && b.c.r.Buffered() == 0 {
			b.c.t.put(b.c)
			return
		}
		b.c.Close()
	})
}

var errLongHead = errors.New("the head of the answer is longer than allowed")

// bounded ends a head that has no end.
type bounded struct {
	r    io.Reader
	left int64 // bytes that may still come; negative = any
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errLongHead
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	return n, err
}

type counted struct {
	w io.Writer
	n int
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += n
	return n, err
}
