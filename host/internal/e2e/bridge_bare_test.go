//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With bare names a server has a tool that is called like one of the host's own, and
// another like one of the bridge's: a call by server and tool reaches the server's, and
// a reload of the settings is taken.
func TestBareNamesOfOthers(t *testing.T) {
	w, _ := newBridge(t, "    server \"bad\" {\n      command = [BAD, \"own-names\"]\n      naming = \"bare\"\n    }\n")
	w.serve()
	w.awaitTool("echo")
	for _, tool := range []string{"call_tool", "mcp_list_services", "mcp_answer"} {
		out := w.ok("call", "mcp_invoke_tool", `{"server_name":"bad","tool_name":"`+tool+`","arguments":{"name":"mcp_find_tools","arguments":{"query":"x"}}}`)
		if !strings.Contains(out, tool+` {`) || !strings.Contains(out, "mcp_find_tools") {
			t.Errorf("%s: %s", tool, out)
		}
	}
	if out := w.ok("call", "mcp_get_service_details", `{"server_name":"bad","tool_name":"call_tool"}`); !strings.Contains(out, "call_tool-") {
		t.Error(out)
	}
	text, err := os.ReadFile(filepath.Join(w.dir, "config.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("config.hcl", strings.Replace(string(text), "naming = \"bare\"", "naming = \"bare\"\n      elicitation {\n        mode = \"handback\"\n      }", 1))
	w.ok("reload")
	w.awaitTool("mcp_answer")
}
