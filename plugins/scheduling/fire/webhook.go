package fire

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// Hook sends webhooks, signed as the Standard Webhooks specification says: headers
// webhook-id, webhook-timestamp and webhook-signature (v1, HMAC-SHA256 over
// id.timestamp.body).
type Hook struct {
	secret []byte
	client *http.Client
}

const (
	hookTimeout = 15 * time.Second // of one attempt
	maxWaitHook = 5 * time.Minute  // a Retry-After that is obeyed
	maxAnswer   = 4 << 10
)

// NewHook makes a sender that opens only addresses the guard admits. It follows no
// redirect: the signed body is for the address that was given.
func NewHook(secret string, guard *netguard.Guard) *Hook {
	transport := &http.Transport{DialContext: guard.Dial, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns: 16, IdleConnTimeout: 30 * time.Second, ForceAttemptHTTP2: true}
	return &Hook{secret: []byte(secret), client: &http.Client{Transport: transport, Timeout: hookTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Close drops idle connections.
func (h *Hook) Close() { h.client.CloseIdleConnections() }

// CheckURL says what is wrong with a webhook's address.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("a webhook has an http or https address without credentials, such as https://example.org/hook")
	}
	return nil
}

// body of a webhook.
type body struct {
	Type      string          `json:"type"` // scheduled_task.fired
	Timestamp time.Time       `json:"timestamp"`
	Data      hookData        `json:"data"`
	Payload   json.RawMessage `json:"payload,omitempty"`
}

type hookData struct {
	report
	Description string `json:"description"`
}

// webhook sends a fire, again while the other side is not there or busy.
func (d *Deliverer) webhook(ctx context.Context, t *task.Task, f task.Fire, r task.Run) task.Run {
	if d.Hook == nil {
		return d.end(r, task.Failed, "webhooks are off: the operator sets a webhook block in the plugin's config")
	}
	raw, err := json.Marshal(body{Type: "scheduled_task.fired", Timestamp: f.Due.UTC(), Payload: t.Action.Arguments, Data: hookData{
		report: report{Task: t.Name, ID: t.ID, Fire: f.ID, Due: f.Due, Action: task.Webhook, Manual: f.Manual, Missed: f.Missed, Again: f.Again > 0}, Description: t.Description}})
	if err != nil {
		return d.end(r, task.Failed, err.Error())
	}
	pause := firstPause
	for n := 1; ; n++ {
		status, after, err := d.Hook.send(ctx, t.Action.URL, f.ID, d.Now(), raw)
		if err == nil && status < 300 {
			return d.end(r, task.OK, fmt.Sprintf("answered %d at attempt %d", status, n))
		}
		what := fmt.Sprintf("answered %d", status)
		var refused *netguard.Refused
		final := status >= 300 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
		if err != nil {
			what, final = err.Error(), errors.As(err, &refused)
		}
		if final || n == attempts || after > maxWaitHook || !d.Wait(ctx, max(pause, after)) {
			return d.end(r, task.Failed, fmt.Sprintf("the webhook failed at attempt %d: %s", n, what))
		}
		pause = min(4*pause, maxPause)
	}
}

// send is one attempt; after is how long the other side wants to be left alone.
func (h *Hook) send(ctx context.Context, address, id string, now time.Time, body []byte) (status int, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, h.secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "bulkhead-scheduling")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	resp, err := h.client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // so that the connection can be used again
	if text := resp.Header.Get("Retry-After"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			after = time.Duration(min(n, 1<<20)) * time.Second
		} else if at, err := http.ParseTime(text); err == nil {
			after = max(at.Sub(now), 0)
		}
	}
	return resp.StatusCode, after, nil
}
