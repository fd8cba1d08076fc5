package e2e

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/client"
	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
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

// Other clients, by other hands, list and call over HTTP.
func TestHTTPClients(t *testing.T) {
	w := newWorld(t, webBlock+instance("fx", ""), "web", "fixture")
	w.serve()
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

// A session belongs to its agent; tokens tell agents apart.
func TestHTTPAgents(t *testing.T) {
	w := newWorld(t, instance("fx", "")+"agent \"a\" {\n  token = secret(\"a\")\n}\nagent \"b\" {\n  token = secret(\"b\")\n  deny  = [\"fx_*\"]\n}\n", "fixture")
	w.mkdir("data/secrets")
	for _, n := range []string{"a", "b"} {
		w.secret(n, "secret-token-of-"+n)
	}
	w.serve()
	post := func(token, session, body string) (int, string) { return w.post("/mcp", token, session, body) }
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	code, _ := post("wrong", "", initialize)
	if code != 401 {
		t.Errorf("a wrong token: %d", code)
	}
	id := w.initialize("/mcp", "secret-token-of-a")
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if code, body := post("secret-token-of-a", id, list); code != 200 || !strings.Contains(body, "fx_echo") {
		t.Errorf("a lists: %d %s", code, clip(body))
	}
	if code, body := post("secret-token-of-b", id, list); code != 404 {
		t.Errorf("b in a's session: %d %s", code, clip(body))
	}
	if code, body := post("", id, list); code != 404 {
		t.Errorf("nobody in a's session: %d %s", code, clip(body))
	}
	other := w.initialize("/mcp", "secret-token-of-b")
	if code, body := post("secret-token-of-b", other, list); code != 200 || strings.Contains(body, "fx_echo") {
		t.Errorf("b lists: %d %s", code, clip(body))
	}
	call := `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fx_echo","arguments":{}}}`
	if code, body := post("secret-token-of-b", other, call); code != 200 || !strings.Contains(body, "BH5001") {
		t.Errorf("b calls: %d %s", code, clip(body))
	}
	if code, body := post("secret-token-of-a", "made-up", call); code != 404 {
		t.Errorf("a made-up session: %d %s", code, clip(body))
	}
}
