package bridge

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// aliasOf is the name under which a server's tool is offered now.
func aliasOf(t *testing.T, b *Bridge, server, tool string) string {
	t.Helper()
	s, err := b.find(server)
	if err != nil {
		t.Fatal(err)
	}
	e, ok := s.last().tool(tool)
	if !ok {
		t.Fatalf("%s has no %s", server, tool)
	}
	return e.typed
}

// Two servers with bare names have tools of one name: the first in the settings has
// it, however long it takes to start, and a call by server and tool never leaves the
// server it names.
func TestBareNamesThatClash(t *testing.T) {
	first, second := bad(t, "first", "init=700ms"), bad(t, "second")
	first["naming"], second["naming"] = "bare", "bare"
	b := newBridge()
	s := ending(t, startBridge(t, b, first, second))
	badtest.Await(t, "both servers", func() bool {
		all := services(t, s)
		return all["first"].State == stateReady && all["second"].State == stateReady
	})
	other := aliasOf(t, b, "second", "log")
	if one := aliasOf(t, b, "first", "log"); one != "log" || !strings.HasPrefix(other, "log-") || !hasTool(s, "log") || !hasTool(s, other) {
		t.Fatalf("the names are %q and %q of %q", one, other, s.ToolNames())
	}
	if slices.Contains(s.ToolNames(), "mcp_list_services-") {
		t.Error(s.ToolNames())
	}
	if one, two := s.Call("log", "{}").Text, s.Call(other, "{}").Text; !strings.Contains(one, "init=700ms") || strings.Contains(two, "init=700ms") {
		t.Errorf("the names lead to %s and %s", one, two)
	}
	called := ""
	for _, name := range []string{"log", other} {
		s.Host.Tool(name, func(json.RawMessage) (sdk.Result, error) { called = name; return sdk.TextResult("ran"), nil })
	}
	for server, want := range map[string]string{"first": "log", "second": other} {
		s.Call("mcp_invoke_tool", args("server_name", server, "tool_name", "log")).WantText("ran")
		if called != want {
			t.Errorf("%s: %s was called, not %s", server, called, want)
		}
	}
	// The first goes: the second has the name. A change of another key is taken.
	if got := s.Configure(conf{"wrapper_mode": "eager", "server": []conf{second}}.String()); got != "reconfigured" {
		t.Fatal(got)
	}
	if name := aliasOf(t, b, "second", "log"); name != "log" {
		t.Errorf("the name is free, and the tool is %q", name)
	}
}

// A bare name that another plugin has: nothing of it runs, and the tool is offered
// and called under a name of its own.
func TestABareNameOfAnotherPlugin(t *testing.T) {
	c := bad(t, "bad")
	c["naming"] = "bare"
	for _, way := range []string{"mcp_invoke_tool", "mcp_find_tools", "mcp_get_service_details"} {
		b := newBridge()
		s := ending(t, startBridge(t, b, c))
		awaitTool(t, s, "echo")
		s.Host.Foreign("echo")
		s.Host.Tool("echo", func(json.RawMessage) (sdk.Result, error) {
			t.Error("another plugin's tool ran")
			return sdk.Result{}, nil
		})
		alias := ""
		switch way {
		case "mcp_invoke_tool":
			s.Call(way, args("server_name", "bad", "tool_name", "echo")).WantError("denied", "no grant") // of the fake host, for the alias
		case "mcp_find_tools":
			s.Call(way, args("query", "echo")).WantText(`"name":"echo-`)
		default:
			s.Call(way, args("server_name", "bad")).WantText(`"typedName":"echo-`)
		}
		alias = aliasOf(t, b, "bad", "echo")
		if !strings.HasPrefix(alias, "echo-") || hasTool(s, "echo") {
			t.Fatalf("%s: %q of %q", way, alias, s.ToolNames())
		}
		s.Call(alias, `{"n":1}`).WantText(`echo {"n":1}`)
	}
}

// The bridge's own names are never a server's, whenever they come to be offered.
func TestBareNamesOfTheBridge(t *testing.T) {
	c := bad(t, "bad", "own-names")
	c["naming"] = "bare"
	b := newBridge()
	s := ending(t, startBridge(t, b, c))
	awaitTool(t, s, "echo")
	if name := aliasOf(t, b, "bad", "mcp_answer"); !strings.HasPrefix(name, "mcp_answer-") {
		t.Errorf("the server's is %q", name)
	}
	c["elicitation"] = conf{"mode": "handback"}
	if got := s.Configure(conf{"wrapper_mode": "lazy", "server": []conf{c}}.String()); got != "reconfigured" {
		t.Fatal(got)
	}
	awaitTool(t, s, "mcp_answer")
	s.Call("mcp_answer", `{}`).WantError("invalid_arguments", "question_id")
}
