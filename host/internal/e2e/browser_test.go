//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// A page that scripts build is read through two plugins and a real browser, all
// behind their walls; agents can't reach the browser's internal tool.
func TestBrowser(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed")
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<title>App</title><div id="root"></div><script>setTimeout(() => { document.getElementById("root").innerHTML = "<h1>Tides</h1><p>`+strings.Repeat("High water at noon. ", 20)+`</p>" }, 100)</script>`)
	}))
	defer page.Close()
	allow := fmt.Sprintf("config {\n    allow_hosts = [%q]\n  }\n", page.Listener.Addr())
	w := newWorld(t, "plugin \"web\" {\n  grants = [\"shared\", \"tool:browser_render\"]\n  "+allow+"}\nplugin \"browser\" {\n  grants = [\"shared\"]\n  "+allow+"}\n", "web", "browser")
	w.serve()
	if got := w.ok("call", "web_browse", fmt.Sprintf(`{"url":%q}`, page.URL)); !strings.Contains(got, "(via headless browser)") || !strings.Contains(got, "High water at noon.") {
		t.Error(got)
	}
	if got := w.ok("call", "web_screenshot", fmt.Sprintf(`{"url":%q}`, page.URL)); !strings.Contains(got, "/shared/screenshots/page-") {
		t.Error(got)
	}
	if got := w.ok("tools"); !regexp.MustCompile(`(?m)^browser_render .* internal `).MatchString(got) || !strings.Contains(got, "web_screenshot") {
		t.Error(got)
	}
	if out, _, code := w.run("call", "browser_render", fmt.Sprintf(`{"url":%q}`, page.URL)); code == 0 {
		t.Error(out)
	}
}

// attack has every way of a page to a private server that is known to be one: the
// browser as it is takes all of them.
const attack = `<!doctype html><title>attack</title><link rel="icon" href="PRIVATE/favicon"><link rel="prefetch" href="PRIVATE/prefetch"><link rel="preconnect" href="PRIVATE">
<iframe src="PRIVATE/iframe"></iframe><iframe src="http://localhost:PORT/name"></iframe><iframe src="http://[::1]:PORT/v6"></iframe><iframe src="file:///etc/hostname"></iframe>
<img src="http://127.1:PORT/short"><img src="http://0x7f000001:PORT/hex"><img src="/redirect"><script>
const u = "PRIVATE"; fetch(u + "/fetch").then(r => r.text()).then(t => document.body.append(t)).catch(() => {}); fetch("/redirect").catch(() => {});
try { new WebSocket("ws://127.0.0.1:PORT/ws") } catch (e) {} navigator.sendBeacon(u + "/beacon", "x"); window.open(u + "/popup");
new Worker(URL.createObjectURL(new Blob(["fetch('" + u + "/worker')"], {type: "text/javascript"})));
navigator.serviceWorker && navigator.serviceWorker.register("/sw.js").catch(() => {});
fetch("http://rebind.example:PORT/rebind").catch(() => {});
try { const pc = new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:PORT"}]}); pc.createDataChannel("x"); pc.onicecandidate = e => e.candidate && document.body.append("ice " + e.candidate.candidate); pc.createOffer().then(o => pc.setLocalDescription(o)) } catch (e) {}
const said = document.body.appendChild(document.createElement("p")); let n = 0; // the page is restless until all had its time
const tick = setInterval(() => { said.textContent = "Trying. ".repeat(++n); if (n == 8) { clearInterval(tick); said.textContent = "All was tried. ".repeat(30) } }, 200);
</script>`

// By web_browse nothing private is reached either, whether it is rendered at once or
// after a shell, however its address is written, and wherever it leads.
func TestBrowseReachesNothingPrivate(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed")
	}
	var mu sync.Mutex
	var hits []string
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hits = append(hits, r.Method+" "+r.URL.String())
		mu.Unlock()
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = io.WriteString(w, "the secret")
	}))
	defer private.Close()
	_, port, _ := strings.Cut(private.Listener.Addr().String(), ":")
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, private.URL+"/redirected", http.StatusFound)
		case "/sw.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = fmt.Fprintf(w, "self.addEventListener('install', e => e.waitUntil(fetch('%s/serviceworker')))", private.URL)
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, strings.NewReplacer("PRIVATE", private.URL, "PORT", port).Replace(attack))
		}
	}))
	defer page.Close()
	allow := fmt.Sprintf("config {\n    allow_hosts = [%q]\n  }\n", page.Listener.Addr())
	w := newWorld(t, "plugin \"web\" {\n  grants = [\"shared\", \"tool:browser_render\"]\n  "+allow+"}\nplugin \"browser\" {\n  grants = [\"shared\"]\n  "+allow+"}\n", "web", "browser")
	w.serve()
	for _, render := range []bool{false, true} {
		got := w.ok("call", "web_browse", fmt.Sprintf(`{"url":%q,"render":%v}`, page.URL, render))
		if !strings.Contains(got, "(via headless browser)") || !strings.Contains(got, "All was tried.") || strings.Contains(got, "secret") || strings.Contains(got, "ice ") {
			t.Errorf("render %v: %s", render, got)
		}
		for _, address := range []string{private.URL, "http://localhost:" + port, "http://127.1:" + port, "http://0x7f000001:" + port, "http://[::ffff:127.0.0.1]:" + port, page.URL + "/redirect", "file:///etc/hostname"} {
			if out, _, code := w.run("call", "web_browse", fmt.Sprintf(`{"url":%q,"render":%v}`, address, render)); code == 0 || strings.Contains(out, "secret") {
				t.Errorf("%s, render %v: %s", address, render, out)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(hits) != 0 {
		t.Errorf("the private server was reached: %q", hits)
	}
}
