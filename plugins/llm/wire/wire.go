// Package wire is HTTP to a provider under limits: a body that has no end, a stream
// that stands still and a text that repeats a key are dealt with here, once for all
// providers.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/llm/chat"
)

const (
	maxAnswer  = 32 << 20 // bytes of one answer, streams included
	maxRefusal = 64 << 10
	shown      = 500 // bytes of a refusal that are repeated
)

// ErrIdle says that a provider sent nothing for too long.
var ErrIdle = errors.New("the provider sent nothing for too long")

var errLong = fmt.Errorf("the provider's answer is longer than %d bytes", maxAnswer)

// Client is an HTTP client to one provider.
type Client struct {
	Secrets []string      // never repeated in an error
	Idle    time.Duration // longest silence of a provider that is asked
	http    *http.Client
}

// New makes a client.
func New(idle time.Duration, secrets ...string) *Client {
	c := &Client{Secrets: secrets, Idle: idle}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	c.http = &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10},
		// A key goes to the address it was given for, and nowhere else.
		CheckRedirect: func(req *http.Request, _ []*http.Request) error {
			return fmt.Errorf("the provider redirects to %s://%s; name that address in base_url if it is the right one", req.URL.Scheme, req.URL.Host)
		},
	}
	return c
}

// Do sends a request. An answer with an error status becomes a *chat.Failure; the
// body of another is bounded in length and in silence.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	silence := time.AfterFunc(c.Idle, func() { cancel(ErrIdle) })
	end := func() { silence.Stop(); cancel(nil) }
	resp, err := c.http.Do(req.WithContext(ctx))
	if err != nil {
		end()
		return nil, c.failed(ctx, err)
	}
	resp.Body = &body{ReadCloser: resp.Body, c: c, ctx: ctx, silence: silence, end: end, left: maxAnswer}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		raw = append(raw, []byte(" (cut: "+err.Error()+")")...)
	}
	return nil, &chat.Failure{Status: resp.StatusCode, Message: c.clean(said(raw)), After: retryAfter(resp.Header)}
}

// failed words a failure of the connection.
func (c *Client) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var address *url.Error
	if errors.As(err, &address) {
		err = address.Err // the address may hold what is nobody's business
	}
	return &chat.Failure{Message: c.clean(err.Error())}
}

// said is a refusal's own words.
func said(raw []byte) string {
	var m struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(raw, &m) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		var text string
		switch {
		case json.Unmarshal(m.Error, &inner) == nil && inner.Message != "":
			return inner.Message
		case json.Unmarshal(m.Error, &text) == nil && text != "":
			return text
		case m.Message != "":
			return m.Message
		}
	}
	return string(bytes.TrimSpace(raw))
}

// clean bounds a text of a provider and takes the keys out of it.
func (c *Client) clean(text string) string {
	for _, s := range c.Secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "[hidden]")
			text = strings.ReplaceAll(text, url.QueryEscape(s), "[hidden]")
		}
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) > shown {
		text = strings.ToValidUTF8(text[:shown], "") + "…"
	}
	return text
}

func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.Atoi(v); err == nil && s >= 0 && s < 86400 {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

type body struct {
	io.ReadCloser
	c       *Client
	ctx     context.Context
	silence *time.Timer
	end     func()
	left    int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.silence.Reset(b.c.Idle)
	}
	if b.left -= int64(n); b.left < 0 {
		return n, errLong
	}
	if err != nil && err != io.EOF {
		err = b.c.failed(b.ctx, err)
	}
	return n, err
}

func (b *body) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
