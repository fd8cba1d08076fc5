package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	maxAnswer = 4 << 20          // bytes of one answer
	backoff   = time.Second      // before the first repetition; doubles
	maxWait   = 8 * time.Second  // between two attempts, whatever the provider asks
	answerIn  = 20 * time.Second // of one request
	maxLimit  = time.Hour        // for which a provider is left alone, whatever it asks
)

// line is the queue in front of one provider.
type line struct {
	config   Config
	provider provider
	client   *http.Client
	turn     chan struct{} // holds whose turn it is
	next     time.Time     // when the next request may start; of the one whose turn it is

	mu    sync.Mutex
	until time.Time // when it may be asked again, after it said that it is too much
}

// limitedError is that a provider wants to be asked later.
type limitedError struct {
	status  int // 0: it was not asked
	retries int
	wait    time.Duration
}

func (e *limitedError) Error() string {
	if e.status == 0 {
		return fmt.Sprintf("rate-limited; it wants to be left alone for another %s", e.wait.Round(time.Second))
	}
	return fmt.Sprintf("rate-limited (status %d) also after %d retries", e.status, e.retries)
}

// limited is how long the provider wants to be left alone.
func (l *line) limited() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(time.Until(l.until), 0)
}

func (l *line) limit(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(min(d, maxLimit))
}

// again asks a provider that was too busy until it isn't, as often as its
// configuration wants.
func (l *line) again(ctx context.Context, q Query) ([]Hit, error) {
	var last error
	for attempt := 1; attempt <= l.config.Retries; attempt++ {
		if err := pause(ctx, min(l.limited(), maxWait)); err != nil {
			return nil, err
		}
		hits, err := l.search(ctx, q, attempt)
		var limited *limitedError
		if !errors.As(err, &limited) {
			return hits, err
		}
		last = err
	}
	return nil, last
}

// search asks the provider once, at its pace. The first time it does not ask one
// that wants to be left alone.
func (l *line) search(ctx context.Context, q Query, attempt int) ([]Hit, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	if wait := l.limited(); wait > 0 && attempt == 0 {
		return nil, &limitedError{wait: wait}
	}
	if err := pause(ctx, time.Until(l.next)); err != nil {
		return nil, err
	}
	l.next = time.Now().Add(l.config.Interval)
	body, status, after, err := l.ask(ctx, q)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		wait := min(backoff<<min(attempt, 10), maxWait)
		if after != nil {
			wait = max(*after, 0)
		}
		l.limit(wait)
		return nil, &limitedError{status, attempt, wait}
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, fmt.Errorf("it refuses the request (status %d)%s; is its key valid?", status, said(body))
	case status != http.StatusOK:
		return nil, fmt.Errorf("status %d%s", status, said(body))
	}
	found, err := l.provider.hits(body)
	if err != nil {
		return nil, fmt.Errorf("its answer can't be read: %w", err)
	}
	return usable(found), nil
}

// ask sends one request and reads its answer.
func (l *line) ask(ctx context.Context, q Query) (body []byte, status int, after *time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	req, err := l.provider.request(ctx, q)
	if err != nil {
		return nil, 0, nil, err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return nil, 0, nil, unwrapURL(err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, 0, nil, err
	}
	if len(body) > maxAnswer {
		return nil, 0, nil, fmt.Errorf("its answer is larger than %d bytes", maxAnswer)
	}
	return body, resp.StatusCode, RetryAfter(resp.Header.Get("Retry-After"), time.Now()), nil
}

// unwrapURL drops the address of a failed request: it may hold a key.
func unwrapURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// RetryAfter reads the header of that name: seconds, or a date (one that has passed is no wait).
func RetryAfter(header string, now time.Time) *time.Duration {
	if seconds, err := strconv.ParseUint(strings.TrimSpace(header), 10, 31); err == nil {
		d := time.Duration(seconds) * time.Second
		return &d
	}
	if at, err := http.ParseTime(header); err == nil {
		d := at.Sub(now)
		return &d
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// said is the first of what an engine answered beside its status.
func said(body []byte) string {
	text := clean(string(body))
	if text == "" || !utf8.ValidString(text) {
		return ""
	}
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "…"
	}
	return ": " + text
}
