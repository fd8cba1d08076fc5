package web

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/andybalholm/brotli"

	"github.com/bulkhead-dev/bulkhead/plugins/web/cache"
)

// A result made of a copy says how old it is; what is saved, and what is allowed,
// is always of now.
func TestCopies(t *testing.T) {
	var served, confirmed atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/fresh":
			w.Header().Set("Cache-Control", "max-age=300")
		case "/to":
			http.Redirect(w, r, "/tagged", http.StatusMovedPermanently)
			return
		default:
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") == `"1"` {
				confirmed.Add(1)
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		served.Add(1)
		w.Header().Set("Content-Encoding", "br")
		z := brotli.NewWriter(w)
		_, _ = fmt.Fprintf(z, "<p>edition %d</p>", served.Load()) // the client is us
		_ = z.Close()
	}))
	defer srv.Close()
	s := start(t, srv, "")
	if r := browse(s, srv.URL+"/fresh"); r.IsError || strings.Contains(r.Text, "cache") {
		t.Errorf("%s%s", r.Message, r.Text)
	}
	r := browse(s, srv.URL+"/fresh")
	if r.IsError || !strings.HasPrefix(r.Text, "Source: "+srv.URL+"/fresh (via http)\n[web_browse note] from the cache: fetched ") || !strings.Contains(r.Text, "; the server was not asked now, as its copies may stand for 5m0s\n\nedition 1") {
		t.Errorf("%s%s", r.Message, r.Text)
	}
	browse(s, srv.URL+"/tagged")
	r = browse(s, srv.URL+"/to")
	if r.IsError || !strings.Contains(r.Text, "/tagged (via http)\n[web_browse note] from the cache: fetched ") || !strings.Contains(r.Text, " ago and unchanged since, as the server says now\n\nedition 2") || confirmed.Load() != 1 {
		t.Errorf("%s%s", r.Message, r.Text)
	}
	s.Call("capture_reference", fmt.Sprintf(`{"url":%q}`, srv.URL+"/fresh"))
	if served.Load() != 3 {
		t.Errorf("what is saved was not fetched anew")
	}
	s.Call("http_request", fmt.Sprintf(`{"url":%q}`, srv.URL+"/fresh"))
	s.Call("http_health_check", fmt.Sprintf(`{"url":%q}`, srv.URL+"/fresh"))
	if served.Load() != 5 {
		t.Errorf("a copy answered for the server: %d", served.Load())
	}
	// What may no longer be opened is not read from a copy either.
	s.Configure(`{"proxy":"none"}`)
	browse(s, srv.URL+"/fresh").WantError("denied", "loopback")
	s.Configure(fmt.Sprintf(`{"allow_hosts":[%q],"cache_size":"0B"}`, srv.Listener.Addr()))
	if r := browse(s, srv.URL+"/fresh"); r.IsError || strings.Contains(r.Text, "cache") {
		t.Errorf("%s%s", r.Message, r.Text)
	}
	if left, err := filepath.Glob(filepath.Join(s.DataDir, "pages*")); err != nil || len(left) != 0 {
		t.Errorf("%v %v: copies are kept by a plugin that has no cache", err, left)
	}
}

func TestAgeNote(t *testing.T) {
	now := time.Now()
	for want, use := range map[string]cache.Use{
		"": {},
		"from the cache: fetched 1h0m0s ago and unchanged since, as the server says now":                                         {Fetched: now.Add(-time.Hour), Checked: now, Validated: true},
		"from the cache: fetched 2m0s ago; the server was not asked now, as its copies may stand for 5m0s":                       {Fetched: now.Add(-2 * time.Minute), Checked: now.Add(-2 * time.Minute), Fresh: 5 * time.Minute},
		"from the cache: fetched 3h0m0s ago, unchanged 2m0s ago; the server was not asked now, as its copies may stand for 5m0s": {Fetched: now.Add(-3 * time.Hour), Checked: now.Add(-2 * time.Minute), Fresh: 5 * time.Minute},
	} {
		if got := ageNote(use, now); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// A copy outlives the process that made it.
func TestCopiesOutlive(t *testing.T) {
	var served atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		w.Header().Set("Cache-Control", "max-age=300")
		_, _ = io.WriteString(w, "kept")
	}))
	defer srv.Close()
	dir := t.TempDir()
	for i := range 2 {
		b := newBrowser()
		b.data = func() string { return dir }
		conf := defaults()
		conf.AllowHosts = []string{srv.Listener.Addr().String()}
		if err := b.apply(&conf); err != nil {
			t.Fatal(err)
		}
		u, err := parseURL(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		p, err := b.fetch.Load().get(t.Context(), u)
		if err != nil || string(p.body) != "kept" || p.use.Fetched.IsZero() != (i == 0) {
			t.Errorf("%d: %v %+v", i, err, p)
		}
		b.fetch.Load().client.CloseIdleConnections()
	}
	if served.Load() != 1 {
		t.Errorf("served %d times", served.Load())
	}
}
