package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// raw is a connection to the door by hand.
type raw struct {
	net.Conn
	r *bufio.Reader
}

func (a asker) dial() *raw {
	a.t.Helper()
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(a.url, "http://"), 10*time.Second)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = c.Close() })
	return &raw{c, bufio.NewReader(c)}
}

// exchange sends text as it is and reads one answer; 0 is a connection that was
// closed without one.
func (a asker) exchange(text string) (code int, header http.Header) {
	a.t.Helper()
	c := a.dial()
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		a.t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		return 0, nil
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, nil
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// metric is a value of /metrics.
func (a asker) metric(name string) int {
	a.t.Helper()
	m := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(a.do("GET", "/metrics", "").body)
	if m == nil {
		a.t.Fatalf("no metric %s", name)
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return int(f)
}

// held is what the host holds.
type held struct{ files, goroutines int }

func (w *world) held(a asker) held {
	w.t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.status().Host.PID))
	if err != nil {
		w.t.Fatal(err)
	}
	return held{len(files), a.metric("go_goroutines")}
}

// back waits until the host holds no more than before, but for a little slack:
// connections of the test itself, timers of the database.
func (w *world) back(a asker, before held) {
	w.t.Helper()
	var now held
	testbin.Await(w.t, 60*time.Second, "files and goroutines to come back", func() bool {
		now = w.held(a)
		return now.files <= before.files+8 && now.goroutines <= before.goroutines+16
	})
	w.t.Logf("held before %+v, after %+v", before, now)
}

// serving checks all along that another client is served, until stop.
func (a asker) serving(what string) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	served := 0
	go func() {
		defer close(done)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
		for {
			select {
			case <-quit:
				return
			default:
			}
			req, err := http.NewRequest("POST", a.url+"/v1/tools/fx_echo/call", strings.NewReader(`{"arguments":{"n":1}}`))
			if err != nil {
				a.t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+a.token)
			resp, err := client.Do(req)
			if err != nil {
				a.t.Errorf("during %s another client: %v", what, err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != 200 {
				a.t.Errorf("during %s another client: %d", what, resp.StatusCode)
				return
			}
			served++
			time.Sleep(5 * time.Millisecond) // a pace, not a wait
		}
	}()
	return func() {
		close(quit)
		<-done
		a.t.Logf("%d calls of another client during %s", served, what)
		if served == 0 {
			a.t.Errorf("nobody else was served during %s", what)
		}
	}
}

func TestForeignHosts(t *testing.T) {
	w := newAPIWorld(t, "")
	w.write("config.hcl", strings.Replace(w.config(), `address = "127.0.0.1:0"`, "address = \"127.0.0.1:0\"\n  hosts   = [\"tools.example\", \"other.example:8080\"]\n  origins = [\"https://page.example\"]", 1))
	w.serve()
	ann := w.as("ann")
	port := ann.url[strings.LastIndex(ann.url, ":"):]
	for host, want := range map[string]int{
		"127.0.0.1" + port: 200, "127.0.0.1": 200, "127.9.8.7": 200, "localhost" + port: 200, "LOCALHOST": 200, "localhost.": 200,
		"[::1]" + port: 200, "[::1]": 200, "x.localhost": 200, "tools.example": 200, "Tools.Example:99": 200, "tools.example.": 200, "other.example:8080": 200,
		"evil.example": 403, "evil.example" + port: 403, "127.0.0.1.evil.example": 403, "127.0.0.1.nip.io" + port: 403, "localhost.evil.example": 403,
		"evillocalhost": 403, "other.example": 403, "other.example:81": 403, "tools.example.evil.example": 403, "user@127.0.0.1": 403,
		"127.0.0.1:80@evil.example": 403, "0.0.0.0" + port: 403, "[::]" + port: 403, "10.0.0.1": 403, "2130706433": 403, "0x7f.1": 403, "127.0.0.1.": 403, "": 403,
	} {
		for _, path := range []string{"/healthz", "/v1/tools", "/mcp/x/../../healthz"} {
			if strings.Contains(path, "..") && want == 200 {
				continue
			}
			got, header := ann.exchange("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer secret-token-of-ann\r\nConnection: close\r\n\r\n")
			if got != want && !(want == 403 && got == 400) {
				t.Errorf("host %q at %s: %d, want %d", host, path, got, want)
			}
			if header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("host %q: shared with other origins", host)
			}
		}
	}
	if got, _ := ann.exchange("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"); got != 400 {
		t.Errorf("two hosts: %d", got)
	}
	if got, _ := ann.exchange("GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); got != 403 {
		t.Errorf("a foreign host in the request line: %d", got)
	}
	own := "http://127.0.0.1" + port
	for origin, want := range map[string]int{
		"": 200, own: 200, "https://page.example": 200,
		"null": 403, "https://evil.example": 403, "http://127.0.0.1": 403, "http://127.0.0.1:1": 403, "http://localhost" + port: 403,
		own + ".evil.example": 403, "http://evil.example@127.0.0.1" + port: 403, own + "/": 403, "file://": 403, "http://page.example": 403,
		"https://PAGE.example": 403, "https://page.example.": 403, "https://page.example:444": 403, "javascript://127.0.0.1" + port: 403, "127.0.0.1" + port: 403,
	} {
		for _, path := range []string{"/v1/tools/list_tool_guides/call", "/mcp"} {
			header := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
			if origin != "" {
				header = append(header, "Origin", origin)
			}
			body := `{}`
			if path == "/mcp" {
				body = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
			}
			a := ann.do("POST", path, body, header...)
			if a.code != want {
				t.Errorf("origin %q at %s: %d, want %d: %s", origin, path, a.code, want, clip(a.body))
			}
			if shared := a.header.Get("Access-Control-Allow-Origin"); (shared != "") != (origin == "https://page.example") {
				t.Errorf("origin %q may read: %q", origin, shared)
			}
		}
	}
	if a := ann.do("POST", "/v1/tools/list_tool_guides/call", "{}", "Origin", own, "Origin", "https://evil.example"); a.code != 403 {
		t.Errorf("two origins: %d", a.code)
	}
	// A browser asks first; only a page the config names is told yes.
	for origin, want := range map[string]int{"https://page.example": 204, "https://evil.example": 403} {
		a := w.as("").do("OPTIONS", "/v1/tools/x/call", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
		if a.code != want || (a.header.Get("Access-Control-Allow-Origin") != "") != (want == 204) {
			t.Errorf("a question of %s: %d %v", origin, a.code, a.header)
		}
	}
	for site, want := range map[string]int{"none": 200, "same-origin": 200, "same-site": 403, "cross-site": 403} {
		if a := ann.do("GET", "/v1/tools", "", "Sec-Fetch-Site", site); a.code != want {
			t.Errorf("a browser from %s: %d", site, a.code)
		}
	}
	if a := ann.do("GET", "/v1/tools", ""); a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("X-Frame-Options") != "DENY" ||
		!strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers: %v", a.header)
	}
}

func (w *world) config() string {
	w.t.Helper()
	text, err := os.ReadFile(w.dir + "/config.hcl")
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// An address that others reach is not opened without tokens, and with tokens
// nobody gets in without one.
func TestOpenAddressNeedsTokens(t *testing.T) {
	w := newWorld(t, "")
	open := strings.Replace(w.config(), "127.0.0.1:0", "0.0.0.0:0", 1)
	w.write("config.hcl", open)
	w.fails(1, []string{"BH3003", "config.hcl:", "needs agents with tokens"}, "serve")
	w.fails(1, []string{"BH3003"}, "check")
	w.write("config.hcl", open+"agent \"idle\" {}\n")
	w.fails(1, []string{"BH3003"}, "serve")

	w.write("config.hcl", open+agentBlocks)
	w.mkdir("data/secrets")
	for _, n := range []string{"boss", "ann", "bob"} {
		w.secret(n, "secret-token-of-"+n)
	}
	w.serve()
	door := w.status().Host.Doors[1]
	a := asker{t: t, url: "http://127.0.0.1" + door[strings.LastIndex(door, ":"):]}
	for _, path := range []string{"/v1/tools", "/v1/status", "/v1/events", "/metrics"} {
		if got := a.do("GET", path, ""); got.code != 401 || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s without a token: %d %v", path, got.code, got.header)
		}
	}
	if got := a.do("POST", "/mcp", "{}"); got.code != 401 {
		t.Errorf("MCP without a token: %d", got.code)
	}
	into[map[string]string](a.do("GET", "/healthz", ""), 200)
	a.token = "secret-token-of-ann"
	into[[]api.Tool](a.do("GET", "/v1/tools", "", "Host", "192.0.2.7:80"), 200)
	if got := a.do("GET", "/v1/tools", "", "Host", "evil.example"); got.code != 403 {
		t.Errorf("a foreign name: %d", got.code)
	}
}

// Every wrong token gets the same answer, however near it is, and who goes on with
// them is told to wait; others are served.
func TestTokenGuesses(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	bob := w.as("boss")
	for name, value := range map[string]string{"basic": "Basic dG9rZW4tb2YtYW5u", "bare": "secret-token-of-ann", "empty": "Bearer ", "no scheme": " secret-token-of-ann"} {
		code, _ := bob.exchange("GET /v1/tools HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + value + "\r\nConnection: close\r\n\r\n")
		if code != 401 {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code, _ := bob.exchange("GET /v1/tools HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nAuthorization: Bearer secret-token-of-ann\r\nConnection: close\r\n\r\n"); code != 401 {
		t.Errorf("two tokens: %d", code)
	}
	before := w.held(bob)
	stop := bob.serving("2,000 guesses")
	var mu sync.Mutex
	bodies := map[string]int{}
	guess := func(token string) {
		a := asker{t: t, url: bob.url, token: token}.do("GET", "/v1/tools", "")
		mu.Lock()
		defer mu.Unlock()
		bodies[fmt.Sprint(a.code, a.header.Get("WWW-Authenticate"), a.header.Get("Content-Length"), a.body)]++
	}
	near := []string{"secret-token-of-an", "secret-token-of-ann ", "secret-token-of-annx", "Secret-token-of-ann", "secret-token-of-ann\u00a0", "x", strings.Repeat("t", 4000), "secret-token-of-ann,secret-token-of-bob"}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 250 {
				if token := near[i%len(near)]; strings.TrimSpace(token) != "secret-token-of-ann" {
					guess(token)
				} else {
					guess(fmt.Sprintf("%d-%d", worker, i))
				}
			}
		})
	}
	all.Wait()
	stop()
	refusals, waits := 0, 0
	for body, n := range bodies {
		switch {
		case strings.HasPrefix(body, "401"):
			refusals += n
		case strings.HasPrefix(body, "429") && strings.Contains(body, "BH5012"):
			waits += n
		default:
			t.Error(body)
		}
	}
	if len(bodies) != 2 || refusals < 10 || waits < 1000 {
		t.Errorf("%d refusals, %d told to wait: %v", refusals, waits, bodies)
	}
	if a := (asker{t: t, url: bob.url, token: "x"}).do("GET", "/v1/tools", ""); a.code != 429 || a.header.Get("Retry-After") != "1" {
		t.Errorf("one more: %d %v", a.code, a.header)
	}
	if a := bob.do("GET", "/v1/tools", ""); a.code != 200 {
		t.Errorf("a right token from that address: %d", a.code)
	}
	w.back(bob, before)
}

// One agent's streams are bounded, so that they keep nobody else out, and a stream
// that ends gives its place back.
func TestStreamsOfOneAgent(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann, boss := w.as("ann"), w.as("boss")
	id := w.initialize("/mcp", "secret-token-of-ann")
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	open := func() (code int) {
		req, err := http.NewRequestWithContext(ctx, "GET", ann.url+"/mcp", nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"Authorization": "Bearer secret-token-of-ann", "Mcp-Session-Id": id, "Accept": "text/event-stream"} {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp.StatusCode
	}
	held := 0
	code := open()
	for ; code == 200 && held < 100; code = open() {
		held++
	}
	if held != 64 || code != 503 {
		t.Errorf("%d streams, then %d", held, code)
	}
	if a := boss.do("GET", "/v1/tools", ""); a.code != 200 {
		t.Errorf("another agent: %d %s", a.code, a.body)
	}
	end()
	ctx, end = context.WithTimeout(t.Context(), time.Minute)
	defer end()
	testbin.Await(t, 20*time.Second, "a place to be free again", func() bool { return open() == 200 })
}

// Ids of another agent's sessions are as unknown as made-up ones.
func TestForeignSessions(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann, boss := w.as("ann"), w.as("boss")
	into[api.Turns](ann.do("POST", "/v1/sessions/hers/turns", `{"role":"user","text":"x"}`), 200)
	mcp := w.initialize("/mcp", "secret-token-of-ann")
	if code, body := w.post("/mcp", "secret-token-of-ann", mcp, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fx_echo","arguments":{}}}`); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	named := func(name, token, path string, header ...string) answer {
		a := asker{t: t, url: ann.url, token: token}
		return a.do("POST", path, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fx_echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
			append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name}, header...)...)
	}
	modern := func(token, path string, header ...string) answer { return named("fx_echo", token, path, header...) }
	if a := modern("secret-token-of-ann", "/mcp/s/hers"); a.code != 200 {
		t.Fatalf("her own: %d %s", a.code, a.body)
	}
	// A header of the older revisions means nothing in this one, nor does the name
	// that calls have inside.
	if a := modern("secret-token-of-ann", "/mcp", "Mcp-Session-Id", mcp); a.code != 200 || strings.Contains(a.body, "list_changed") || a.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("with a session of another revision: %d %s", a.code, a.body)
	}
	if a := named("_", "secret-token-of-ann", "/mcp"); a.code != 400 || !strings.Contains(a.body, "-32020") {
		t.Errorf("the inner name in the header: %d %s", a.code, a.body)
	}
	if a := ann.do("POST", "/v1/tools/fx_echo/call", "{\"arguments\":{\"a\":\"\xff\"}}"); a.code != 400 {
		t.Errorf("bytes that are no UTF-8: %d %s", a.code, a.body)
	}
	same := func(what string, foreign, unknown answer, id, made string) {
		t.Helper()
		if foreign.code != 404 || unknown.code != foreign.code || strings.ReplaceAll(foreign.body, id, made) != unknown.body {
			t.Errorf("%s: %d %s, unknown %d %s", what, foreign.code, foreign.body, unknown.code, unknown.body)
		}
	}
	const made = "made-up"
	if a := modern("secret-token-of-boss", "/mcp/s/hers"); a.code != 404 {
		t.Errorf("MCP by path: %d %s", a.code, a.body)
	}
	if a := modern("secret-token-of-boss", "/mcp", "Bulkhead-Session", "hers"); a.code != 404 {
		t.Errorf("MCP by header: %d %s", a.code, a.body)
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		ask := func(id string) answer {
			return boss.do(method, "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "Mcp-Session-Id", id, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		}
		same(method+" of MCP", ask(mcp), ask(made), mcp, made)
	}
	for _, id := range []string{"hers", mcp, "default:ann"} {
		same("an inbox", boss.do("GET", "/v1/sessions/"+id+"/inbox", ""), boss.do("GET", "/v1/sessions/"+made+"/inbox", ""), id, made)
		if a := boss.do("POST", "/v1/sessions/"+id+"/turns", `{"role":"user","text":"x"}`); a.code != 404 {
			t.Errorf("turns of %s: %d %s", id, a.code, a.body)
		}
		failed(boss.call("fx_echo", "{}", "Bulkhead-Session", id), 404, "BH1012")
	}
	if code, body := w.post("/mcp", "secret-token-of-ann", mcp, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); code != 200 {
		t.Errorf("her session after all that: %d %s", code, body)
	}
}

func TestOversizeBodies(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann := w.as("ann")
	before := w.held(ann)
	stop := w.as("boss").serving("oversize bodies")
	big := `{"arguments":{"x":"` + strings.Repeat("x", 5<<20) + `"}}`
	for _, path := range []string{"/v1/tools/fx_echo/call", "/v1/sessions/s/turns", "/mcp"} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = strings.NewReader(big)
			if chunked {
				body = struct{ io.Reader }{body}
			}
			req, err := http.NewRequest("POST", ann.url+path, body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer secret-token-of-ann")
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			req.Header.Set("Mcp-Session-Id", "x")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Errorf("%s, chunked %t: %v", path, chunked, err)
				continue
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != 413 {
				t.Errorf("%s, chunked %t: %d %s", path, chunked, resp.StatusCode, clip(string(text)))
			}
		}
	}
	// What says it is far larger than it will ever send, and a header without end.
	if code, _ := ann.exchange("POST /v1/tools/fx_echo/call HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-token-of-ann\r\nContent-Length: 99999999999\r\n\r\n" + strings.Repeat("x", 5<<20)); code != 413 && code != 0 {
		t.Errorf("a lie: %d", code)
	}
	if code, _ := ann.exchange("GET /v1/tools HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"); code != 431 && code != 0 {
		t.Errorf("a long header: %d", code)
	}
	stop()
	w.back(ann, before)
}
