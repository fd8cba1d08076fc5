package web

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
)

const article = `<!doctype html><html><head><title>A day at sea</title><script>var tracking = 1</script><style>p{}</style></head><body>
<nav><a href="/home">Home</a></nav><div id="onetrust-banner-sdk">We use cookies</div><div class="sidebar">Popular now</div><p hidden>secret</p>
<main><article><h1>A day at sea</h1><p>The ship left the harbour at dawn, and the wind was fair; nobody on deck, however, believed that it would last until the evening.</p>
<p>By noon the sky had changed its colour twice, the sails were taken in, and the <a href="../log/7">log of the day</a> says that the pumps were manned.</p>
<table><tr><th>Hour</th><th>Wind</th></tr><tr><td>6</td><td>fair</td></tr></table><pre><code>x := 1</code></pre></article></main><footer>Imprint</footer></body></html>`

// site is a server with one page for each thing a test looks at.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	page := func(path, contentType string, body []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(body) // a client that left is no fault
		})
	}
	page("/sea/article.html", "text/html; charset=utf-8", []byte(article))
	page("/json", "application/json", []byte(`{"id":9007199254740993,"k":"ü"}`))
	page("/text", "text/plain", []byte("just text\n"))
	page("/png", "image/png", []byte("\x89PNG\r\n\x1a\n0000"))
	page("/liar", "text/html", []byte("\x89PNG\r\n\x1a\n0000"))
	page("/pdf", "application/pdf", []byte("%PDF-1.7"))
	page("/empty", "text/html", nil)
	page("/shell", "text/html", []byte(`<html><head><title>App</title></head><body><div id="root"></div><script src="/app.js"></script></body></html>`))
	page("/wall", "text/html", []byte(`<html><head><title>News</title></head><body><div id="onetrust-consent-sdk">`+strings.Repeat("We value your privacy and our partners. ", 20)+`</div></body></html>`))
	page("/short", "text/html", []byte(`<html><body><p>ok</p></body></html>`))
	page("/aspx", "text/html", []byte(`<html><body><form id="aspnetForm">`+strings.Repeat("<p>All of the page stands in a form here.</p>", 20)+`</form></body></html>`))
	page("/deep", "text/html", []byte(strings.Repeat("<div>", 2000)+"needle"+strings.Repeat("</div>", 2000)))
	russian, _ := charmap.Windows1251.NewEncoder().String("<html><body><p>Привет, мир</p></body></html>")
	page("/cp1251", "text/html; charset=windows-1251", []byte(russian))
	sjis, _ := japanese.ShiftJIS.NewEncoder().String(`<html><head><meta charset="shift_jis"></head><body><p>こんにちは世界</p></body></html>`)
	page("/sjis", "text/html", []byte(sjis))
	page("/undeclared", "text/html", []byte("<html><body>"+strings.Repeat("<p>plain words only</p>", 100)+"<p>größer</p></body></html>"))
	page("/bom", "text/plain", []byte("\xEF\xBB\xBFmarked"))
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, "<p>unpacked</p>")
		_ = z.Close()
	})
	mux.HandleFunc("/gzipbomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.Copy(z, io.LimitReader(blanks{}, 64<<20))
		_ = z.Close()
	})
	mux.HandleFunc("/br", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, "xx")
	})
	mux.HandleFunc("/zstd", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "zstd")
		_, _ = io.WriteString(w, "xx")
	})
	mux.HandleFunc("/brotli", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "br")
		z := brotli.NewWriter(w)
		_, _ = io.WriteString(z, "<p>unpacked, too</p>")
		_ = z.Close()
	})
	mux.HandleFunc("/brotlibomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "br")
		z := brotli.NewWriter(w)
		_, _ = io.Copy(z, io.LimitReader(blanks{}, 64<<20))
		_ = z.Close()
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/loop", http.StatusFound)
	})
	mux.HandleFunc("/hops/", func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/hops/%d", &n)
		if n == 0 {
			http.Redirect(w, r, "/text", http.StatusFound)
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/hops/%d", n-1), http.StatusFound)
	})
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("u"), http.StatusFound)
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte("more "), 1000)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a beginning")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/teapot", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "come back later")
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x"), len(p))), nil }

// start serves the plugin with a config that allows the site.
func start(t *testing.T, srv *httptest.Server, more string) *sdktest.Session {
	t.Helper()
	return sdktest.Start(t, Plugin(), sdktest.Config(fmt.Sprintf(`{"allow_hosts":[%q]%s}`, srv.Listener.Addr(), more)))
}

func browse(s *sdktest.Session, address string) *sdktest.Reply {
	return s.Call("web_browse", fmt.Sprintf(`{"url":%q}`, address))
}

func TestConformance(t *testing.T) {
	sdktest.Run(t, Plugin)
}

func TestArticle(t *testing.T) {
	srv := site(t)
	r := browse(start(t, srv, ""), srv.URL+"/sea/article.html")
	want := "Source: " + srv.URL + "/sea/article.html (via http)\n\n# A day at sea\n\nThe ship left the harbour at dawn"
	if r.IsError || !strings.HasPrefix(r.Text, want) {
		t.Errorf("%+v", r)
	}
	for _, part := range []string{"[log of the day](" + srv.URL + "/log/7)", "| Hour | Wind |", "x := 1"} {
		if !strings.Contains(r.Text, part) {
			t.Errorf("%q is missing in\n%s", part, r.Text)
		}
	}
	for _, noise := range []string{"tracking", "Home", "cookies", "Popular", "secret", "Imprint"} {
		if strings.Contains(r.Text, noise) {
			t.Errorf("noise %q came through:\n%s", noise, r.Text)
		}
	}
	if c := r.Chunk; c == nil || c.Threshold != 8000 || c.ChunkMax != 4000 || c.TTL != 30*time.Minute || c.Category != "web" ||
		!regexp.MustCompile(`^web-http___127\.0\.0\.1_\d+_sea_article\.html$`).MatchString(c.KeyBase) {
		t.Errorf("%+v", c)
	}
}

func TestTypesAndCharsets(t *testing.T) {
	srv := site(t)
	s := start(t, srv, "")
	for path, want := range map[string]string{
		"/json": `{"id":9007199254740993,"k":"ü"}`, "/text": "just text", "/cp1251": "Привет, мир", "/sjis": "こんにちは世界",
		"/undeclared": "größer", "/bom": "\nmarked", "/gzip": "unpacked", "/brotli": "unpacked, too", "/short": "ok", "/deep": "needle",
		"/aspx": "All of the page stands in a form here.", "/hops/9": "/text (via http)",
		"/empty": "[web_browse status: empty]", "/shell": "[web_browse status: js_required]",
		"/wall": "[web_browse status: blocked_by_consent_wall]",
	} {
		if r := browse(s, srv.URL+path); r.IsError || !strings.Contains(r.Text, want) {
			t.Errorf("%s: %q is missing in %s%s", path, want, r.Message, r.Text)
		}
	}
	if r := browse(s, srv.URL+"/short"); strings.Contains(r.Text, "status") {
		t.Errorf("a short page is not a shell: %s", r.Text)
	}
	for path, want := range map[string]string{
		"/png": "image/png (12 bytes), which is no text", "/liar": "image/png", "/pdf": "is a PDF that can't be read", "/br": "EOF", "/zstd": `encoding "zstd"`,
		"/nowhere": "answered 404 Not Found; it says: 404 page not found", "/teapot": "answered 503 Service Unavailable; it says: come back later",
		"/loop": "redirects more than 10 times", "/hops/10": "redirects more than 10 times",
	} {
		browse(s, srv.URL+path).WantError("execution_failed", want)
	}
}

func TestUndeclaredCharset(t *testing.T) {
	text := strings.Repeat("これは日本語の文章です。文字コードは宣言されていません。", 20)
	for name, enc := range map[string]encoding.Encoding{"shift_jis": japanese.ShiftJIS, "euc-jp": japanese.EUCJP} {
		raw, err := enc.NewEncoder().String("<p>" + text + "</p>")
		if err != nil {
			t.Fatal(err)
		}
		if got := toUTF8("text/html", []byte(raw), true); !strings.Contains(got, text) {
			t.Errorf("%s: %.60q", name, got)
		}
	}
}

func TestLimits(t *testing.T) {
	srv := site(t)
	s := start(t, srv, `,"max_page_size":"64KiB","fetch_timeout":"1s"`)
	for _, path := range []string{"/endless", "/gzipbomb", "/brotlibomb"} {
		r := browse(s, srv.URL+path)
		if r.IsError || !strings.Contains(r.Text, "[web_browse status: cut] The page is larger than 64KiB") || len(r.Text) > 80<<10 {
			t.Errorf("%s: %d bytes, %s %.200s", path, len(r.Text), r.Message, r.Text)
		}
	}
	r := browse(s, srv.URL+"/slow")
	r.WantError("timeout", "within 1s (fetch_timeout)")
	if !r.Retryable {
		t.Error("a slow page may be tried again")
	}
}

// What a server asks to wait is told, within reason, and only of refusals that
// may pass.
func TestRetryAfter(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.Header().Set("Retry-After", r.URL.Query().Get("after"))
		w.WriteHeader(status)
	}))
	defer srv.Close()
	s := start(t, srv, "")
	for _, c := range []struct {
		status int
		after  string
		wait   time.Duration
		again  bool
	}{
		{429, "7", 7 * time.Second, true}, {503, "120", 2 * time.Minute, true}, {429, "999999999", time.Hour, true}, {503, "soon", 0, true}, {429, "", 0, true},
		{500, "-5", 0, true}, {429, "Mon, 05 Jan 1998 06:00:00 GMT", 0, true}, {404, "7", 0, false}, {403, "7", 0, false},
	} {
		r := browse(s, fmt.Sprintf("%s/%d?after=%s", srv.URL, c.status, url.QueryEscape(c.after)))
		r.WantError("execution_failed", fmt.Sprintf("answered %d", c.status))
		if r.Retryable != c.again || r.RetryAfter != c.wait || strings.Contains(r.Message, "asks to wait") != (c.wait > 0) {
			t.Errorf("%+v: %v %s %s", c, r.Retryable, r.RetryAfter, r.Message)
		}
	}
}

// A charset that is not the body's, is none, or breaks off costs characters, never
// the page.
func TestWrongCharsets(t *testing.T) {
	page := "<html><head><meta charset=%q></head><body><p>The captain's name is M\xfcller.</p><p>No more.</p></body></html>"
	for declared, body := range map[string]string{
		"text/html; charset=utf-8":          fmt.Sprintf(page, "utf-8"),
		"text/html; charset=no-such-one":    fmt.Sprintf(page, "neither"),
		"text/html; charset=":               fmt.Sprintf(page, ""),
		"text/html; charset=utf-16":         fmt.Sprintf(page, "utf-16"),
		"text/html; charset=iso-2022-jp":    fmt.Sprintf(page, "iso-2022-jp"),
		"text/html; charset=\"utf-8":        fmt.Sprintf(page, "big5"),
		"text/html; charset=utf-7":          fmt.Sprintf(page, "utf-7"),
		"text/html;;; charset":              fmt.Sprintf(page, "gb18030") + "\x81",
		"text/html; charset=shift_jis":      fmt.Sprintf(page, "euc-kr") + "\x81",
		"text/html; charset=x-user-defined": fmt.Sprintf(page, "replacement"),
	} {
		srv := serveFiles(t, map[string][2]string{"/": {declared, body}})
		r := browse(start(t, srv, ""), srv.URL+"/")
		if r.IsError || !utf8.ValidString(r.Text) {
			t.Errorf("%s: %s %q", declared, r.Message, r.Text)
		}
		if !strings.Contains(declared, "utf-16") && !strings.Contains(r.Text, "The captain's name is M") {
			t.Errorf("%s: %s", declared, r.Text)
		}
	}
}

// A body that comes a byte at a time ends with the time for the page, not with the
// patience of its server; a server that never answers, and one that sends headers
// without end, end as well.
func TestSlowBodies(t *testing.T) {
	drip := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte("x")); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/drip":
			w.Header().Set("Content-Type", "text/html")
			drip(w, r)
		case "/mute":
			<-r.Context().Done()
		case "/headers":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			for i := 0; err == nil; i++ {
				_, err = fmt.Fprintf(conn, "X-%d: %s\r\n", i, strings.Repeat("y", 1000))
			}
		}
	}))
	defer srv.Close()
	s := start(t, srv, `,"fetch_timeout":"1s"`)
	browse(s, srv.URL+"/drip").WantError("timeout", "within 1s (fetch_timeout)")
	browse(s, srv.URL+"/mute").WantError("timeout", "within 1s (fetch_timeout)")
	browse(s, srv.URL+"/headers").WantError("execution_failed", "header")
}

// A redirect from https to http is followed only as a new request: it passes the
// guard again, and the other way round, too.
func TestRedirectsAcrossSchemes(t *testing.T) {
	plain := site(t)
	crossing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("u"), http.StatusMovedPermanently)
	}))
	defer crossing.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	s := start(t, crossing, "")
	for _, to := range []string{plain.URL + "/text", secure.URL + "/", "https://[::1]:1/", "http://0x7f.1/"} {
		r := browse(s, crossing.URL+"/?u="+url.QueryEscape(to))
		if !r.IsError || strings.Contains(r.Text, "just text") {
			t.Errorf("%s was opened: %s", to, r.Text)
		}
	}
	for _, to := range []string{"data:text/html,x", "javascript:1", "ftp://127.0.0.1/", "//user:pw@127.0.0.1/", "http://"} {
		if r := browse(s, crossing.URL+"/?u="+url.QueryEscape(to)); !r.IsError {
			t.Errorf("%s was opened: %s", to, r.Text)
		}
	}
}

func TestRenderingIsSaidToBeUnavailable(t *testing.T) {
	srv := site(t)
	s := start(t, srv, "")
	r := s.Call("web_browse", fmt.Sprintf(`{"url":%q,"render":true}`, srv.URL+"/text"))
	if r.IsError || !strings.Contains(r.Text, "(via http)\n[web_browse status: unavailable] Headless rendering is not available") || !strings.Contains(r.Text, "just text") {
		t.Errorf("%+v", r)
	}
}

func TestGuardAtTheSocket(t *testing.T) {
	srv := site(t)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	closed := sdktest.Start(t, Plugin(), sdktest.Config(`{"proxy":"none"}`))
	for _, host := range []string{
		"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]",
		"10.0.0.1", "169.254.169.254", "100.64.1.1", "[fd00:ec2::254]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "224.0.0.1",
	} {
		browse(closed, "http://"+host+":"+port+"/text").WantError("denied", "allow_hosts")
	}
	// Spellings a resolver may read as 127.0.0.1: refused, or no host at all.
	for _, host := range []string{"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "127.0.0.1.", "localhost.", "①②⑦.⓪.⓪.①"} {
		r := browse(closed, "http://"+host+":"+port+"/text")
		if !r.IsError || strings.Contains(r.Text, "just text") {
			t.Errorf("%s was opened: %s", host, r.Text)
		}
	}
	for address, want := range map[string]string{
		"file:///etc/passwd": "only http", "ftp://example.com/": "only http", "gopher://x": "only http", "/etc/passwd": "only http",
		"http://user:pw@example.com/": "user name", "http://:80/": "names no host", "http://[": "not a web address",
	} {
		r := browse(closed, address)
		r.WantError("invalid_arguments", want)
		if strings.Contains(r.Message, "pw@") {
			t.Errorf("a password is told: %s", r.Message)
		}
	}
}

func TestRedirectsAreCheckedToo(t *testing.T) {
	srv, inner := site(t), site(t)
	s := start(t, srv, "")
	for to, want := range map[string]string{
		inner.URL + "/text":                   "denied",
		"http://169.254.169.254/latest/":      "denied",
		"file:///etc/passwd":                  "invalid_arguments",
		"http://root:pw@" + srv.URL[7:] + "/": "invalid_arguments",
	} {
		r := browse(s, srv.URL+"/to?u="+url.QueryEscape(to))
		if r.Code != want {
			t.Errorf("%s: %s %s", to, r.Code, r.Message)
		}
	}
	browse(s, srv.URL+"/to?u=/text").WantText("just text")
}

func TestAllowByNameBlockAndPort(t *testing.T) {
	srv := site(t)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	for entry, open := range map[string]bool{
		"127.0.0.0/8": true, "127.0.0.1": true, "127.0.0.1:" + port: true, "127.0.0.1:1": false, "10.0.0.0/8": false, "localhost": false,
	} {
		s := sdktest.Start(t, Plugin(), sdktest.Config(fmt.Sprintf(`{"allow_hosts":[%q]}`, entry)))
		if r := browse(s, srv.URL+"/text"); r.IsError == open {
			t.Errorf("%s: %s%s", entry, r.Message, r.Text)
		}
	}
	s := sdktest.Start(t, Plugin(), sdktest.Config(`{"allow_hosts":["localhost"]}`))
	browse(s, "http://localhost:"+port+"/text").WantText("just text")
	s.Configure(`{}`) // taken by the running plugin
	browse(s, "http://localhost:"+port+"/text").WantError("denied", "allow_hosts")
}

func TestProxy(t *testing.T) {
	var seen []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.String())
		_, _ = io.WriteString(w, "by proxy")
	}))
	defer proxy.Close()
	s := sdktest.Start(t, Plugin(), sdktest.Config(fmt.Sprintf(`{"proxy":%q}`, proxy.URL)))
	browse(s, "http://93.184.216.34/page").WantText("by proxy")
	browse(s, "http://10.0.0.1/secret").WantError("denied", "private")
	browse(s, "http://169.254.169.254/latest").WantError("denied", "metadata")
	if len(seen) != 1 || seen[0] != "http://93.184.216.34/page" {
		t.Errorf("%v", seen)
	}
}

func TestConfig(t *testing.T) {
	s := sdktest.Start(t, Plugin())
	good := `{"allow_hosts":["intranet.example"],"max_search_results":5,"chunking_threshold":8000,"chunk_max_length":4000,
		"chunk_ttl":"30m","render_timeout":"30s","search":[{"provider":"brave","api_key":"k"}]}`
	if got := s.Validate(good); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for raw, want := range map[string]string{
		`{"allow_hosts":["ok","http://no"]}`:                      "allow_hosts[1]: ",
		`{"max_search_results":21}`:                               "max_search_results: ",
		`{"chunk_ttl":"0s"}`:                                      "chunk_ttl: ",
		`{"max_page_size":"1GiB"}`:                                "max_page_size: ",
		`{"proxy":"ftp://x"}`:                                     "proxy: ",
		`{"search":[{"provider":"brave"}]}`:                       "search[0].api_key: ",
		`{"search":[{"provider":"searxng"}]}`:                     "search[0].base_url: ",
		`{"search":[{"provider":"x","api_key":"k"}]}`:             "search[0]: ",
		`{"safe_search":"maybe"}`:                                 "safe_search: ",
		`{"search":[{"provider":"duckduckgo","max_retries":99}]}`: "search[0].max_retries: ",
	} {
		if got := s.Validate(raw); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: %q", raw, got)
		}
	}
}

func TestChunkHintFollowsTheConfig(t *testing.T) {
	srv := site(t)
	r := browse(start(t, srv, `,"chunking_threshold":1000,"chunk_max_length":500,"chunk_ttl":"1h"`), srv.URL+"/text")
	want := sdk.ChunkHint{Threshold: 1000, ChunkMax: 500, TTL: time.Hour, Category: "web"}
	if r.Chunk == nil {
		t.Fatal("no hint")
	}
	want.KeyBase = r.Chunk.KeyBase
	if *r.Chunk != want {
		t.Errorf("%+v", r.Chunk)
	}
}
