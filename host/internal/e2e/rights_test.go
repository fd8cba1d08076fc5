package e2e

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// following is a request whose answer goes on.
type following struct {
	code int
	text *testbin.Buffer
	done chan struct{} // closed when the answer has ended
}

func (f *following) open() bool {
	select {
	case <-f.done:
		return false
	default:
		return true
	}
}

// follow sends a request and reads its answer in the background.
func (a asker) follow(ctx context.Context, method, path, body string, headers ...string) *following {
	a.t.Helper()
	resp := a.send(ctx, method, path, body, headers...)
	f := &following{code: resp.StatusCode, text: &testbin.Buffer{}, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		defer resp.Body.Close()
		_, _ = io.Copy(f.text, resp.Body) // how it ends is the test's to judge
	}()
	return f
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// modernHeaders are those of a request of 2026-07-28.
func modernHeaders(method, name string) []string {
	return []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream",
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}
}

// listen opens a stream of 2026-07-28.
func (a asker) listen(ctx context.Context) *following {
	a.t.Helper()
	return a.follow(ctx, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+modernMeta+`}}`,
		modernHeaders("subscriptions/listen", "")...)
}

// What an agent has open ends with the rights it was opened by; others notice
// nothing.
func TestReloadEndsWhatAgentsHaveOpen(t *testing.T) {
	block := func(name, more string) string {
		return "agent \"" + name + "\" {\n  token = secret(\"" + name + "\")\n" + more + "}\n"
	}
	config := func(gone, demoted, narrowed, same string) string {
		return hostBlocks + instance("fx", "") + gone + block("demoted", demoted) + block("narrowed", narrowed) + block("rotated", "") + block("same", same)
	}
	w := newWorld(t, "", "fixture")
	w.mkdir("data/secrets")
	all := []string{"gone", "demoted", "narrowed", "rotated", "same"}
	for _, n := range all {
		w.secret(n, "secret-token-of-"+n)
	}
	w.write("config.hcl", config(block("gone", ""), "  approver = true\n", "  tools = [\"fx_*\"]\n", ""))
	w.serve()
	ctx, end := context.WithTimeout(t.Context(), 2*time.Minute)
	defer end()
	type client struct {
		asker
		session string
		streams map[string]*following
	}
	clients := map[string]client{}
	for _, n := range all {
		a := w.as(n)
		c := client{a, w.initialize("/mcp", a.token), map[string]*following{}}
		c.streams["events"] = a.follow(ctx, "GET", "/v1/events", "")
		c.streams["GET"] = a.follow(ctx, "GET", "/mcp", "", "Mcp-Session-Id", c.session, "Accept", "text/event-stream")
		c.streams["listen"] = a.listen(ctx)
		for kind, f := range c.streams {
			if f.code != 200 {
				t.Fatalf("%s of %s: %d", kind, n, f.code)
			}
		}
		testbin.Await(t, 10*time.Second, "the listening to begin", func() bool { return strings.Contains(c.streams["listen"].text.String(), "acknowledged") })
		clients[n] = c
	}
	running := clients["gone"].follow(ctx, "POST", "/v1/tools/fx_slow/call", `{"arguments":{"ms":60000}}`)
	_ = running
	w.secret("rotated", "another-token-of-rotated")
	w.write("config.hcl", config("", "", "  tools = [\"fx_echo\"]\n", "  model_tier = \"high\"\n"))
	w.ok("reload")
	for _, n := range all[:4] {
		for kind, f := range clients[n].streams {
			testbin.Await(t, 10*time.Second, kind+" of "+n+" to end", func() bool { return !f.open() })
		}
	}
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	for n, want := range map[string]int{"gone": 401, "demoted": 404, "narrowed": 404, "rotated": 401, "same": 200} {
		if code, body := w.post("/mcp", clients[n].token, clients[n].session, list); code != want {
			t.Errorf("the session of %s: %d %s", n, code, clip(body))
		}
	}
	if code, body := w.post("/mcp", "another-token-of-rotated", clients["rotated"].session, list); code != http.StatusNotFound {
		t.Errorf("the session under the new token: %d %s", code, clip(body))
	}
	if a := clients["demoted"].do("POST", "/v1/reload", ""); a.code != http.StatusForbidden {
		t.Errorf("who was approver reloads: %d %s", a.code, a.body)
	}
	same := clients["same"].streams
	for kind, f := range same {
		if !f.open() || strings.Contains(f.text.String(), "list_changed") {
			t.Errorf("%s of who did not change: open %t\n%s", kind, f.open(), f.text)
		}
	}
	w.install("web")
	for _, kind := range []string{"GET", "listen"} {
		testbin.Await(t, 20*time.Second, kind+" to tell of the new tool", func() bool { return strings.Contains(same[kind].text.String(), "list_changed") })
	}
	if p := w.plugin("fx"); p.InFlight != 0 {
		t.Errorf("the call of an agent that is gone still runs: %+v", p)
	}
}

// A client on stdio goes when its agent does, and else goes on under the new rules.
func TestReloadOnStdio(t *testing.T) {
	config := func(tools string) string {
		if tools == "" {
			return hostBlocks + instance("fx", "")
		}
		return hostBlocks + instance("fx", "") + "agent \"kid\" {\n  tools = [\"" + tools + "\"]\n}\n"
	}
	w := newWorld(t, "", "fixture")
	w.write("config.hcl", config("fx_*"))
	w.serve()
	r := w.rawMCP("--agent", "kid")
	call := func(id string) string {
		r.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"fx_long","arguments":{"chars":1}}}`)
		for {
			if m := r.hear(); m.Get("id").Raw == id {
				return m.Raw
			}
		}
	}
	if got := call("1"); strings.Contains(got, "BH5001") {
		t.Fatal(got)
	}
	w.write("config.hcl", config("fx_echo"))
	w.ok("reload")
	if m := r.hear(); m.Get("method").Str != "notifications/tools/list_changed" {
		t.Errorf("after its list changed it hears %s", m)
	}
	if got := call("2"); !strings.Contains(got, "BH5001") {
		t.Errorf("a tool it may no longer call: %s", got)
	}
	w.write("config.hcl", config(""))
	w.ok("reload")
	if m := r.hear(); m.Exists() {
		t.Errorf("after its agent is gone it hears %s", m)
	}
}

// Whatever goes on until somebody ends it counts, and so does all else one agent
// has in hand; another agent is served.
func TestOneAgentsShare(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann, boss := w.as("ann"), w.as("boss")
	id := w.initialize("/mcp", ann.token)
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	open := []func() *following{
		func() *following { return ann.listen(ctx) },
		func() *following { return ann.follow(ctx, "GET", "/v1/events", "") },
		func() *following {
			return ann.follow(ctx, "GET", "/mcp", "", "Mcp-Session-Id", id, "Accept", "text/event-stream")
		},
	}
	for i := range 64 {
		if f := open[i%len(open)](); f.code != 200 {
			t.Fatalf("stream %d: %d", i, f.code)
		}
	}
	for i, f := range open {
		if got := f(); got.code != http.StatusServiceUnavailable {
			t.Errorf("stream %d beyond the bound: %d", i, got.code)
		}
	}
	if a := ann.call("fx_echo", "{}"); a.code != 200 {
		t.Errorf("a call beside the streams: %d %s", a.code, a.body)
	}
	if f := boss.listen(ctx); f.code != 200 {
		t.Errorf("another agent: %d", f.code)
	}
}

// A flood of one agent fills its own share of what the host takes at a time.
func TestFloodOfOneAgent(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serveBy(exec.Command("bash", "-c", "ulimit -n 384; exec "+bulkhead(t)+" serve")) // 192 connections, of which one agent has 48
	ann, boss := w.as("ann"), w.as("boss")
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var refusals atomic.Int64
	var all sync.WaitGroup
	for range 80 {
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "POST", ann.url+"/v1/tools/fx_slow/call", strings.NewReader(`{"arguments":{"ms":60000}}`))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+ann.token)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return // the end of the test
			}
			defer resp.Body.Close()
			if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
				refusals.Add(1)
			}
		})
	}
	testbin.Await(t, 20*time.Second, "what is over the share to be refused", func() bool { return refusals.Load() >= 32 })
	if a := boss.do("GET", "/v1/tools", ""); a.code != 200 {
		t.Errorf("another agent: %d %s", a.code, a.body)
	}
	if n := refusals.Load(); n != 32 {
		t.Errorf("%d of 80 refused", n)
	}
	end()
	all.Wait()
	testbin.Await(t, 20*time.Second, "a place to be free again", func() bool { return ann.do("GET", "/v1/tools", "").code == 200 })
}
