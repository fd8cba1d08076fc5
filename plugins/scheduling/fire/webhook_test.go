package fire

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

const secret = "a secret of 16 characters and more"

// inbox is a host that keeps what is put into inboxes.
type inbox struct {
	mu     sync.Mutex
	events []sdk.Event
}

func (b *inbox) Derive(context.Context, *task.Task) (string, error) { return "r", nil }
func (b *inbox) Release(context.Context, string) error              { return nil }
func (b *inbox) CallTool(context.Context, string, string, json.RawMessage, time.Duration) (sdk.Result, error) {
	return sdk.Result{}, sdk.Errorf(sdk.Denied, "no")
}
func (b *inbox) Publish(_ context.Context, _ string, e sdk.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
	return nil
}

// receiver is a webhook's other side that checks signatures as the Standard Webhooks
// specification says, and answers as it is told.
type receiver struct {
	t       *testing.T
	mu      sync.Mutex
	answers []func(http.ResponseWriter)
	got     []map[string]json.RawMessage
	ids     []string
}

func (s *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	id, at := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s.%s", id, at, raw)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want || r.Method != "POST" {
		s.t.Errorf("%s %s, signature %q, want %q", r.Method, r.URL, r.Header.Get("webhook-signature"), want)
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(raw, &body); err != nil {
		s.t.Errorf("%v: %s", err, raw)
	}
	s.mu.Lock()
	n := len(s.got)
	s.got, s.ids = append(s.got, body), append(s.ids, id)
	answer := func(http.ResponseWriter) {}
	if n < len(s.answers) {
		answer = s.answers[n]
	}
	s.mu.Unlock()
	answer(w)
}

func status(code int, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
	}
}

func TestWebhook(t *testing.T) {
	for name, c := range map[string]struct {
		answers []func(http.ResponseWriter)
		outcome string
		detail  string
		waits   []time.Duration
	}{
		"at once":          {nil, task.OK, "answered 200 at attempt 1", nil},
		"after failures":   {[]func(http.ResponseWriter){status(500), status(503), status(429)}, task.OK, "attempt 4", []time.Duration{time.Second, 4 * time.Second, 16 * time.Second}},
		"as it is told to": {[]func(http.ResponseWriter){status(503, "Retry-After", "120")}, task.OK, "attempt 2", []time.Duration{2 * time.Minute}},
		"never":            {slices.Repeat([]func(http.ResponseWriter){status(502)}, 9), task.Failed, "failed at attempt 5: answered 502", []time.Duration{time.Second, 4 * time.Second, 16 * time.Second, time.Minute}},
		"too far off":      {[]func(http.ResponseWriter){status(503, "Retry-After", "86400")}, task.Failed, "attempt 1", nil},
		"refused":          {[]func(http.ResponseWriter){status(410)}, task.Failed, "answered 410", nil},
		"led elsewhere":    {[]func(http.ResponseWriter){status(302, "Location", "http://127.0.0.1:1/")}, task.Failed, "answered 302", nil},
		"cut off":          {[]func(http.ResponseWriter){func(http.ResponseWriter) { panic(http.ErrAbortHandler) }}, task.OK, "attempt 2", []time.Duration{time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &receiver{t: t, answers: c.answers}
			server := httptest.NewServer(r)
			defer server.Close()
			guard, err := netguard.New([]string{"127.0.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			host, hook := &inbox{}, NewHook(secret, guard)
			defer hook.Close()
			var waits []time.Duration
			d := &Deliverer{Host: host, Hook: hook, Now: time.Now, Wait: func(_ context.Context, d time.Duration) bool { waits = append(waits, d); return true }}
			job := &task.Task{ID: "t_x", Owner: "ann", Spec: task.Spec{Name: "hook", Description: "Tell them.", Action: task.Action{Kind: task.Webhook, URL: server.URL + "/in", Arguments: json.RawMessage(`{"big":9007199254740993}`)}}}
			run, done := d.Deliver(t.Context(), job, task.Fire{ID: "t_x-1", Due: time.Unix(1_800_000_000, 0), Begun: time.Now(), Again: 1})
			if !done || run.Outcome != c.outcome || !strings.Contains(run.Detail, c.detail) || !run.Again {
				t.Errorf("%t %+v", done, run)
			}
			if !slices.Equal(waits, c.waits) {
				t.Errorf("waited %v, want %v", waits, c.waits)
			}
			for i, body := range r.got {
				if string(body["payload"]) != `{"big":9007199254740993}` || !strings.Contains(string(body["data"]), `"may_have_run_before":true`) || r.ids[i] != "t_x-1" {
					t.Errorf("attempt %d: id %s, %s", i+1, r.ids[i], body)
				}
			}
			if told := len(host.events); (told == 1) != (c.outcome == task.Failed) {
				t.Errorf("%d entries in the inbox", told)
			}
		})
	}
}

// Private addresses are not opened, whatever they are called, and not tried again.
func TestWebhookStaysOutside(t *testing.T) {
	r := &receiver{t: t}
	server := httptest.NewServer(r)
	defer server.Close()
	guard, err := netguard.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	hook := NewHook(secret, guard)
	defer hook.Close()
	d := &Deliverer{Host: &inbox{}, Hook: hook, Now: time.Now, Wait: func(context.Context, time.Duration) bool { t.Error("tried again"); return false }}
	job := &task.Task{ID: "t_x", Owner: "ann", Spec: task.Spec{Name: "hook", Action: task.Action{Kind: task.Webhook, URL: server.URL}}}
	run, done := d.Deliver(t.Context(), job, task.Fire{ID: "t_x-1"})
	if !done || run.Outcome != task.Failed || !strings.Contains(run.Detail, "only public addresses") || len(r.got) != 0 {
		t.Errorf("%+v, %d requests", run, len(r.got))
	}
	for _, bad := range []string{"ftp://example.org/x", "https://user:pw@example.org/", "example.org", "https://", "http://[::1"} {
		if CheckURL(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
