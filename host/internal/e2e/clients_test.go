package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

const page = `<html><head><title>Bulkheads of ships</title></head><body><nav>menu</nav><article><h1>Bulkheads</h1>
<p>A bulkhead is an upright wall within the hull of a ship. It keeps water in one compartment, so that a breach does not sink her.</p>
<p>Ships have used such walls for centuries, and a <a href="/more">host of tools</a> may use them too.</p></article></body></html>`

// site serves the test's page on loopback.
func site(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/page"
}

const webBlock = "plugin \"web\" {\n  config {\n    allow_hosts = [\"127.0.0.1\"]\n  }\n}\n"

// browsed checks what a client got for the page.
func browsed(t *testing.T, url, text string) {
	t.Helper()
	for _, want := range []string{"Source: " + url, "# Bulkheads", "upright wall", "[host of tools]("} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "menu") || strings.Contains(text, "<p>") {
		t.Errorf("noise or HTML in:\n%s", text)
	}
}

func TestBrowseOnTheCommandLine(t *testing.T) {
	w := newWorld(t, webBlock, "web")
	url := site(t)
	browsed(t, url, w.ok("call", "web_browse", "url="+url)) // starts a host of its own
	w.serve()
	browsed(t, url, w.ok("call", "web_browse", "url="+url))
}

// connect is the official Go SDK's client over stdio, in one of the two eras.
func connect(t *testing.T, w *world, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.Command(bulkhead(t), "mcp")
	cmd.Dir, cmd.Stderr = w.dir, os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, opts)
	s, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func text(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	var parts []string
	for _, c := range r.Content {
		if x, ok := c.(*mcp.TextContent); ok {
			parts = append(parts, x.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// transports are the ways in which the official Go SDK's client connects. On stdio
// it brings a host of its own along unless one runs.
var transports = []struct {
	name, oldest string
	connect      func(*testing.T, *world, string, *mcp.ClientOptions) *mcp.ClientSession
}{
	{"stdio", "2024-11-05", connect},
	{"http", "2025-03-26", func(t *testing.T, w *world, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
		if w.host == nil {
			w.serve()
		}
		return connectHTTP(t, w.url()+"/mcp", version, opts)
	}},
}

func TestGoSDKClient(t *testing.T) {
	for _, way := range transports {
		for _, version := range []string{way.oldest, "2025-11-25", "2026-07-28"} {
			t.Run(way.name+" "+version, func(t *testing.T) {
				w := newWorld(t, webBlock+instance("fx", ""), "web", "fixture")
				var mu sync.Mutex
				var steps []float64
				s := way.connect(t, w, version, &mcp.ClientOptions{
					ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
						mu.Lock()
						defer mu.Unlock()
						steps = append(steps, r.Params.Progress)
					}})
				if got := s.InitializeResult().ProtocolVersion; got != version {
					t.Errorf("negotiated %s", got)
				}
				goSDKClient(t, w, s, func() (seen int) {
					mu.Lock()
					defer mu.Unlock()
					seen, steps = len(steps), nil
					return seen
				})
			})
		}
	}
}

// goSDKClient tries what every client can do; steps says how much progress was told
// since it was asked last.
func goSDKClient(t *testing.T, w *world, s *mcp.ClientSession, steps func() int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	call := func(name string, arguments any) *mcp.CallToolResult {
		t.Helper()
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if !slices.Contains(names, "web_browse") || !slices.Contains(names, "call_tool") || slices.Contains(names, "_") || slices.Contains(names, "fx_hidden") || !slices.IsSorted(names) {
		t.Errorf("listed: %v", names)
	}
	url := site(t)
	browsed(t, url, text(t, call("web_browse", map[string]any{"url": url})))
	// The bytes of arguments and results are those that were sent.
	sent := `{"id":9223372036854775807,"z":{"b":1,"a":2.50},"unknown":null}`
	if got := text(t, call("fx_echo", json.RawMessage(sent))); got != sent {
		t.Errorf("echoed %s, sent %s", got, sent)
	}
	for range 20 { // progress is never lost before the result
		p := &mcp.CallToolParams{Name: "fx_slow", Arguments: map[string]any{"ms": 5, "steps": 5}}
		p.SetProgressToken("tok")
		if _, err = s.CallTool(ctx, p); err != nil {
			t.Fatal(err)
		}
		seen := 0
		testbin.Await(t, 5*time.Second, "all progress", func() bool {
			seen += steps()
			return seen == 5
		})
	}
	if got := text(t, call("call_tool", map[string]any{"name": "fx_echo", "arguments": map[string]any{"x": 1}})); got != `{"x":1}` {
		t.Errorf("call_tool: %s", got)
	}
	if r := call("web_browse", map[string]any{"uri": 5}); !r.IsError || !strings.Contains(text(t, r), "url") {
		t.Errorf("wrong arguments: %+v", r)
	}
	if _, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "nothing"}); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("unknown tool: %v", err)
	}
	prompts, err := s.ListPrompts(ctx, nil)
	if err != nil || len(prompts.Prompts) < 2 {
		t.Errorf("prompts: %v %v", prompts, err)
	}
	res, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "guide://web"})
	if err != nil || len(res.Contents) != 1 || res.Contents[0].Text == "" {
		t.Errorf("guide://web: %v %v", res, err)
	}
	var missing *jsonrpc.Error
	if _, err = s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "guide://nothing"}); !errors.As(err, &missing) || !strings.Contains(string(missing.Data), `"uri":"guide://nothing"`) {
		t.Errorf("a resource that is not there: %v %+v", err, missing)
	}
	// A cancelled call ends at the plugin too.
	callCtx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := s.CallTool(callCtx, &mcp.CallToolParams{Name: "fx_slow", Arguments: map[string]any{"ms": 60000}})
		done <- err
	}()
	testbin.Await(t, 10*time.Second, "the call to run", func() bool { return w.plugin("fx").InFlight == 1 })
	stop()
	<-done
	testbin.Await(t, 10*time.Second, "the call to end", func() bool { return w.plugin("fx").InFlight == 0 })
}

// A client that can be asked is asked, in the way of its era, and the call goes on.
func TestElicitation(t *testing.T) {
	for _, way := range transports {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(way.name+" "+version, func(t *testing.T) {
				w := newWorld(t, instance("fx", ""), "fixture")
				w.serve()
				s := way.connect(t, w, version, &mcp.ClientOptions{
					ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						if r.Params.Message != "What is your name?" {
							t.Errorf("asked: %s", r.Params.Message)
						}
						return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Grace"}}, nil
					}})
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "fx_ask", Arguments: map[string]any{"q": 1}})
				if err != nil {
					t.Fatal(err)
				}
				if got := text(t, r); !strings.Contains(got, "hello Grace, state kept") {
					t.Errorf("got %s", got)
				}
				if open := w.openQuestions(); len(open) != 0 {
					t.Errorf("still open: %+v", open)
				}
				// An approval never goes to the client of the agent that wants it.
				begin := time.Now()
				callCtx, stop := context.WithTimeout(ctx, 3*time.Second)
				defer stop()
				r, err = s.CallTool(callCtx, &mcp.CallToolParams{Name: "fx_guarded", Arguments: map[string]any{"name": "x"}})
				if err == nil && !strings.Contains(text(t, r), "waiting for approval") {
					t.Errorf("after %s: %s", time.Since(begin), text(t, r))
				}
				if open := w.openQuestions(); len(open) != 1 || open[0].Kind != "approval" {
					t.Errorf("open: %+v", open)
				}
			})
		}
	}
}

// Two clients of one host have sessions of their own.
func TestTwoClients(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, b := connect(t, w, "2025-11-25", nil), connect(t, w, "2026-07-28", nil)
	if _, err := a.CallTool(ctx, &mcp.CallToolParams{Name: "save_to_working_memory", Arguments: map[string]any{"key": "k", "data": "of a"}}); err != nil {
		t.Fatal(err)
	}
	r, err := b.CallTool(ctx, &mcp.CallToolParams{Name: "get_from_working_memory", Arguments: map[string]any{"key": "k"}})
	if err != nil || !r.IsError {
		t.Errorf("b read what a saved: %v %v", err, r)
	}
	r, err = a.CallTool(ctx, &mcp.CallToolParams{Name: "get_from_working_memory", Arguments: map[string]any{"key": "k"}})
	if err != nil || text(t, r) != "of a" {
		t.Errorf("a: %v %v", err, r)
	}
	// A long result comes in chunks that can all be read.
	r, err = a.CallTool(ctx, &mcp.CallToolParams{Name: "fx_long", Arguments: map[string]any{"chars": 200000}})
	if err != nil || !strings.Contains(text(t, r), "-index") || len(text(t, r)) > 8000 {
		t.Fatalf("long result: %v %.300s", err, text(t, r))
	}
	total := 0
	for i := range 100 {
		key := chunkKey(text(t, r), i)
		if key == "" {
			break
		}
		c, err := a.CallTool(ctx, &mcp.CallToolParams{Name: "get_from_working_memory", Arguments: map[string]any{"key": key}})
		if err != nil || c.IsError {
			t.Fatalf("%s: %v %v", key, err, c)
		}
		total += len(text(t, c))
	}
	if total < 199000 {
		t.Errorf("the chunks hold %d of 200000 characters", total)
	}
}

func chunkKey(reply string, n int) string {
	for line := range strings.Lines(reply) {
		for _, field := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("| `\n", r) }) {
			if strings.HasSuffix(field, fmt.Sprintf("-chunk%d", n)) {
				return field
			}
		}
	}
	return ""
}

// inspector runs the npm inspector's command line, a client nobody here wrote.
func inspector(t *testing.T, w *world, args ...string) string {
	t.Helper()
	root, err := filepath.Abs("../../../tools/npm/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	node, script := filepath.Join(root, "node/bin/node"), filepath.Join(root, "@modelcontextprotocol/inspector/clients/launcher/build/index.js")
	if _, err := os.Stat(node); err != nil {
		t.Skipf("the npm inspector is not installed: run `make tools` (%v)", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, append([]string{script, "--cli"}, args...)...)
	cmd.Dir = w.dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestInspector(t *testing.T) {
	w := newWorld(t, webBlock, "web")
	url := site(t)
	if out := inspector(t, w, bulkhead(t), "mcp", "--method", "tools/list"); !strings.Contains(out, `"web_browse"`) {
		t.Errorf("listed: %s", clip(out))
	}
	var result struct {
		Content []struct{ Text string }
	}
	out := inspector(t, w, bulkhead(t), "mcp", "--method", "tools/call", "--tool-name", "web_browse", "--tool-arg", "url="+url)
	if err := json.Unmarshal([]byte(out), &result); err != nil || len(result.Content) == 0 {
		t.Fatalf("%v: %s", err, clip(out))
	}
	browsed(t, url, result.Content[0].Text)
}
