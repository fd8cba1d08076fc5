package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// client follows no redirects, as New wants it.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// engine serves one provider's answer and remembers the last request.
type engine struct {
	*httptest.Server
	mu     sync.Mutex
	last   *http.Request
	form   url.Values
	body   []byte
	starts []time.Time
}

func serve(t *testing.T, answer func(n int, w http.ResponseWriter)) *engine {
	t.Helper()
	e := &engine{}
	var n atomic.Int32
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing shows in the comparison
		form, _ := url.ParseQuery(string(body))
		e.mu.Lock()
		e.last, e.body, e.form = r, body, form
		e.starts = append(e.starts, time.Now())
		e.mu.Unlock()
		answer(int(n.Add(1)), w)
	}))
	t.Cleanup(e.Close)
	return e
}

func always(s string) func(int, http.ResponseWriter) {
	return func(_ int, w http.ResponseWriter) { _, _ = io.WriteString(w, s) } // the client is us
}

func make1(t *testing.T, c ...Config) *Engines {
	t.Helper()
	e, err := New(c, client)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Every provider gets what its interface asks for, and its hits come out alike.
func TestProviders(t *testing.T) {
	q := Query{Text: "go & gRPC", Count: 7, Freshness: "week", Site: "go.dev", Safe: "strict"}
	want := `[{"title":"Go \u0026 gRPC","url":"https://go.dev/doc?a=1\u0026b=2","snippet":"A bold word."},{"title":"Other","url":"http://example.org/"}]`
	hit := `{"title":"Go &amp; gRPC","%s":"https://go.dev/doc?a=1&b=2","%s":"A <strong>bold</strong>\n word."},{"title":"Other","%s":"http://example.org/"},{"title":"","%s":"http://untitled/"},{"title":"js","%s":"javascript:alert(1)"},{"title":"Twice","%s":"http://example.org/"}`
	hits := func(u, s string) string { return fmt.Sprintf(hit, u, s, u, u, u, u) }
	for _, c := range []struct {
		name, answer, path string
		check              map[string]string // of the query or the form
		header             map[string]string
	}{
		{"brave", `{"web":{"results":[` + hits("url", "description") + `]}}`, "/res/v1/web/search",
			map[string]string{"q": "go & gRPC site:go.dev", "count": "7", "freshness": "pw", "safesearch": "strict"}, map[string]string{"X-Subscription-Token": "key", "Accept": "application/json"}},
		{"searxng", `{"results":[` + hits("url", "content") + `]}`, "/search",
			map[string]string{"q": "go & gRPC site:go.dev", "format": "json", "time_range": "week", "safesearch": "2"}, nil},
		{"google", `{"items":[` + hits("link", "snippet") + `]}`, "/customsearch/v1",
			map[string]string{"q": "go & gRPC", "num": "7", "cx": "engine", "dateRestrict": "w1", "safe": "active", "siteSearch": "go.dev", "key": ""}, map[string]string{"X-Goog-Api-Key": "key"}},
		{"tavily", `{"results":[` + hits("url", "content") + `]}`, "/search", nil, map[string]string{"Authorization": "Bearer key", "Content-Type": "application/json"}},
		{"duckduckgo", `<div class="result results_links result--ad"><a class="result__a" href="https://ad.example/">Buy</a><a class="result__snippet">now</a></div>
<div class="result"><h2><a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fgo.dev%2Fdoc%3Fa%3D1%26b%3D2&amp;rut=x">Go &amp; <b>gRPC</b></a></h2><a class="result__snippet" href="x">A <b>bold</b> word.</a></div>
<div class="result"><a class="result__a" href="http://example.org/">Other</a></div>`, "/html/",
			map[string]string{"q": "go & gRPC site:go.dev", "df": "w", "kp": "1"}, map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, always(c.answer))
			found, name, err := make1(t, Config{Provider: c.name, Key: "key", Engine: "engine", BaseURL: srv.URL}).Search(t.Context(), q)
			if err != nil || name != c.name {
				t.Fatal(name, err)
			}
			if raw, _ := json.Marshal(found); string(raw) != want {
				t.Errorf("\n%s\n%s", raw, want)
			}
			if srv.last.URL.Path != c.path {
				t.Errorf("asked at %s", srv.last.URL.Path)
			}
			values := srv.last.URL.Query()
			if srv.last.Method == http.MethodPost {
				values = srv.form
			}
			for k, v := range c.check {
				if values.Get(k) != v {
					t.Errorf("%s = %q, not %q", k, values.Get(k), v)
				}
			}
			for k, v := range c.header {
				if srv.last.Header.Get(k) != v {
					t.Errorf("header %s = %q, not %q", k, srv.last.Header.Get(k), v)
				}
			}
			if c.name == "tavily" && string(srv.body) != `{"query":"go \u0026 gRPC","max_results":7,"time_range":"week","include_domains":["go.dev"],"safe_search":true}` {
				t.Errorf("sent %s", srv.body)
			}
			few := q
			few.Count = 1
			if found, _, err := make1(t, Config{Provider: c.name, Key: "key", Engine: "engine", BaseURL: srv.URL}).Search(t.Context(), few); err != nil || len(found) != 1 {
				t.Error(found, err)
			}
		})
	}
}

func TestNoProvider(t *testing.T) {
	if _, _, err := make1(t).Search(t.Context(), Query{Text: "x", Count: 1}); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// The next provider is asked when one fails, and all failures are told.
func TestPreference(t *testing.T) {
	down := serve(t, func(_ int, w http.ResponseWriter) {
		http.Error(w, `{"error":"<b>out of credits</b>"}`, http.StatusPaymentRequired)
	})
	refuses := serve(t, func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) })
	garbage := serve(t, always("<html>"))
	good := serve(t, always(`{"results":[{"title":"T","url":"http://u.example/"}]}`))
	bad := []Config{{Provider: "brave", Key: "secret-key", BaseURL: down.URL}, {Provider: "tavily", Key: "secret-key", BaseURL: refuses.URL}, {Provider: "searxng", BaseURL: garbage.URL}, {Provider: "searxng", BaseURL: "http://127.0.0.1:1"}}
	if hits, name, err := make1(t, append(bad, Config{Provider: "searxng", BaseURL: good.URL})...).Search(t.Context(), Query{Text: "x", Count: 5}); err != nil || name != "searxng" || len(hits) != 1 {
		t.Error(hits, name, err)
	}
	_, _, err := make1(t, bad...).Search(t.Context(), Query{Text: "x", Count: 5})
	var failed *Failed
	if !errors.As(err, &failed) || len(failed.Reasons) != 4 || failed.Limited || strings.Contains(err.Error(), "secret-key") {
		t.Fatal(err)
	}
	for i, want := range []string{"brave: status 402: {\"error\":\"out of credits\"}", "tavily: it refuses the request (status 401); is its key valid?", "searxng: its answer can't be read", "searxng: dial tcp 127.0.0.1:1"} {
		if !strings.HasPrefix(failed.Reasons[i].Error(), want) {
			t.Errorf("%s\nnot %s", failed.Reasons[i], want)
		}
	}
}

// A provider that asks to wait is asked again, at its own time, and only so often.
func TestRetries(t *testing.T) {
	srv := serve(t, func(n int, w http.ResponseWriter) {
		w.Header().Set("Retry-After", "0")
		switch n {
		case 1:
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, `{"results":[]}`)
		}
	})
	if hits, _, err := make1(t, Config{Provider: "searxng", BaseURL: srv.URL, Retries: 2}).Search(t.Context(), Query{Text: "x", Count: 1}); err != nil || len(hits) != 0 || len(srv.starts) != 3 {
		t.Error(hits, err, len(srv.starts))
	}
	busy := serve(t, func(_ int, w http.ResponseWriter) {
		w.Header().Set("Retry-After", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	})
	_, _, err := make1(t, Config{Provider: "searxng", BaseURL: busy.URL, Retries: 2}).Search(t.Context(), Query{Text: "x", Count: 1})
	var failed *Failed
	if !errors.As(err, &failed) || !failed.Limited || !strings.Contains(err.Error(), "rate-limited (status 429) also after 2 retries") || len(busy.starts) != 3 {
		t.Error(err, len(busy.starts))
	}
}

// A provider that is asked too often does not keep the next one waiting, and is
// left alone for as long as it said.
func TestLimitedIsPassedBy(t *testing.T) {
	busy := serve(t, func(_ int, w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1800")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	good := serve(t, always(`{"results":[{"title":"T","url":"http://u.example/"}]}`))
	e := make1(t, Config{Provider: "brave", Key: "k", BaseURL: busy.URL, Retries: 5}, Config{Provider: "searxng", BaseURL: good.URL})
	// With a wait for the first one these would be there long after the deadline.
	ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if hits, name, err := e.Search(ctx, Query{Text: "x", Count: 1}); err != nil || name != "searxng" || len(hits) != 1 {
				t.Error(hits, name, err)
			}
		})
	}
	wg.Wait()
	if len(busy.starts) != 1 || len(good.starts) != 8 {
		t.Errorf("the busy one was asked %d times, the other %d", len(busy.starts), len(good.starts))
	}
	alone := make1(t, Config{Provider: "brave", Key: "k", BaseURL: busy.URL})
	for i, want := range []string{"brave: rate-limited (status 429) also after 0 retries", "brave: rate-limited; it wants to be left alone for another 30m0s"} {
		_, _, err := alone.Search(t.Context(), Query{Text: "x", Count: 1})
		var failed *Failed
		if !errors.As(err, &failed) || !failed.Limited || err.Error() != want {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// Starts keep their distance, however many callers there are.
func TestInterval(t *testing.T) {
	srv := serve(t, always(`{"results":[]}`))
	const apart = 40 * time.Millisecond
	e := make1(t, Config{Provider: "searxng", BaseURL: srv.URL, Interval: apart})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, _, err := e.Search(t.Context(), Query{Text: "x", Count: 1}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// The server sees a start a little later than it was; never by half of that.
	for i := 1; i < len(srv.starts); i++ {
		if d := srv.starts[i].Sub(srv.starts[i-1]); d < apart/2 {
			t.Errorf("request %d came %s after the one before", i, d)
		}
	}
}

// A caller that leaves ends its wait: for its turn, for the interval, for the
// provider's own time, and for the answer.
func TestCancel(t *testing.T) {
	asked := make(chan struct{}, 8)
	busy := serve(t, func(_ int, w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		asked <- struct{}{}
	})
	e := make1(t, Config{Provider: "searxng", BaseURL: busy.URL, Retries: 9})
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 2)
	for range 2 { // both wait to ask again
		go func() {
			_, _, err := e.Search(ctx, Query{Text: "x", Count: 1})
			waiting <- err
		}()
	}
	<-asked
	cancel()
	for range 2 {
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if n := len(busy.starts); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// A redirect is no answer: following it would carry the key elsewhere.
func TestRedirect(t *testing.T) {
	thief := serve(t, always(`{"results":[]}`))
	srv := serve(t, func(_ int, w http.ResponseWriter) {
		w.Header().Set("Location", thief.URL)
		w.WriteHeader(http.StatusFound)
	})
	_, _, err := make1(t, Config{Provider: "tavily", Key: "k", BaseURL: srv.URL}).Search(t.Context(), Query{Text: "x", Count: 1})
	if err == nil || !strings.Contains(err.Error(), "status 302") || thief.last != nil {
		t.Error(err)
	}
}

// What an engine sends is bounded, and a page for robots is called so.
func TestOddAnswers(t *testing.T) {
	flood := serve(t, func(_ int, w http.ResponseWriter) {
		chunk := strings.Repeat("x", 1<<20)
		for range 16 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	if _, _, err := make1(t, Config{Provider: "searxng", BaseURL: flood.URL}).Search(t.Context(), Query{Text: "x", Count: 1}); err == nil || !strings.Contains(err.Error(), "larger than 4194304 bytes") {
		t.Error(err)
	}
	robots := serve(t, always(`<form id="challenge-form"><div class="anomaly-modal__modal">Select all squares</div></form>`))
	if _, _, err := make1(t, Config{Provider: "duckduckgo", BaseURL: robots.URL}).Search(t.Context(), Query{Text: "x", Count: 1}); err == nil || !strings.Contains(err.Error(), "robot") {
		t.Error(err)
	}
}

func TestConfigFaults(t *testing.T) {
	for _, c := range []struct {
		config Config
		key    string
	}{
		{Config{Provider: "bing"}, ""}, {Config{Provider: "brave"}, "api_key"}, {Config{Provider: "google", Key: "k"}, "engine"}, {Config{Provider: "searxng"}, "base_url"},
		{Config{Provider: "searxng", BaseURL: "ftp://x"}, "base_url"}, {Config{Provider: "searxng", BaseURL: "http://u:p@x"}, "base_url"}, {Config{Provider: "searxng", BaseURL: "x"}, "base_url"},
	} {
		_, err := c.config.Base()
		var fault *Fault
		if !errors.As(err, &fault) || fault.Key != c.key || fault.Message == "" {
			t.Errorf("%+v: %v", c.config, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{"7": 7 * time.Second, " 0 ": 0, "Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": -5 * time.Second} {
		if d := RetryAfter(header, now); d == nil || *d != want {
			t.Errorf("%q: %v", header, d)
		}
	}
	for _, header := range []string{"", "soon", "-1", "1.5", "99999999999999999999"} {
		if d := RetryAfter(header, now); d != nil {
			t.Errorf("%q: %v", header, *d)
		}
	}
}
