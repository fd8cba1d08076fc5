package e2e

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/client"
	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// url is where the host's HTTP door listens.
func (w *world) url() string {
	w.t.Helper()
	s, err := w.statusOf()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range s.Host.Doors {
		if u := address.FindString(d); u != "" {
			return u
		}
	}
	w.t.Fatalf("no HTTP door in %v", s.Host.Doors)
	return ""
}

// connectHTTP is the official Go SDK's client over HTTP.
func connectHTTP(t *testing.T, url, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	client := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, opts)
	s, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestHTTPClients(t *testing.T) {
	w := newWorld(t, webBlock+instance("fx", ""), "web", "fixture")
	w.serve()
	for _, version := range []string{"2025-03-26", "2025-11-25", "2026-07-28"} {
		t.Run("go-sdk "+version, func(t *testing.T) {
			site := site(t)
			var mu sync.Mutex
			var steps []float64
			s := connectHTTP(t, w.url()+"/mcp", version, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					mu.Lock()
					defer mu.Unlock()
					steps = append(steps, r.Params.Progress)
				}})
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if got := s.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("negotiated %s", got)
			}
			list, err := s.ListTools(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			if !slices.Contains(names, "web_browse") || slices.Contains(names, "_") || slices.Contains(names, "fx_hidden") || !slices.IsSorted(names) {
				t.Errorf("listed: %v", names)
			}
			r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "web_browse", Arguments: map[string]any{"url": site}})
			if err != nil {
				t.Fatal(err)
			}
			browsed(t, site, text(t, r))
			sent := `{"id":9223372036854775807,"z":{"b":1,"a":2.50},"unknown":null}`
			r, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "fx_echo", Arguments: json.RawMessage(sent)})
			if err != nil || text(t, r) != sent {
				t.Errorf("echoed %v (%v), sent %s", r, err, sent)
			}
			// Progress is never lost before the result.
			for range 20 {
				mu.Lock()
				steps = nil
				mu.Unlock()
				p := &mcp.CallToolParams{Name: "fx_slow", Arguments: map[string]any{"ms": 5, "steps": 5}}
				p.SetProgressToken("tok")
				if _, err = s.CallTool(ctx, p); err != nil {
					t.Fatal(err)
				}
				testbin.Await(t, 5*time.Second, "all progress", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(steps) == 5
				})
			}
			if _, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "nothing"}); err == nil || !strings.Contains(err.Error(), "nothing") {
				t.Errorf("unknown tool: %v", err)
			}
			res, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "guide://web"})
			if err != nil || len(res.Contents) != 1 || res.Contents[0].Text == "" {
				t.Errorf("guide://web: %v %v", res, err)
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
		})
	}
	t.Run("mcp-go", func(t *testing.T) {
		c, err := mcpgo.NewStreamableHttpClient(w.url() + "/mcp")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var init mcpgomcp.InitializeRequest
		init.Params.ProtocolVersion = mcpgomcp.LATEST_PROTOCOL_VERSION
		init.Params.ClientInfo = mcpgomcp.Implementation{Name: "tester", Version: "1"}
		if _, err := c.Initialize(ctx, init); err != nil {
			t.Fatal(err)
		}
		list, err := c.ListTools(ctx, mcpgomcp.ListToolsRequest{})
		if err != nil || len(list.Tools) < 10 {
			t.Fatalf("listed %v (%v)", list, err)
		}
		var call mcpgomcp.CallToolRequest
		call.Params.Name, call.Params.Arguments = "fx_echo", map[string]any{"x": 1}
		r, err := c.CallTool(ctx, call)
		if err != nil || r.IsError || len(r.Content) != 1 {
			t.Errorf("called: %v (%v)", r, err)
		}
	})
	t.Run("inspector", func(t *testing.T) {
		out := inspector(t, w, "--transport", "http", w.url()+"/mcp", "--method", "tools/list")
		if !strings.Contains(out, `"web_browse"`) {
			t.Errorf("listed: %s", clip(out))
		}
		site := site(t)
		out = inspector(t, w, "--transport", "http", w.url()+"/mcp", "--method", "tools/call", "--tool-name", "web_browse", "--tool-arg", "url="+site)
		var result struct {
			Content []struct{ Text string }
		}
		if err := json.Unmarshal([]byte(out), &result); err != nil || len(result.Content) == 0 {
			t.Fatalf("%v: %s", err, clip(out))
		}
		browsed(t, site, result.Content[0].Text)
	})
}

func TestHTTPElicitation(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t, instance("fx", ""), "fixture")
			w.serve()
			s := connectHTTP(t, w.url()+"/mcp", version, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
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
		})
	}
}

// A session belongs to its agent; tokens tell agents apart.
func TestHTTPAgents(t *testing.T) {
	w := newWorld(t, instance("fx", "")+"agent \"a\" {\n  token = secret(\"a\")\n}\nagent \"b\" {\n  token = secret(\"b\")\n  deny  = [\"fx_*\"]\n}\n", "fixture")
	w.mkdir("data/secrets")
	for _, n := range []string{"a", "b"} {
		w.secret(n, "token-of-"+n)
	}
	w.serve()
	post := func(token, session, body string) (int, string) { return w.post("/mcp", token, session, body) }
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	code, _ := post("wrong", "", initialize)
	if code != 401 {
		t.Errorf("a wrong token: %d", code)
	}
	id := w.initialize("/mcp", "token-of-a")
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if code, body := post("token-of-a", id, list); code != 200 || !strings.Contains(body, "fx_echo") {
		t.Errorf("a lists: %d %s", code, clip(body))
	}
	if code, body := post("token-of-b", id, list); code != 404 {
		t.Errorf("b in a's session: %d %s", code, clip(body))
	}
	if code, body := post("", id, list); code != 404 {
		t.Errorf("nobody in a's session: %d %s", code, clip(body))
	}
	other := w.initialize("/mcp", "token-of-b")
	if code, body := post("token-of-b", other, list); code != 200 || strings.Contains(body, "fx_echo") {
		t.Errorf("b lists: %d %s", code, clip(body))
	}
	call := `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fx_echo","arguments":{}}}`
	if code, body := post("token-of-b", other, call); code != 200 || !strings.Contains(body, "BH5001") {
		t.Errorf("b calls: %d %s", code, clip(body))
	}
	if code, body := post("token-of-a", "made-up", call); code != 404 {
		t.Errorf("a made-up session: %d %s", code, clip(body))
	}
}
