//go:build linux

package browser

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/browser/chrome"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestMain(m *testing.M) {
	chrome.Init()
	child.Init()
	os.Exit(m.Run())
}

// needsBrowser skips where there is none, or no walls to put it behind.
func needsBrowser(t *testing.T) {
	t.Helper()
	if _, err := chrome.Find(""); err != nil {
		t.Skip(err)
	}
	if s := child.Probe(t.Context()); !s.Namespaces {
		t.Skip("no namespaces: " + s.Reason)
	}
}

// site serves pages by path.
func site(t *testing.T, pages map[string]string) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if strings.HasSuffix(r.URL.Path, ".js") {
			w.Header().Set("Content-Type", "text/javascript")
		} else {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		_, _ = io.WriteString(w, page) // the browser may leave
	}))
	t.Cleanup(srv.Close)
	return srv
}

// start runs the plugin; servers are what pages may reach.
func start(t *testing.T, more string, servers ...*httptest.Server) (*sdktest.Session, *tools) {
	t.Helper()
	needsBrowser(t)
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, fmt.Sprintf("%q", s.Listener.Addr()))
	}
	s := sdktest.Start(t, Plugin(), sdktest.Granted("shared"), sdktest.Config(fmt.Sprintf(`{"allow_hosts":[%s]%s}`, strings.Join(hosts, ","), more)))
	return s, nil
}

func render(t *testing.T, s *sdktest.Session, args string) rendered {
	t.Helper()
	r := s.Call("browser_render", args, sdktest.Within(2*time.Minute))
	var out rendered
	if r.IsError || json.Unmarshal(r.Structured, &out) != nil {
		t.Fatalf("%s: %s%s", args, r.Message, r.Text)
	}
	return out
}

const app = `<!doctype html><title>loading</title><div id="root"></div><script src="/app.js"></script>`

const appJS = `fetch("/data.html").then(r => r.text()).then(t => setTimeout(() => {
	document.title = "The app"; const p = document.createElement("p"); p.id = "done"; p.textContent = "data: " + t; document.getElementById("root").append(p);
}, 200));`

func TestSinglePageApp(t *testing.T) {
	srv := site(t, map[string]string{"/": app, "/app.js": appJS, "/data.html": "forty-two"})
	s, _ := start(t, "", srv)
	for _, wait := range []string{"", "idle", "#done"} {
		out := render(t, s, fmt.Sprintf(`{"url":%q,"wait":%q,"screenshot":true}`, srv.URL, wait))
		if out.Status != 200 || out.Title != "The app" || out.FinalURL != srv.URL+"/" || !strings.Contains(out.HTML, "<p id=\"done\">data: forty-two</p>") || len(out.Blocked) != 0 || out.Unsettled {
			t.Errorf("wait %q: %+v", wait, out)
		}
		raw, err := os.ReadFile(filepath.Join(s.SharedDir, strings.TrimPrefix(out.Shot, "/shared/")))
		if err != nil {
			t.Fatal(err)
		}
		if img, err := png.Decode(bytes.NewReader(raw)); err != nil || img.Bounds().Dx() != 1280 {
			t.Error(err)
		}
	}
	if out := render(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL+"/nowhere")); out.Status != 404 {
		t.Errorf("%+v", out)
	}
	s.Call("browser_render", fmt.Sprintf(`{"url":%q,"wait":"###"}`, srv.URL)).WantError("invalid_arguments", "no CSS selector")
	s.Call("browser_render", `{"url":"file:///etc/passwd"}`).WantError("invalid_arguments", "only http:// and https://")
	s.Call("browser_render", `{"url":"http://u:p@example.com"}`).WantError("invalid_arguments", "user name")
}

func TestScreenshot(t *testing.T) {
	srv := site(t, map[string]string{"/": `<title>Tall</title><body style="margin:0"><div style="height:5000px;background:#0a0">tall</div>`})
	s, _ := start(t, "", srv)
	for full, height := range map[bool]int{false: 0, true: 5000} {
		r := s.Call("web_screenshot", fmt.Sprintf(`{"url":%q,"full_page":%v}`, srv.URL, full), sdktest.Within(time.Minute))
		if r.IsError || len(r.Files) != 1 || r.Files[0].MIME != "image/png" || !strings.HasPrefix(r.Files[0].Path, "/shared/screenshots/page-") || !strings.Contains(r.Text, `("Tall", status 200)`) {
			t.Fatalf("%s%s %+v", r.Message, r.Text, r.Files)
		}
		f, err := os.Open(filepath.Join(s.SharedDir, strings.TrimPrefix(r.Files[0].Path, "/shared/")))
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(f)
		f.Close()
		if err != nil || (full && img.Bounds().Dy() != height) || (!full && img.Bounds().Dy() >= 1000) {
			t.Errorf("full %v: %v %v", full, err, img.Bounds())
		}
	}
}

// A banner is refused where it can be, and accepted only where it can't; what is
// no banner is left alone.
func TestConsent(t *testing.T) {
	banner := func(buttons string) string {
		return `<title>t</title><p id="state">nothing</p><button onclick="document.getElementById('state').textContent='deleted'">Delete all</button>
<div id="cookie-banner"><p>We use cookies</p>` + buttons + `</div><script>for (const b of document.querySelectorAll('#cookie-banner button')) b.onclick = () => {
document.getElementById('state').textContent = 'clicked ' + b.textContent; document.getElementById('cookie-banner').remove(); }</script>`
	}
	srv := site(t, map[string]string{
		"/both": banner(`<button>Accept all</button><button>Reject all</button>`), "/de": banner(`<button>Alle akzeptieren</button><button>Nur notwendige Cookies</button>`),
		"/only": banner(`<button>Settings</button><button>Got it!</button>`), "/none": `<title>t</title><p id="state">nothing</p><button onclick="document.getElementById('state').textContent='clicked'">Accept</button>`,
		"/shadow": `<title>t</title><p id="state">nothing</p><div id="usercentrics-root"></div><script>const r = document.getElementById('usercentrics-root').attachShadow({mode:'open'});
r.innerHTML = '<button>Accept</button><button>Deny</button>'; for (const b of r.querySelectorAll('button')) b.onclick = () => document.getElementById('state').textContent = 'clicked ' + b.textContent;</script>`,
	})
	s, _ := start(t, "", srv)
	for path, want := range map[string]string{"/both": "clicked Reject all", "/de": "clicked Nur notwendige Cookies", "/only": "clicked Got it!", "/none": "nothing", "/shadow": "clicked Deny"} {
		out := render(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL+path))
		if !strings.Contains(out.HTML, `<p id="state">`+want+`</p>`) || (out.Consent == "") != (want == "nothing") {
			t.Errorf("%s: %q %s", path, out.Consent, out.HTML)
		}
	}
}

// Nothing on a page reaches a private server: none of the ways a page has.
func TestNoWayIn(t *testing.T) {
	var mu sync.Mutex
	var hits []string
	private := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hits = append(hits, r.Method+" "+r.Host+r.URL.String())
		mu.Unlock()
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = io.WriteString(w, "<p>secret</p>")
	}))
	both, err := net.Listen("tcp", ":0") // every loopback address of the machine
	if err != nil {
		t.Fatal(err)
	}
	private.Listener.Close()
	private.Listener = loopbackOnly{both}
	private.Start()
	defer private.Close()
	_, port, _ := net.SplitHostPort(both.Addr().String())
	vectors := `<!doctype html><title>attack</title><link rel="icon" href="http://127.0.0.1:PORT/favicon"><link rel="prefetch" href="http://127.0.0.1:PORT/prefetch"><link rel="preconnect" href="http://127.0.0.1:PORT">
<iframe src="http://127.0.0.1:PORT/iframe"></iframe><iframe src="http://localhost:PORT/iframe-name"></iframe><iframe src="http://[::1]:PORT/iframe-v6"></iframe><iframe src="file:///etc/hostname" id="file"></iframe>
<img src="http://127.1:PORT/img-short"><img src="http://0x7f000001:PORT/img-hex"><img src="http://2130706433:PORT/img-decimal"><img src="/redirect"><script>
const u = "http://127.0.0.1:PORT", out = []; const say = (k, v) => out.push(k + ":" + v);
fetch(u + "/fetch").then(r => r.text()).then(t => say("fetch", t)).catch(() => {}); fetch("/redirect").then(r => r.text()).then(t => say("redirect", t)).catch(() => {});
navigator.sendBeacon(u + "/beacon", "x"); try { new WebSocket("ws://127.0.0.1:PORT/ws"); } catch (e) {}
try { new Worker(URL.createObjectURL(new Blob(["fetch('" + u + "/worker')"], {type: "text/javascript"}))); } catch (e) {}
navigator.serviceWorker && navigator.serviceWorker.register("/sw.js").catch(() => {});
window.open(u + "/popup"); const x = new XMLHttpRequest(); x.open("GET", u + "/xhr"); x.onload = () => say("xhr", x.responseText); x.send();
try { const pc = new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:PORT"}]}); pc.createDataChannel("x"); pc.onicecandidate = (e) => e.candidate && e.candidate.candidate && say("ice", e.candidate.candidate); pc.createOffer().then(o => pc.setLocalDescription(o)); } catch (e) {}
fetch("http://rebind.example:PORT/rebind").catch(() => {}); fetch("http://host.docker.internal:PORT/name").catch(() => {});
setTimeout(() => { document.title = "done"; document.body.append(Object.assign(document.createElement("pre"), {id: "out", textContent: out.join("\n")})); }, 1500);
</script>`
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "http://127.0.0.1:"+port+"/redirected", http.StatusFound)
		case "/land":
			http.Redirect(w, r, "http://127.0.0.1:"+port+"/landing", http.StatusFound)
		case "/sw.js":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprintf(w, "self.addEventListener('install', e => e.waitUntil(fetch('http://127.0.0.1:%s/serviceworker')))", port)
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, strings.ReplaceAll(vectors, "PORT", port))
		}
	}))
	defer page.Close()
	// With the private server allowed each way leads to it, so each is tried at all.
	opened, _ := start(t, `,"render_timeout":"40s"`, page, &httptest.Server{Listener: at("localhost:" + port)}, &httptest.Server{Listener: at("[::1]:" + port)}, &httptest.Server{Listener: at("127.0.0.1:" + port)})
	render(t, opened, fmt.Sprintf(`{"url":%q,"wait":"#out"}`, page.URL))
	mu.Lock()
	all := strings.Join(hits, "\n") + "\n"
	hits = nil
	mu.Unlock()
	for _, path := range []string{"/iframe", "/iframe-name", "/img-short", "/img-hex", "/img-decimal", "/redirected", "/fetch", "/beacon", "/ws", "/worker", "/serviceworker", "/xhr"} {
		if !strings.Contains(all, path+"\n") {
			t.Errorf("%s is not tried by the page: %q", path, all)
		}
	}
	s, _ := start(t, "", page)
	out := render(t, s, fmt.Sprintf(`{"url":%q,"wait":"#out"}`, page.URL))
	if out.Title != "done" || strings.Contains(out.HTML, "secret") || strings.Contains(out.HTML, "ice:") {
		t.Errorf("%s %s", out.Title, out.HTML)
	}
	if len(out.Blocked) < 3 {
		t.Errorf("little was blocked: %q", out.Blocked)
	}
	for _, address := range []string{"http://127.0.0.1:" + port + "/direct", "http://localhost:" + port + "/direct", "http://[::1]:" + port + "/direct", "http://127.1:" + port + "/direct", page.URL + "/land"} {
		r := s.Call("browser_render", fmt.Sprintf(`{"url":%q}`, address), sdktest.Within(time.Minute))
		if strings.Contains(r.Text, "secret") {
			t.Errorf("%s: %s", address, r.Text)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(hits) != 0 {
		t.Errorf("the private server was reached: %q", hits)
	}
}

// at is an address, for start.
type at string

func (a at) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (a at) Close() error              { return nil }
func (a at) Addr() net.Addr            { return a }
func (a at) Network() string           { return "tcp" }
func (a at) String() string            { return string(a) }

// loopbackOnly refuses what comes from elsewhere than this machine.
type loopbackOnly struct{ net.Listener }

func (l loopbackOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if a, ok := c.RemoteAddr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
			return c, nil
		}
		c.Close()
	}
}

// Pages that misbehave cost themselves: the next one renders.
func TestMisbehaviour(t *testing.T) {
	endless, crash := make(chan struct{}), make(chan struct{}, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/loop":
			_, _ = io.WriteString(w, "<script>for(;;){}</script>")
		case "/dialog":
			_, _ = io.WriteString(w, "<title>d</title><script>alert(1); confirm(2); prompt(3); document.title = 'after'</script>")
		case "/hang":
			select {
			case <-r.Context().Done():
			case <-endless:
			}
		case "/flood":
			chunk := bytes.Repeat([]byte("x"), 1<<20)
			for range 64 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		case "/download":
			w.Header().Set("Content-Disposition", "attachment; filename=x.bin")
			_, _ = io.WriteString(w, "bytes")
		case "/big":
			_, _ = io.WriteString(w, "<title>big</title><p>"+strings.Repeat("ä", 3<<20))
		case "/restless":
			_, _ = io.WriteString(w, "<title>r</title><p id=p></p><script>setInterval(() => p.textContent += 'x', 50)</script>")
		case "/crash":
			_, _ = io.WriteString(w, "<title>c</title><script>fetch('/alive'); setInterval(() => document.body.append('x'), 50)</script>")
		case "/alive":
			crash <- struct{}{}
		default:
			_, _ = io.WriteString(w, "<title>ok</title><p>fine</p>")
		}
	}))
	defer srv.Close()
	defer close(endless)
	s, _ := start(t, `,"page_bytes":"16MiB"`, srv)
	fine := func(after string) {
		t.Helper()
		if out := render(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL+"/ok")); out.Title != "ok" {
			t.Errorf("after %s: %+v", after, out)
		}
	}
	for path, code := range map[string]string{"/loop": "timeout", "/hang": "timeout"} {
		s.Call("browser_render", fmt.Sprintf(`{"url":%q,"timeout_ms":2000}`, srv.URL+path), sdktest.Within(time.Minute)).WantError(code, "was not rendered within 2s")
		fine(path)
	}
	s.Call("browser_render", fmt.Sprintf(`{"url":%q}`, srv.URL+"/flood"), sdktest.Within(time.Minute)).WantError("too_large", "page_bytes")
	fine("/flood")
	s.Call("browser_render", fmt.Sprintf(`{"url":%q,"timeout_ms":5000}`, srv.URL+"/download"), sdktest.Within(time.Minute)).WantError("execution_failed", "could not open")
	fine("/download")
	if out := render(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL+"/dialog")); out.Title != "after" {
		t.Errorf("%+v", out)
	}
	if out := render(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL+"/big")); !out.Cut || len(out.HTML) < maxPacked/2 {
		t.Errorf("cut %v, %d bytes", out.Cut, len(out.HTML))
	}
	if out := render(t, s, fmt.Sprintf(`{"url":%q,"timeout_ms":4000}`, srv.URL+"/restless")); out.Title != "r" || !out.Unsettled {
		t.Errorf("%+v", out)
	}
	// A page's process that ends takes its call at once, and no other.
	reply := make(chan *sdktest.Reply, 1)
	go func() {
		reply <- s.Call("browser_render", fmt.Sprintf(`{"url":%q}`, srv.URL+"/crash"), sdktest.Within(time.Minute))
	}()
	<-crash
	if signal(t, syscall.SIGKILL, "--type=renderer") == 0 {
		t.Fatal("no page has a process")
	}
	(<-reply).WantError("execution_failed", "crashed the page")
	fine("/crash")
}

// children are the processes below this one, by pid.
func children(t *testing.T, pid int) []int {
	t.Helper()
	var all []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range tasks {
		raw, _ := os.ReadFile(f) // a thread may have ended
		for _, field := range strings.Fields(string(raw)) {
			var c int
			if _, err := fmt.Sscan(field, &c); err == nil {
				all = append(append(all, c), children(t, c)...)
			}
		}
	}
	return all
}

// gone waits until no process is left below this one.
func gone(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := children(t, os.Getpid())
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, pid := range left {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
				stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				t.Logf("%.60s: %.90q", stat, line)
			}
			t.Fatalf("left behind: %v", left)
		}
	}
}

// signal sends a signal to every process of the browser itself, not to its walls,
// of whose command line having is a part.
func signal(t *testing.T, sig syscall.Signal, having string) (n int) {
	t.Helper()
	for _, pid := range children(t, os.Getpid()) {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		if bytes.Contains(raw, []byte("relay")) || !bytes.Contains(raw, []byte("chrom")) || !bytes.Contains(raw, []byte(having)) {
			continue
		}
		if err := syscall.Kill(pid, sig); err == nil {
			n++
		} else if !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	return n
}

// A browser that stops answering is ended: between pages nobody notices, and in
// the middle of some each of them gets one clear error and the next call renders.
func TestStopped(t *testing.T) {
	entered := make(chan struct{}, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			entered <- struct{}{}
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "<title>ok</title>")
	}))
	defer srv.Close()
	signal(t, syscall.SIGKILL, "--") // browsers of other tests, which rest later
	gone(t)
	s, _ := start(t, `,"idle":"1s"`, srv)
	renders := func() {
		t.Helper()
		if out := render(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL+"/ok")); out.Title != "ok" {
			t.Errorf("%+v", out)
		}
	}
	renders()
	if signal(t, syscall.SIGSTOP, "--") == 0 {
		t.Fatal("there is no browser to stop")
	}
	renders()
	replies := make(chan *sdktest.Reply, 2)
	for _, ms := range []int{3000, 60_000} { // the second is told by what the first found
		go func() {
			replies <- s.Call("browser_render", fmt.Sprintf(`{"url":%q,"timeout_ms":%d}`, srv.URL+"/hang", ms), sdktest.Within(time.Minute))
		}()
	}
	for range 2 {
		<-entered
	}
	if signal(t, syscall.SIGSTOP, "--") == 0 {
		t.Fatal("there is no browser to stop")
	}
	// A page that comes only now finds no tab at all.
	s.Call("browser_render", fmt.Sprintf(`{"url":%q,"timeout_ms":2000}`, srv.URL+"/ok"), sdktest.Within(time.Minute)).WantError("unavailable", "the browser stopped answering while it rendered")
	for range 2 {
		(<-replies).WantError("unavailable", "the browser stopped answering while it rendered")
	}
	renders()
	gone(t)
}

// A browser that is killed while it renders gives one clear error, the next call
// renders, and nothing is left in the end.
func TestKilled(t *testing.T) {
	entered := make(chan struct{}, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			entered <- struct{}{}
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "<title>ok</title>")
	}))
	defer srv.Close()
	s, _ := start(t, `,"idle":"1s"`, srv)
	reply := make(chan *sdktest.Reply, 1)
	go func() {
		reply <- s.Call("browser_render", fmt.Sprintf(`{"url":%q}`, srv.URL+"/hang"), sdktest.Within(time.Minute))
	}()
	<-entered
	if signal(t, syscall.SIGKILL, "--") == 0 {
		t.Fatal("there is no browser to kill")
	}
	(<-reply).WantError("unavailable", "the browser ended while it rendered")
	if out := render(t, s, fmt.Sprintf(`{"url":%q}`, srv.URL+"/ok")); out.Title != "ok" {
		t.Errorf("%+v", out)
	}
	gone(t) // it rests a second after its last page
}

// level is the memory that is held: by this process after a collection, and by the
// browser's processes, where shared pages count in parts; in bytes.
func level(t *testing.T) (own, browser uint64) {
	t.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	for _, pid := range children(t, os.Getpid()) {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)) // it may have ended
		for line := range strings.Lines(string(raw)) {
			var kib uint64
			if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kib); n == 1 {
				browser += kib << 10
			}
		}
	}
	return m.HeapAlloc, browser
}

// Many pages, several at a time: no process, file or goroutine stays, and memory
// does not grow with the pages, neither the plugin's nor the browser's.
func TestRenderEndurance(t *testing.T) {
	n := 24
	if os.Getenv("BULKHEAD_ENDURANCE") != "" {
		n = 220
	}
	srv := site(t, map[string]string{"/": app, "/app.js": appJS, "/data.html": "x"})
	s, _ := start(t, `,"idle":"2s"`, srv)
	pages := func(from, to int) {
		var wg sync.WaitGroup
		jobs := make(chan int)
		for range 3 {
			wg.Go(func() {
				for i := range jobs {
					r := s.Call("browser_render", fmt.Sprintf(`{"url":"%s/?%d","wait":"#done"}`, srv.URL, i), sdktest.Within(2*time.Minute))
					if r.IsError || !strings.Contains(string(r.Structured), "data: x") {
						t.Errorf("%d: %s", i, r.Message)
					}
				}
			})
		}
		for i := from; i < to; i++ {
			jobs <- i
		}
		close(jobs)
		wg.Wait()
	}
	pages(0, 12) // to be warm
	own, browser := level(t)
	goroutines, processes := runtime.NumGoroutine(), len(children(t, os.Getpid()))
	pages(12, n)
	ownNow, browserNow := level(t)
	t.Logf("after 12 pages: heap %d KiB, browser %d MiB in %d processes, %d goroutines", own>>10, browser>>20, processes, goroutines)
	t.Logf("after %d pages: heap %d KiB, browser %d MiB in %d processes, %d goroutines", n, ownNow>>10, browserNow>>20, len(children(t, os.Getpid())), runtime.NumGoroutine())
	if ownNow > own+8<<20 {
		t.Errorf("the plugin's heap grew from %d to %d bytes", own, ownNow)
	}
	if browserNow > browser+browser/2+100<<20 {
		t.Errorf("the browser grew from %d to %d bytes", browser, browserNow)
	}
	if now := runtime.NumGoroutine(); now > goroutines+20 {
		t.Errorf("%d goroutines, then %d", goroutines, now)
	}
	gone(t)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left, err := filepath.Glob(filepath.Join(s.TempDir, "chrome*"))
		if err == nil && len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(left, err)
		}
	}
}

func TestSettings(t *testing.T) {
	s := sdktest.Start(t, Plugin())
	if got := s.Validate(`{"allow_hosts":["intranet.example"],"render_timeout":"20s","pages":2,"page_bytes":"8MiB","idle":"1m"}`); len(got) != 0 {
		t.Error(got)
	}
	for raw, want := range map[string]string{`{"allow_hosts":["http://x"]}`: "allow_hosts[0]: ", `{"pages":0}`: "pages: ", `{"render_timeout":"1h"}`: "render_timeout: ", `{"page_bytes":"1KiB"}`: "page_bytes: ", `{"idle":"0s"}`: "idle: "} {
		if got := s.Validate(raw); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: %q", raw, got)
		}
	}
}
