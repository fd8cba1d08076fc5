//go:build linux

package browser

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// What a page says of itself is bounded, however long it makes it.
func TestLongWords(t *testing.T) {
	fill := func(script string) string {
		return `<title>t</title><p>the text</p><script>` + script + `</script>`
	}
	srv := site(t, map[string]string{
		"/title": fill(`document.title = "x".repeat(5e6)`), "/url": fill(`history.replaceState(0, "", "/u?" + "x".repeat(1.5e6))`),
		"/hash":  fill(`history.replaceState(0, "", "/url#" + "x".repeat(1.5e6))`),
		"/path":  fill(`history.replaceState(0, "", "/" + "x".repeat(1.5e6))`),
		"/all":   fill(`document.title = "\u0001".repeat(5e6); document.body.append("\u0001".repeat(5e6)); history.replaceState(0, "", "/" + "x".repeat(1.5e6))`),
		"/hosts": fill(`for (let i = 0; i < 60; i++) fetch("http://" + i + ".x".repeat(100) + ".invalid/").catch(() => {})`),
	})
	s, _ := start(t, "", srv)
	for path, want := range map[string]string{"/title": "/title", "/url": "/u", "/hash": "/url", "/path": "/path", "/all": "/all", "/hosts": "/hosts"} {
		out := render(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL+path))
		if len(out.Title) > 1000 || out.FinalURL != srv.URL+want || out.Cut != (path == "/all" || path == "/title") || (!out.Cut && !strings.Contains(out.HTML, "the text")) {
			t.Errorf("%s: title of %d bytes, %.200s, cut %v, HTML of %d", path, len(out.Title), out.FinalURL, out.Cut, len(out.HTML))
		}
		for _, line := range out.Blocked {
			if len(line) > 1000 {
				t.Errorf("%s: a line of %d bytes about what was blocked", path, len(line))
			}
		}
		r := s.Call("web_screenshot", fmt.Sprintf(`{"url":%q}`, srv.URL+path), sdktest.Within(time.Minute))
		if r.IsError || len(r.Text) > 4000 || len(r.Files) != 1 {
			t.Errorf("%s: %s, a text of %d bytes", path, r.Message, len(r.Text))
		}
	}
	s.Call("browser_render", fmt.Sprintf(`{"url":"http://example.com/%s"}`, strings.Repeat("x", 9000))).WantError("invalid_arguments", "9019 bytes")
}

// A page whose scripts put their own functions in place of the browser's is read
// all the same, and does not decide how much memory the plugin takes.
func TestOverridden(t *testing.T) {
	const huge = `const huge = "x".repeat(2.5e8);`
	srv := site(t, map[string]string{
		"/join":    `<title>t</title><p>the text</p><script>` + huge + `Array.prototype.join = () => huge</script>`,
		"/getters": `<title>t</title><p>the text</p><script>` + huge + `for (const [o, n] of [[Element.prototype, "outerHTML"], [HTMLElement.prototype, "innerText"], [Document.prototype, "title"], [Document.prototype, "URL"], [String.prototype, "trim"]]) Object.defineProperty(o, n, {get: () => huge}); String.prototype.slice = () => huge</script>`,
		"/console": `<title>t</title><p>the text</p><script>` + huge + `console.log(huge); setTimeout(() => { throw huge })</script>`,
		"/consent": `<title>t</title><p>the text</p><div id="cookie-banner"><button>Reject all</button></div><script>` + huge + `String.prototype.toLowerCase = String.prototype.trim = String.prototype.replace = () => huge</script>`,
		"/names":   `<title>t</title><p>the text</p><img name="documentElement"><img name="body"><img name="querySelector"><form name="title"></form><form name="readyState"></form>`,
		"/fetch":   `<title>t</title><p>the text</p><script>fetch("data:," + "x".repeat(6e7)).catch(() => {}); fetch("/", {method: "POST", body: "x".repeat(4e7)}).catch(() => {})</script>`,
	})
	s, _ := start(t, "", srv)
	var most atomic.Uint64
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	for _, path := range []string{"/join", "/getters", "/console", "/consent", "/names", "/fetch"} {
		out := render(t, s, fmt.Sprintf(`{"url":%q,"wait":"p"}`, srv.URL+path))
		if out.Title != "t" || out.FinalURL != srv.URL+path || !strings.Contains(out.HTML, "<p>the text</p>") || out.Status != 200 {
			t.Errorf("%s: %.200q %.200s %d %.300s", path, out.Title, out.FinalURL, out.Status, out.HTML)
		}
	}
	close(stop)
	<-watched
	t.Logf("at most %d MiB of heap", most.Load()>>20)
	if most.Load() > 256<<20 {
		t.Errorf("the plugin held %d MiB", most.Load()>>20)
	}
}

// A page that goes on to another address is told as that one, and one that can't be
// had, or may not be, is no page.
func TestGoesOn(t *testing.T) {
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the private server was reached") }))
	defer private.Close()
	var srv *httptest.Server
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		to := map[string]string{"/later": "/second", "/private": private.URL + "/", "/https": strings.Replace(private.URL, "http:", "https:", 1) + "/", "/broken": srv.URL + "/cut", "/name": "http://nowhere.invalid/"}[r.URL.Path]
		switch r.URL.Path {
		case "/second":
			w.Header().Set("X-Bulkhead-Refused", "so says the server")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<title>second</title><p>not here</p>")
		case "/cut":
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				c.Close()
			}
		default:
			fmt.Fprintf(w, `<title>first</title><p>first</p><script>setTimeout(() => location = %q, 50)</script>`, to)
		}
	}))
	defer srv.Close()
	s, _ := start(t, "", srv)
	r := s.Call("browser_render", fmt.Sprintf(`{"url":%q}`, srv.URL+"/later"), sdktest.Within(time.Minute))
	var out rendered
	if err := json.Unmarshal(r.Structured, &out); err != nil || out.Status != 404 || out.Title != "second" || out.FinalURL != srv.URL+"/second" {
		t.Errorf("%v %+v", err, out)
	}
	for path, want := range map[string]string{
		"/private": "the browser could not open " + private.URL + "/: 127.0.0.1 is a loopback address", "/https": "the browser could not open https://127.0.0.1",
		"/broken": "the browser could not open " + srv.URL + "/cut", "/name": "the browser could not open http://nowhere.invalid/",
	} {
		s.Call("browser_render", fmt.Sprintf(`{"url":%q}`, srv.URL+path), sdktest.Within(time.Minute)).WantError("execution_failed", want)
		s.Call("web_screenshot", fmt.Sprintf(`{"url":%q}`, srv.URL+path), sdktest.Within(time.Minute)).WantError("execution_failed", want)
	}
	s.Call("browser_render", fmt.Sprintf(`{"url":%q}`, private.URL), sdktest.Within(time.Minute)).WantError("execution_failed", "the browser could not open "+private.URL+"/: 127.0.0.1 is a loopback address")
}
