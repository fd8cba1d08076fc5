package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// What broke other gateways, through a whole host; the other cases are named at
// their tests.

// C2 and C3: schemas are listed as they were sent; those that can't be used become
// ones that can, the server stays, and the status names the tool. C21: the list is
// the same each time.
func TestCasesOfSchemas(t *testing.T) {
	w, _ := newBridge(t, "    wrapper_mode = \"eager\"\n    server \"bad\" {\n      command = [BAD, \"odd\"]\n    }\n")
	w.serve()
	w.awaitTool("bad__rich")
	id := w.initialize("/mcp", "")
	list := func() string {
		_, body := w.post("/mcp", "", id, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
		return body
	}
	body := list()
	for _, want := range []string{
		`"inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","x-vendor":{"b":1,"a":[2]},"anyOf":[{"required":["a"]},{"required":["b"]}],"definitions":{"q":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/q"},"b":{"type":"integer","maximum":9223372036854775807}}}`,
		`"outputSchema":{"type":"object","oneOf":[{"required":["id"]}],"properties":{"id":{"type":"integer"}}}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is lost", want)
		}
	}
	_, data, _ := strings.Cut(body, "{")
	data, _, _ = strings.Cut("{"+data, "\n")
	var l struct {
		Result struct {
			Tools []struct {
				Name        string
				InputSchema map[string]json.RawMessage
			}
		}
	}
	if err := json.Unmarshal([]byte(data), &l); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, tool := range l.Result.Tools {
		for _, leaf := range []string{"null-schema", "no-schema", "null-properties", "no-type", "array-schema"} {
			if tool.Name == "bad__"+leaf {
				found++
				if string(tool.InputSchema["type"]) != `"object"` || string(tool.InputSchema["properties"]) == "null" {
					t.Errorf("%s: %v", tool.Name, tool.InputSchema)
				}
				if r := w.ok("call", tool.Name, "{}", "--json"); r == "" {
					t.Error("no answer")
				}
			}
		}
	}
	if found != 5 {
		t.Errorf("%d of 5 tools with odd schemas are listed", found)
	}
	if out := w.ok("call", "mcp_list_services"); !strings.Contains(out, "null-schema") {
		t.Errorf("the status does not name the tool: %s", out)
	}
	for range 5 {
		if again := list(); again != body {
			t.Error("the list differs from the one before")
		}
	}
}

// C15: one rule for ${…} wherever a server block has texts.
func TestCasesOfVariables(t *testing.T) {
	for _, c := range []struct{ block, want string }{
		{`url = "https://x.example/${TOKEN}"`, "env("}, {`url = "https://x.example/${env:TOKEN}"`, "config.hcl:"}, {`url = "https://x.example/${TOKEN:-d}"`, "config.hcl:"},
		{`command = ["x", "${TOKEN}"]`, "env("}, {"command = [\"x\"]\n      env = { A = \"${TOKEN}\" }", "env("}, {"url = \"https://x.example/\"\n      headers = { A = \"${TOKEN}\" }", "env("},
		{`url = env("NOT_SET_ANYWHERE")`, "NOT_SET_ANYWHERE"},
	} {
		w, _ := newBridge(t, "    server \"x\" {\n      "+c.block+"\n    }\n")
		w.fails(1, []string{"config.hcl:", c.want}, "check")
	}
	// C18 as well: backslashes, spaces and shares reach a program as they are.
	w, _ := newBridge(t, `    server "bad" {
      command = [BAD, "$${TOKEN}", "C:\\Users\\A B\\x.js", "\\\\srv\\share\\x"]
    }
`)
	w.serve()
	w.awaitTool("bad__log")
	out := w.ok("call", "bad__log")
	for _, want := range []string{`"${TOKEN}"`, `"C:\\Users\\A B\\x.js"`, `"\\\\srv\\share\\x"`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is lost: %s", want, out)
		}
	}
}

// C17: what only looks like a secret passes.
func TestCasesOfLooks(t *testing.T) {
	w, _ := newBridge(t, "    server \"bad\" {\n      command = [BAD]\n    }\n")
	w.serve()
	w.awaitTool("bad__echo")
	for _, text := range []string{"da39a3ee5e6b4b0d3255bfef95601890afd80709", "https://github.com/o/r/issues/17#issuecomment-1234567890123456", "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw"} {
		if out := w.ok("call", "bad__echo", `{"x":"`+text+`"}`); strings.Count(out, text) < 1 || strings.Contains(out, "redacted") {
			t.Error(out)
		}
	}
}

// C19: the bridge's own tools are what every model API takes.
func TestCasesOfOwnSchemas(t *testing.T) {
	w, _ := newBridge(t, "")
	w.serve()
	w.awaitTool("mcp_find_tools")
	own := 0
	for _, name := range []string{"mcp_list_services", "mcp_find_tools", "mcp_get_service_details", "mcp_invoke_tool", "mcp_list_resources", "mcp_read_resource", "mcp_get_prompt",
		"mcp_register_server", "mcp_unregister_server", "search_known_services"} {
		var tool struct {
			InputSchema json.RawMessage `json:"input_schema"`
		}
		if err := json.Unmarshal([]byte(w.ok("tools", name, "--json")), &tool); err != nil || len(tool.InputSchema) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		own++
		for _, f := range strict(name, tool.InputSchema, true) {
			// Arguments of a server's tool are whatever that tool takes.
			if f != name+".arguments: an object without properties" {
				t.Error(f)
			}
		}
	}
	if own != 10 {
		t.Errorf("%d tools", own)
	}
}

// C22: a client's first requests come before servers are there: it gets what is
// ready, is told of the rest, and a call waits for its server.
func TestCasesOfEarlyClients(t *testing.T) {
	w, _ := newBridge(t, "    wrapper_mode = \"eager\"\n    server \"slow\" {\n      command = [BAD, \"init=2s\"]\n    }\n    server \"good\" {\n      command = [BAD, \"good\"]\n    }\n")
	w.serve()
	changed := make(chan struct{}, 100)
	s := connect(t, w, "2025-11-25", &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	has := func(name string) bool {
		l, err := s.ListTools(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range l.Tools {
			if tool.Name == name {
				return true
			}
		}
		return false
	}
	for !has("slow__echo") {
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("the client was not told of the slow server's tools")
		}
	}
	w.stop()
	w.serve()
	// Now the bridge knows what both have, and a call waits for the server.
	r, err := w.caller()(ctx, "slow__echo", `{"n":1}`)
	if err != nil || r.IsError {
		t.Errorf("%v %s", err, fmt.Sprint(r.Error))
	}
	testbin.Await(t, 30*time.Second, "the other server", func() bool { r, err := w.caller()(ctx, "good__echo", "{}"); return err == nil && !r.IsError })
}
