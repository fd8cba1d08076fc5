package cache

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Transport answers from a store what may be, and keeps what may be kept.
type Transport struct {
	Next  http.RoundTripper
	Store *Store
	// Scope parts the copies of one set of settings from those of another.
	Scope string
	// Max is the largest body that is kept, in bytes, packed as it came.
	Max int64
}

// Use is how a copy took part in an answer.
type Use struct {
	Fetched   time.Time     // when the body came; zero when it is new
	Checked   time.Time     // when the server last stood for it
	Validated bool          // which is now: it was asked and said that nothing has changed
	Fresh     time.Duration // else, how long the server said it is good
}

type useKey struct{}

// Watch gives a context with which a request notes in use how it was answered; of
// several, as with redirects, the last counts.
func Watch(ctx context.Context, use *Use) context.Context {
	return context.WithValue(ctx, useKey{}, use)
}

// RoundTrip answers a request.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	use, _ := req.Context().Value(useKey{}).(*Use)
	if use == nil {
		use = &Use{}
	}
	*use = Use{}
	if !asks(req) {
		return t.Next.RoundTrip(req)
	}
	key, address := t.key(req), req.URL.String()
	old := t.Store.get(key, address)
	sent := req
	if old != nil {
		fresh := freshFor(old.Header, old.Validated)
		age := time.Since(old.Validated)
		if age >= 0 && age < fresh && directives(req.Header)["no-cache"] == nil {
			*use = Use{Fetched: old.Fetched, Checked: old.Validated, Fresh: fresh}
			return old.response(req), nil
		}
		sent = req.Clone(req.Context())
		if tag := old.Header.Get("ETag"); tag != "" {
			sent.Header.Set("If-None-Match", tag)
		}
		if at := old.Header.Get("Last-Modified"); at != "" {
			sent.Header.Set("If-Modified-Since", at)
		}
	}
	resp, err := t.Next.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	switch {
	case old != nil && resp.StatusCode == http.StatusNotModified:
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // so that the connection can be used again
		_ = resp.Body.Close()
		for name, values := range pick(resp.Header, renewed) {
			old.Header[name] = values
		}
		old.Validated = time.Now()
		if d := directives(resp.Header); d["no-store"] != nil || d["private"] != nil {
			t.Store.drop(key)
		} else {
			_ = t.Store.put(key, old) // a copy that can't be kept is asked for again
		}
		*use = Use{Fetched: old.Fetched, Checked: old.Validated, Validated: true}
		return old.response(req), nil
	case keeps(resp, time.Now()):
		now := time.Now()
		e := &entry{URL: address, Header: pick(resp.Header, kept), Fetched: now, Validated: now}
		resp.Body = &copier{ReadCloser: resp.Body, max: t.Max, done: func(body []byte) {
			e.body = body
			_ = t.Store.put(key, e) // without room there is no copy
		}}
	case old != nil && resp.StatusCode < http.StatusInternalServerError:
		t.Store.drop(key) // it is no longer what is there
	}
	return resp, nil
}

// key is the request itself: its address and all of its headers.
func (t *Transport) key(req *http.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", t.Scope, req.URL)
	header := req.Header.Clone()
	header.Del("Cache-Control") // asks how, not for what
	header.Del("Referer")       // which a client adds after a redirect
	_ = header.Write(&b)        // sorted; to a buffer
	return b.String()
}

func (e *entry) response(req *http.Request) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: e.Header.Clone(), Body: io.NopCloser(bytes.NewReader(e.body)), ContentLength: int64(len(e.body)), Request: req,
	}
}

// copier keeps what is read through it and hands it over when the body has come to
// its end; a body that breaks off or is left is not kept.
type copier struct {
	io.ReadCloser
	buf  bytes.Buffer
	max  int64
	done func([]byte)
}

func (c *copier) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.done == nil {
		return n, err
	}
	c.buf.Write(p[:n])
	switch {
	case int64(c.buf.Len()) > c.max:
		c.done, c.buf = nil, bytes.Buffer{}
	case err == io.EOF:
		c.done(c.buf.Bytes())
		c.done = nil
	}
	return n, err
}
