package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// workerProcesses gives the workers below a process.
func workerProcesses(t *testing.T, root int) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		raw, err := os.ReadFile(p)
		if err != nil || !strings.HasPrefix(string(raw), "bulkhead-mcp-worker\x00") {
			continue
		}
		var pid int
		if _, err := fmt.Sscan(filepath.Base(filepath.Dir(p)), &pid); err == nil && descends(pid, root) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func descends(pid, root int) bool {
	for pid > 1 {
		if pid == root {
			return true
		}
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		f := strings.Fields(rest)
		if len(f) < 2 {
			return false
		}
		if _, err := fmt.Sscan(f[1], &pid); err != nil {
			return false
		}
	}
	return false
}

// A worker killed in the middle of a call: one clear error, the next call is
// answered, other servers and the bridge notice nothing; and when the host is
// killed no worker is left.
func TestBridgeWorkerKilled(t *testing.T) {
	w, mark := newBridge(t, "    server \"alone\" {\n      command   = [BAD]\n      isolation = \"server\"\n    }\n    server \"other\" {\n      command = [BAD, \"other\"]\n    }\n")
	w.serve()
	w.awaitTool("alone__sleep")
	w.awaitTool("other__echo")
	call := w.caller()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	bridge := w.plugin("mcp").PID
	for round := range 3 {
		lost := make(chan string, 1)
		go func() {
			r, err := call(ctx, "alone__sleep", `{"ms":60000}`)
			if err != nil || r.Error == nil {
				lost <- fmt.Sprint(err, r)
				return
			}
			lost <- r.Error.Code + ": " + r.Error.Message
		}()
		testbin.Await(t, 10*time.Second, "the call to run", func() bool { return w.plugin("mcp").InFlight == 1 })
		workers := workerProcesses(t, bridge)
		if len(workers) != 1 {
			t.Fatalf("round %d: workers %v", round, workers)
		}
		if err := syscall.Kill(workers[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if got := <-lost; !strings.HasPrefix(got, "execution_failed: ") || !strings.Contains(got, `"alone"`) || !strings.Contains(got, "worker") {
			t.Errorf("round %d: the call in flight got %s", round, got)
		}
		begin := time.Now()
		r, err := call(ctx, "alone__echo", `{"n":1}`)
		if err != nil || r.IsError {
			t.Errorf("round %d: %v %+v", round, err, r.Error)
		}
		if d := time.Since(begin); d > 20*time.Second {
			t.Errorf("round %d: the next call took %s", round, d)
		}
		if r, err := call(ctx, "other__echo", `{}`); err != nil || r.IsError {
			t.Errorf("round %d: the other server: %v %+v", round, err, r.Error)
		}
		testbin.Await(t, 10*time.Second, "the end of what was replaced", func() bool { return len(workerProcesses(t, bridge)) == 1 })
	}
	if p := w.plugin("mcp"); p.Restarts != 0 || p.PID != bridge {
		t.Error("the bridge was restarted")
	}
	worker := workerProcesses(t, bridge)[0]
	w.kill()
	testbin.Await(t, 15*time.Second, "the end of all processes", func() bool {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", worker))
		return (err != nil || len(raw) == 0) && len(marked(t, mark)) == 0
	})
}

// What an mcp.json says holds in a real host: variables come from the plugin's env
// alone, an edit acts while it runs, guards and faults are told.
func TestBridgeMCPJSON(t *testing.T) {
	t.Setenv("MCP_SECRET_OF_HOST", "x")
	w, _ := newBridge(t, "    mcp_json = \"mcp.json\"\n")
	bad := testbin.Build(t, module+"plugins/mcp/testdata/badserver")
	config, err := os.ReadFile(filepath.Join(w.dir, "config.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("config.hcl", strings.Replace(string(config), "plugin \"mcp\" {\n", "plugin \"mcp\" {\n  env = { MODE = \"banner\" }\n", 1))
	entries := func(more string) string {
		return fmt.Sprintf(`{"mcpServers":{"good":{"command":%q,"args":["${MODE}"],"argGuards":[{"handler":"path-prefix","tools":["echo"],"options":{"args":["dir"],"allowedPrefixes":["/shared"]}}]},
			"leaky":{"url":"https://x.example/${MCP_SECRET_OF_HOST}"}%s}}`, bad, more)
	}
	w.write("mcp.json", entries(""))
	w.serve()
	w.awaitTool("good__echo")
	out := w.ok("call", "mcp_list_services")
	if !strings.Contains(out, "${MCP_SECRET_OF_HOST} is not set") || !strings.Contains(out, "no messages, the first") {
		t.Error(out)
	}
	w.fails(1, []string{"arg_guard path-prefix", `"dir" is "/tmp"`, "/shared"}, "call", "good__echo", `{"dir":"/tmp"}`)
	w.fails(1, []string{"arg_guard path-prefix"}, "call", "mcp_invoke_tool", `{"server_name":"good","tool_name":"echo","arguments":{"dir":"/shared/../tmp"}}`)
	w.fails(1, []string{"arg_guard path-prefix"}, "call", "call_tool", `{"name":"good__echo","arguments":{"dir":"shared"}}`)
	w.ok("call", "good__echo", `{"dir":"/shared/x"}`)
	w.write("mcp.json", entries(fmt.Sprintf(`,"more":{"command":%q,"args":["more"]}`, bad)))
	w.awaitTool("more__echo")
	w.write("mcp.json", "{")
	testbin.Await(t, 30*time.Second, "the status to tell", func() bool { return strings.Contains(w.ok("status"), "mcp.json is not in force") })
	w.ok("call", "good__echo", `{}`)
}

// A guard with wrong options is a fault of the config, at its line.
func TestBridgeGuardFault(t *testing.T) {
	w, _ := newBridge(t, `    server "bad" {
      command = [BAD]
      arg_guard "path-prefix" {
        options = {
          args = ["dir"]
        }
      }
    }
`)
	w.fails(1, []string{"config.hcl:", "allowed_prefixes is empty"}, "check")
}
