package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// page is one client's page, and the settings it shows.
type clientPage struct {
	text   string
	blocks []gjson.Result
}

func readClientPage(t *testing.T, name string) clientPage {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "docs", "clients", name))
	if err != nil {
		t.Fatal(err)
	}
	p := clientPage{text: string(raw)}
	for _, m := range fence.FindAllStringSubmatch(p.text, -1) {
		if m[1] == "json" {
			if !json.Valid([]byte(m[3])) {
				t.Fatalf("%s: no JSON: %s", name, m[3])
			}
			p.blocks = append(p.blocks, gjson.Parse(m[3]))
		}
	}
	return p
}

// server is the settings of "bulkhead" that have a key, whatever stands around them.
func (p clientPage) server(t *testing.T, key string) gjson.Result {
	t.Helper()
	for _, b := range p.blocks {
		for _, around := range []string{"mcpServers", "servers"} {
			if s := b.Get(around + ".bulkhead"); s.Get(key).Exists() {
				return s
			}
		}
	}
	t.Fatalf("the page shows no server with %q", key)
	return gjson.Result{}
}

// command is a page's command for stdio, with the paths of this world.
func (p clientPage) command(t *testing.T, w *world) (string, []string) {
	t.Helper()
	s := p.server(t, "command")
	replace := strings.NewReplacer("/path/to/bin/bulkhead", bulkhead(t), "/path/to/config.hcl", filepath.Join(w.dir, "config.hcl"))
	var args []string
	for _, a := range s.Get("args").Array() {
		args = append(args, replace.Replace(a.Str))
	}
	return replace.Replace(s.Get("command").Str), args
}

// address is a page's URL and headers, with the address and the token of this world.
func (p clientPage) address(t *testing.T, w *world, token string) (string, map[string]string) {
	t.Helper()
	s := p.server(t, "url")
	header := map[string]string{}
	s.Get("headers").ForEach(func(k, v gjson.Result) bool {
		before, _, ok := strings.Cut(v.Str, "${")
		if !ok {
			t.Errorf("header %s holds a secret in clear: %s", k.Str, v.Str)
		}
		header[k.Str] = before + token
		return true
	})
	return strings.Replace(s.Get("url").Str, "http://127.0.0.1:7411", w.url(), 1), header
}

// The text of every page says which version the stand-in spoke and links lead on.
func TestClientPages(t *testing.T) {
	for name, version := range map[string]string{"claude-code.md": "2025-11-25", "claude-desktop.md": "2025-06-18", "cursor.md": "2025-06-18", "vscode.md": "2025-11-25"} {
		if p := readClientPage(t, name); !strings.Contains(p.text, "stand-in that speaks "+version) {
			t.Errorf("%s does not say that its stand-in speaks %s", name, version)
		}
	}
	list, err := filepath.Glob(root + "/docs/clients/*.md")
	if err != nil || len(list) != 5 {
		t.Fatalf("%d pages: %v", len(list), err)
	}
	for _, page := range list {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(raw), ""), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil && !strings.Contains(m[1], "://") {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

func TestClaudeDesktop(t *testing.T) {
	for name, running := range map[string]bool{"joins the running host": true, "runs a host of its own": false} {
		t.Run(name, func(t *testing.T) {
			w := newAPIWorld(t, instance("fx", ""), "fixture")
			if running {
				w.serve()
			}
			s := newStandIn(t)
			command, args := readClientPage(t, "claude-desktop.md").command(t, w)
			end := s.stdio(w, command, args)
			s.open("2025-06-18", `{}`, `{"name":"claude-ai","version":"0.1.0"}`)
			if tools := s.lists(); !contains(tools, "fx_echo", "call_tool") || contains(tools, "fx_rare") {
				t.Errorf("listed: %v", tools)
			}
			if got := s.call("fx_echo", `{"id":9223372036854775807}`); got != `{"id":9223372036854775807}` {
				t.Errorf("echoed %s", got)
			}
			// It takes the list once: what is not in it is called through call_tool.
			if got := s.call("call_tool", `{"name":"fx_rare","arguments":{}}`); strings.Contains(got, "BH") || got == "" {
				t.Errorf("on demand: %s", got)
			}
			// It can't elicit: the result names the question.
			if got := s.call("fx_ask", `{"q":1}`); !strings.Contains(got, "q_") || !strings.Contains(got, "call again with the same arguments") {
				t.Errorf("asked: %s", got)
			}
			if got := s.ask("prompts/get", `{"name":"guide-fx"}`); !strings.Contains(got.Raw, "Fixture") {
				t.Errorf("a guide as a prompt: %s", got.Raw)
			}
			if got := s.ask("resources/read", `{"uri":"guide://fx"}`); !strings.Contains(got.Raw, "Fixture") {
				t.Errorf("a guide as a resource: %s", got.Raw)
			}
			// The user stops an answer; the client says so and goes on.
			id, _ := s.start("tools/call", `{"name":"fx_slow","arguments":{"ms":60000},"_meta":{"progressToken":7}}`)
			s.writes.Wait()
			if running {
				testbin.Await(t, 10*time.Second, "the call to run", func() bool { return w.plugin("fx").InFlight == 1 })
			}
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"user"}}`, id))
			if running {
				testbin.Await(t, 10*time.Second, "the call to end", func() bool { return w.plugin("fx").InFlight == 0 })
			}
			if got := s.call("fx_echo", `{"after":true}`); got != `{"after":true}` {
				t.Errorf("after the cancel: %s", got)
			}
			end()
		})
	}
}

func contains(list []string, names ...string) bool {
	for _, n := range names {
		found := false
		for _, l := range list {
			found = found || l == n
		}
		if !found {
			return false
		}
	}
	return true
}

func TestClaudeCode(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	page := readClientPage(t, "claude-code.md")
	me := `{"name":"claude-code","title":"Claude Code","version":"2.1.76"}`
	eliciting := `{"roots":{},"elicitation":{"form":{}}}`
	session := func(t *testing.T, s *standIn) {
		t.Helper()
		s.answers["elicitation/create"] = func(p gjson.Result) string {
			if p.Get("message").Str != "What is your name?" {
				t.Errorf("asked %s", p.Raw)
			}
			return `{"action":"accept","content":{"name":"Grace"}}`
		}
		tools := s.lists()
		if !contains(tools, "fx_echo", "call_tool") {
			t.Errorf("listed: %v", tools)
		}
		if got := s.call("fx_ask", `{"q":1}`); !strings.Contains(got, "hello Grace") {
			t.Errorf("asked: %s", got)
		}
		// This one keeps its first list: what was activated is told in the result.
		if got := s.call("fx_activate", `{}`); !strings.Contains(got, "call_tool") && !strings.Contains(got, "fx_rare") {
			t.Errorf("activated: %s", got)
		}
		if got := s.call("call_tool", `{"name":"fx_rare","arguments":{}}`); strings.Contains(got, "BH") || got == "" {
			t.Errorf("on demand: %s", got)
		}
		if r := s.ask("ping", ""); !r.Exists() {
			t.Error("no answer to a ping")
		}
		// An approval is never put to the client that wants it.
		if got := s.call("fx_guarded", `{"name":"Ada"}`); !strings.Contains(got, "waiting for approval") {
			t.Errorf("guarded: %s", got)
		}
		if s.asked["elicitation/create"] != 1 {
			t.Errorf("asked %d times", s.asked["elicitation/create"])
		}
	}
	t.Run("HTTP", func(t *testing.T) {
		url, header := page.address(t, w, "secret-token-of-ann")
		s := newStandIn(t)
		h := s.http(url, header, "2025-11-25")
		s.open("2025-11-25", eliciting, me)
		code, end := h.listen()
		if code != 200 {
			t.Fatalf("the stream of notifications: %d", code)
		}
		session(t, s)
		testbin.Await(t, 10*time.Second, "list_changed", func() bool { return s.heard("notifications/tools/list_changed") > 0 })
		end()
		if resp := h.request(context.Background(), http.MethodDelete, ""); resp == nil || resp.StatusCode >= 300 {
			t.Errorf("the end of a session: %v", resp)
		}
		if code, _ := h.post(`{"jsonrpc":"2.0","id":99,"method":"ping"}`); code != 404 {
			t.Errorf("after its end: %d", code)
		}
	})
	t.Run("stdio", func(t *testing.T) {
		s := newStandIn(t)
		command, args := page.command(t, w)
		end := s.stdio(w, command, args)
		s.open("2025-11-25", eliciting, me)
		session(t, s)
		if s.heard("notifications/tools/list_changed") == 0 {
			t.Error("nothing said that the list changed")
		}
		end()
	})
	// Releases that open with 2024-11-05, and then say another version, or none.
	for _, later := range []string{"2024-11-05", "2025-11-25", ""} {
		t.Run("2024-11-05 then "+later, func(t *testing.T) {
			url, header := page.address(t, w, "secret-token-of-ann")
			s := newStandIn(t)
			s.http(url, header, later)
			s.open("2024-11-05", `{"roots":{}}`, `{"name":"claude-code","version":"2.0.10"}`)
			if tools := s.lists(); !contains(tools, "fx_echo") {
				t.Errorf("listed: %v", tools)
			}
			if got := s.call("fx_echo", `{"a":1}`); got != `{"a":1}` {
				t.Errorf("echoed %s", got)
			}
		})
	}
}

func TestCursor(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	page := readClientPage(t, "cursor.md")
	me, capabilities := `{"name":"cursor-vscode","version":"1.0.0"}`, `{"tools":true,"prompts":true,"resources":true,"logging":false,"elicitation":{"form":{}},"roots":{"listChanged":false}}`
	url, header := page.address(t, w, "secret-token-of-ann")
	s := newStandIn(t)
	h := s.http(url, header, "2025-06-18")
	s.answers["elicitation/create"] = func(gjson.Result) string { return `{"action":"decline"}` }

	// Before it has a session, and when the POST was no success, it tries a GET.
	if code, end := h.listen(); code != 405 {
		t.Errorf("GET without a session: %d", code)
	} else {
		end()
	}
	s.open("2025-06-18", capabilities, me)
	code, end := h.listen()
	if code != 200 {
		t.Fatalf("GET with a session: %d", code)
	}
	defer end()
	if tools := s.lists(); !contains(tools, "fx_echo") || contains(tools, "fx_rare") {
		t.Errorf("listed: %v", tools)
	}
	s.call("fx_activate", `{}`)
	testbin.Await(t, 10*time.Second, "list_changed", func() bool { return s.heard("notifications/tools/list_changed") > 0 })
	if tools := s.lists(); !contains(tools, "fx_rare") { // this one takes it up
		t.Errorf("listed anew: %v", tools)
	}
	if got := s.call("fx_rare", `{}`); strings.Contains(got, "BH") || got == "" {
		t.Errorf("activated: %s", got)
	}
	if got := s.call("fx_ask", `{"q":2}`); strings.Contains(got, "hello") || s.asked["elicitation/create"] != 1 {
		t.Errorf("declined: %s", got)
	}

	// Without a token: 401, then it looks for OAuth and for the older transport.
	bare := asker{t: t, url: w.url(), token: "wrong"}
	if a := bare.do("POST", "/mcp", `{"method":"initialize","jsonrpc":"2.0","id":0,"params":{}}`, "Accept", "application/json, text/event-stream", "Content-Type", "application/json"); a.code != 401 || a.header.Get("WWW-Authenticate") == "" {
		t.Errorf("a wrong token: %d %v", a.code, a.header)
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server",
		"/.well-known/openid-configuration", "/sse", "/mcp/sse"} {
		if a := bare.do("GET", path, "", "Accept", "text/event-stream"); a.code != 404 || !json.Valid([]byte(a.body)) {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	if a := bare.do("POST", "/register", `{}`); a.code != 404 || !json.Valid([]byte(a.body)) {
		t.Errorf("/register: %d %s", a.code, a.body)
	}
	command, args := page.command(t, w)
	local := newStandIn(t)
	stop := local.stdio(w, command, args)
	local.open("2025-06-18", capabilities, me)
	if tools := local.lists(); !contains(tools, "fx_echo") {
		t.Errorf("on stdio: %v", tools)
	}
	stop()
}

func TestVSCode(t *testing.T) {
	w := newAPIWorld(t, instance("fx", "")+fileInstance("ff", ""), "fixture")
	w.installFileFixture()
	w.serve()
	page := readClientPage(t, "vscode.md")
	if !page.blocks[0].Get("inputs.0.password").Bool() || page.server(t, "url").Get("type").Str != "http" || page.server(t, "command").Get("type").Str != "stdio" {
		t.Error("the page's settings lack what the client insists on")
	}
	me, capabilities := `{"name":"Visual Studio Code","version":"1.132.0"}`, `{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}`
	url, header := page.address(t, w, "secret-token-of-ann")
	s := newStandIn(t)
	h := s.http(url, header, "2025-11-25")
	s.answers["elicitation/create"] = func(gjson.Result) string { return `{"action":"accept","content":{"name":"Ada"}}` }
	s.answers["sampling/createMessage"] = func(p gjson.Result) string {
		if p.Get("messages.0.content.text").Str != "What is a bulkhead?" || p.Get("maxTokens").Int() != 100 {
			t.Errorf("sampling: %s", p.Raw)
		}
		return `{"role":"assistant","content":{"type":"text","text":"A wall in a ship."},"model":"a-model","stopReason":"endTurn"}`
	}
	s.open("2025-11-25", capabilities, me)
	code, end := h.listen()
	if code != 200 {
		t.Fatalf("GET with a session: %d", code)
	}
	if tools := s.lists(); !contains(tools, "fx_echo", "ff_think") {
		t.Errorf("listed: %v", tools)
	}
	if got := s.call("fx_ask", `{"q":1}`); !strings.Contains(got, "hello Ada") {
		t.Errorf("elicited: %s", got)
	}
	if got := s.call("ff_think", `{}`); !strings.Contains(got, "A wall in a ship.") {
		t.Errorf("sampled: %s", got)
	}
	// The stream breaks; it is opened again, and a plugin that comes is told on it.
	end()
	if code, end = h.listen(); code != 200 {
		t.Fatalf("GET again: %d", code)
	}
	defer end()
	before := s.heard("notifications/tools/list_changed")
	w.write("config.hcl", w.config()+instance("late", ""))
	testbin.Await(t, 30*time.Second, "the plugin to be told", func() bool { return s.heard("notifications/tools/list_changed") > before })
	testbin.Await(t, 30*time.Second, "its tools", func() bool { return contains(s.lists(), "late_echo") })
	if got := s.call("late_echo", `{"x":1}`); got != `{"x":1}` {
		t.Errorf("the new tool: %s", got)
	}
	// A log level, a completion and a subscription, as its menus ask for them.
	s.ask("logging/setLevel", `{"level":"debug"}`)
	s.ask("resources/subscribe", `{"uri":"guide://fx"}`)
	s.ask("completion/complete", `{"ref":{"type":"ref/prompt","name":"fx"},"argument":{"name":"x","value":"y"}}`)

	command, args := page.command(t, w)
	local := newStandIn(t)
	stop := local.stdio(w, command, args)
	local.open("2025-11-25", capabilities, me)
	if tools := local.lists(); !contains(tools, "fx_echo") {
		t.Errorf("on stdio: %v", tools)
	}
	stop()
}

// The program of the page, as it stands.
func TestOwnAgent(t *testing.T) {
	w := newAPIWorld(t, "agent \"assistant\" {\n  token = secret(\"assistant\")\n}\n"+instance("fx", ""), "fixture")
	w.secret("assistant", "secret-token-of-assistant")
	w.serve()
	program := ""
	for _, m := range fence.FindAllStringSubmatch(readClientPage(t, "own-agent.md").text, -1) {
		if m[1] == "go" {
			program = m[3]
		}
	}
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", source)
	cmd.Env = append(os.Environ(), "BULKHEAD_URL="+w.url(), "BULKHEAD_TOKEN=secret-token-of-assistant", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "200 false Saved 21 bytes under ") {
		t.Errorf("%v: %s", err, out)
	}
	assistant := asker{t: t, url: w.url(), token: "secret-token-of-assistant"}
	if got := assistant.call("get_from_working_memory", `{"key":"wish"}`, "Bulkhead-Session", "chat-1"); !strings.Contains(got.body, "Book a table for two.") {
		t.Errorf("what it saved: %s", got.body)
	}
}
