package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// ends waits until the host has closed the connection.
func (c *raw) ends(t *testing.T, what string, limit time.Duration) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, c.r)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		t.Errorf("%s was still connected after %s", what, limit)
	}
}

// Clients that send or read at a crawl are let go, and what they held comes back.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann := w.as("ann")
	before := w.held(ann)
	stop := w.as("boss").serving("slow clients")
	var all sync.WaitGroup
	const head = "POST /v1/tools/fx_echo/call HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-token-of-ann\r\n"
	crawl := func(what, first string, limit time.Duration) {
		c := ann.dial()
		all.Go(func() {
			if _, err := io.WriteString(c, first); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			quit := make(chan struct{})
			go func() {
				tick := time.NewTicker(300 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-quit:
						return
					case <-tick.C:
					}
					if _, err := c.Write([]byte("1")); err != nil {
						return
					}
				}
			}()
			c.ends(t, what, limit)
			close(quit)
		})
	}
	for range 8 {
		crawl("slow headers", head+"X-Slow: ", 30*time.Second)
		crawl("a slow body", head+"Content-Length: 100000\r\n\r\n{", 60*time.Second)
		crawl("a slow chunked body", head+"Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\"", 60*time.Second)
		crawl("a slow MCP body", strings.Replace(head, "/v1/tools/fx_echo/call", "/mcp", 1)+"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{", 60*time.Second)
	}
	// Readers that stall: more answers than any buffer between holds.
	ask := `{"arguments":{"chars":3000000}}`
	one := fmt.Sprintf("POST /v1/tools/fx_long/call?shape=none HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-token-of-ann\r\nContent-Length: %d\r\n\r\n%s", len(ask), ask)
	streamed := strings.Replace(one, "\r\n\r\n", "\r\nAccept: text/event-stream\r\n\r\n", 1)
	for i := range 8 {
		c := ann.dial()
		if err := c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		text := one
		if i%2 == 1 {
			text = streamed
		}
		if _, err := io.WriteString(c, strings.Repeat(text, 10)); err != nil {
			t.Fatal(err)
		}
	}
	mcp := w.initialize("/mcp", "secret-token-of-ann")
	big := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fx_echo","arguments":{"x":"` + strings.Repeat("x", 900_000) + `"}}}`
	for range 4 {
		c := ann.dial()
		if err := c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		go func() { // blocks as soon as the host does, and ends with the connection
			_, _ = io.WriteString(c, strings.Repeat(fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-token-of-ann\r\nMcp-Session-Id: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", mcp, len(big), big), 10))
		}()
	}
	testbin.Await(t, 20*time.Second, "the readers to stall", func() bool { return ann.metric(`bulkhead_http_connections{state="busy"}`) >= 24+8+4 })
	// The slow headers are dropped by now or soon; only those who stall stay busy.
	all.Wait()
	testbin.Await(t, 90*time.Second, "the stalled readers to be dropped", func() bool {
		return ann.metric(`bulkhead_http_connections{state="busy"}`) <= 2 && w.plugin("fx").InFlight <= 1
	})
	stop()
	w.back(ann, before)
}

// A call that takes longer than a body may is not cut off by the body's deadline.
func TestLongCallsOutliveTheBody(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 35 s")
	}
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann := w.as("ann")
	if a := ann.call("fx_slow", `{"ms":33000}`); a.code != 200 || !strings.Contains(a.body, "done") {
		t.Errorf("%d %s", a.code, a.body)
	}
}

// serveWithin starts the host with a bound on open files.
func (w *world) serveWithin(files int) {
	w.t.Helper()
	w.serveBy(exec.Command("sh", "-c", fmt.Sprintf("ulimit -n %d && exec \"$0\" serve", files), bulkhead(w.t)))
}

// As many idle connections as the limit on open files allows, and many more: others
// are served all along, and nothing is left after.
func TestIdleConnections(t *testing.T) {
	const files, flood = 384, 2000
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serveWithin(files)
	ann := w.as("ann")
	limit := ann.metric("bulkhead_http_connections_limit")
	if limit < 100 || limit >= files {
		t.Errorf("%d connections with %d files", limit, files)
	}
	if !strings.Contains(w.log.String(), fmt.Sprintf(`"connections":%d`, limit)) {
		t.Errorf("the log does not tell the limit of %d:\n%s", limit, clip(w.log.String()))
	}
	before := w.held(ann)
	stop := w.as("boss").serving("2,000 idle connections")
	var conns []*raw
	for i := range flood {
		c := ann.dial()
		conns = append(conns, c)
		switch i % 3 {
		case 1: // half a header
			_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHo")
		case 2: // served once, then idle
			_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}
	}
	peak := w.held(ann)
	open := ann.metric(`bulkhead_http_connections{state="idle"}`)
	t.Logf("of %d connections the host held %d at once: limit %d with %d open files; it held %+v", flood, open, limit, files, peak)
	if open > limit || peak.files > files {
		t.Errorf("held %d connections over the limit %d, or %d files", open, limit, peak.files)
	}
	if got := w.call("fx_echo"); got != 0 {
		t.Errorf("the command line: exit %d", got)
	}
	stop()
	if n := ann.metric("bulkhead_http_connections_dropped"); n < flood-limit-50 {
		t.Errorf("%d idle connections made room", n)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	w.back(ann, before)
}

func (w *world) call(tool string) int {
	_, _, code := w.run("call", tool)
	return code
}

// When every connection has a request in hand, one more is told to come back.
func TestBusyConnections(t *testing.T) {
	const files = 256
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serveWithin(files)
	ann := w.as("ann")
	limit := ann.metric("bulkhead_http_connections_limit")
	http.DefaultClient.CloseIdleConnections()
	var conns []*raw
	occupy := func() {
		c := ann.dial()
		conns = append(conns, c)
		// One that is turned away takes no place; two agents together may have them all.
		agent := []string{"ann", "boss"}[len(conns)%2]
		_, _ = io.WriteString(c, "POST /v1/tools/fx_echo/call HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-token-of-"+agent+"\r\nContent-Length: 10\r\n\r\n")
	}
	for range limit {
		occupy()
	}
	testbin.Await(t, 20*time.Second, "a refusal", func() bool {
		code, header := ann.exchange("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if code == 503 && header.Get("Retry-After") != "" {
			return true
		}
		occupy() // some made room for later ones before their request was read
		return false
	})
	if code := w.call("fx_echo"); code != 0 { // the operator has a door of its own
		t.Errorf("the command line: exit %d", code)
	}
	for _, c := range conns[:32] {
		_ = c.Close()
	}
	testbin.Await(t, 20*time.Second, "room", func() bool {
		code, _ := ann.exchange("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		return code == 200
	})
	for _, c := range conns[32:] {
		_ = c.Close()
	}
	testbin.Await(t, 20*time.Second, "all to be over", func() bool { return ann.metric(`bulkhead_http_connections{state="busy"}`) <= 1 })
}

// Requests that are refused, or need no body, get their answer at once and hold no
// connection, however many of them never send the body they announce.
func TestRefusedConnections(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serveWithin(320)
	ann := w.as("ann")
	limit := ann.metric("bulkhead_http_connections_limit")
	http.DefaultClient.CloseIdleConnections()
	const json, body = "Content-Type: application/json\r\n", "Content-Length: 1000\r\n\r\n"
	kinds := []struct {
		head string
		code int
	}{
		{"POST /mcp HTTP/1.1\r\nHost: evil.example\r\n" + json, 403},
		{"POST /v1/tools/fx_echo/call HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n" + json, 403},
		{"POST /v1/tools/fx_echo/call HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n" + json, 401},
		{"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + json, 200},
		{"POST /nothing HTTP/1.1\r\nHost: localhost\r\n" + json, 404},
		{"PUT /healthz HTTP/1.1\r\nHost: localhost\r\n" + json, 405},
		{"PUT /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-token-of-ann\r\n" + json, 405},
		{"POST /v1/tools/fx_echo/call HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-token-of-ann\r\nContent-Type: text/plain\r\n", 415},
		{"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-token-of-ann\r\n" + json, 403},
	}
	for round := range 3 * limit / len(kinds) {
		for _, k := range kinds {
			c := ann.dial() // stays open on this side
			if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(c, k.head+body)
			resp, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatalf("round %d, %.40q: no answer: %v", round, k.head, err)
			}
			if guessed := k.code == 401 && resp.StatusCode == 429; resp.StatusCode != k.code && !guessed || !resp.Close {
				t.Errorf("%.40q: %d, want %d; closing: %v", k.head, resp.StatusCode, k.code, resp.Close)
			}
		}
	}
	if code, _ := ann.exchange("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); code != 200 {
		t.Errorf("another client: %d", code)
	}
	testbin.Await(t, 20*time.Second, "the connections to end", func() bool { return ann.metric(`bulkhead_http_connections{state="busy"}`) <= 1 })
}

// Sessions without end push out their own kind only.
func TestSessionFlood(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann, boss := w.as("ann"), w.as("boss")
	his := w.initialize("/mcp", "secret-token-of-boss")
	into[api.Turns](boss.do("POST", "/v1/sessions/his/turns", `{"role":"user","text":"x"}`), 200)
	before := w.held(boss)
	rss := boss.metric("process_resident_memory_bytes")
	flood := func(n int, one func(i int)) {
		var all sync.WaitGroup
		next := make(chan int, n)
		for i := range n {
			next <- i
		}
		close(next)
		for range 8 {
			all.Go(func() {
				for i := range next {
					one(i)
				}
			})
		}
		all.Wait()
	}
	stop := boss.serving("5,000 initializations")
	flood(5000, func(int) {
		a := ann.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		if a.code != 200 {
			t.Errorf("initialize: %d %s", a.code, a.body)
		}
	})
	stop()
	stop = boss.serving("3,000 sessions of the HTTP API")
	flood(3000, func(i int) {
		if a := ann.do("POST", fmt.Sprintf("/v1/sessions/flood-%d/turns", i), `{"role":"user","text":"x"}`); a.code != 200 {
			t.Errorf("session %d: %d %s", i, a.code, a.body)
		}
	})
	stop()
	if code, body := w.post("/mcp", "secret-token-of-boss", his, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); code != 200 {
		t.Errorf("another agent's MCP session: %d %s", code, clip(body))
	}
	if n := into[api.Turns](boss.do("POST", "/v1/sessions/his/turns", `{"role":"user","text":"y"}`), 200).Turns; n != 2 {
		t.Errorf("another agent's session has %d turns", n)
	}
	t.Logf("memory %d MiB before, %d MiB after", rss>>20, boss.metric("process_resident_memory_bytes")>>20)
	w.back(boss, before)
}

// Streams of one agent are bounded, and end with their readers.
func TestStreamFlood(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann, boss := w.as("ann"), w.as("boss")
	before := w.held(boss)
	ctx, cancel := context.WithCancel(t.Context())
	var open []io.Closer
	refusals := 0
	for range 80 {
		resp := ann.send(ctx, "GET", "/v1/events", "")
		open = append(open, resp.Body)
		if resp.StatusCode == 503 {
			refusals++
		}
	}
	if refusals != 80-64 {
		t.Errorf("%d of 80 streams were refused", refusals)
	}
	other := boss.send(ctx, "GET", "/v1/events", "")
	if other.StatusCode != 200 {
		t.Errorf("another agent's stream: %d", other.StatusCode)
	}
	cancel()
	for _, c := range append(open, other.Body) {
		_ = c.Close()
	}
	w.back(boss, before)
}
