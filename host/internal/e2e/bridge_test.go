package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// newBridge is a world whose bridge has the given server blocks. BAD stands for
// the misbehaving server and a mark by which its processes are found.
func newBridge(t *testing.T, servers string) (w *world, mark string) {
	t.Helper()
	mark = "mark=" + strconv.FormatInt(time.Now().UnixNano(), 36)
	servers = strings.ReplaceAll(servers, "BAD", fmt.Sprintf("%q, %q", testbin.Build(t, module+"plugins/mcp/testdata/badserver"), mark))
	w = newWorld(t, "plugin \"mcp\" {\n  grants = [\"shared\"]\n  config {\n    connect_timeout = \"5s\"\n"+servers+"  }\n}\n")
	raw, err := os.ReadFile(testbin.Build(t, module+"plugins/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "plugins", "bulkhead-plugin-mcp"), raw, 0o755); err != nil {
		t.Fatal(err)
	}
	return w, mark
}

// marked gives the processes with a mark on their command line.
func marked(t *testing.T, mark string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		raw, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(raw)+"\x00", "\x00"+mark+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func (w *world) awaitTool(name string) {
	w.t.Helper()
	testbin.Await(w.t, 30*time.Second, "the tool "+name, func() bool {
		_, _, code := w.runQuiet("tools", name)
		return code == 0
	})
}

// C1 and C14 from a client of the official SDK, through host and bridge, to a
// server and back, in each era.
func TestBridgeKeepsBytes(t *testing.T) {
	w, _ := newBridge(t, "    server \"bad\" {\n      command = [BAD, \"banner\"]\n    }\n")
	w.serve()
	w.awaitTool("bad__echo")
	sent := `{"id":9223372036854775807,"z":{"b":1,"a":2.50},"u":null}`
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		s := connect(t, w, version, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "bad__echo", Arguments: json.RawMessage(sent)})
		if err != nil || text(t, r) != "echo "+sent {
			t.Errorf("%s: %v %q", version, err, text(t, r))
		}
		r, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "mcp_invoke_tool", Arguments: json.RawMessage(`{"server_name":"bad","tool_name":"echo","arguments":` + sent + `}`)})
		if err != nil || text(t, r) != "echo "+sent {
			t.Errorf("%s: %v %q", version, err, text(t, r))
		}
		prompt, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "bad__plan", Arguments: map[string]string{"topic": "ships"}})
		if err != nil || len(prompt.Messages) != 1 {
			t.Errorf("%s: %v %+v", version, err, prompt)
		}
		for _, uri := range []string{"bad://note", "bad://item/7"} {
			res, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
			if err != nil || len(res.Contents) != 1 || res.Contents[0].Text != "read "+uri {
				t.Errorf("%s: %s: %v %+v", version, uri, err, res)
			}
		}
	}
	id := w.initialize("/mcp", "")
	_, body := w.post("/mcp", "", id, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bad__rich","arguments":{"b":9223372036854775807}}}`)
	for _, want := range []string{`{"id":1915883588174806058,"z":1,"a":2.50}`, `18446744073709551615`, `"big":9007199254740993`, `"hologram"`, `"audience":["user"]`, `https://x.example/l.png`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is lost: %s", want, clip(body))
		}
	}
	_, body = w.post("/mcp", "", id, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	for _, want := range []string{`"x-vendor":{"b":1,"a":[2]}`, `"anyOf":[{"required":["a"]},{"required":["b"]}]`, `"maximum":9223372036854775807`, `"oneOf":[{"required":["id"]}]`, `12345678901234567890`, `"execution":{"taskSupport":"optional"}`, `https://x.example/i.png`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is lost from the list", want)
		}
	}
}

// C11: a stdio server killed in the middle of a call costs that call; the next
// one, at once, is answered.
func TestBridgeServerKilled(t *testing.T) {
	w, mark := newBridge(t, "    server \"bad\" {\n      command = [BAD]\n    }\n    server \"other\" {\n      command = [BAD, \"other\"]\n    }\n")
	w.serve()
	w.awaitTool("bad__sleep")
	w.awaitTool("other__echo")
	call := w.caller()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for round := range 3 {
		lost := make(chan string, 1)
		go func() {
			r, err := call(ctx, "bad__sleep", `{"ms":60000}`)
			if err != nil || r.Error == nil {
				lost <- fmt.Sprint(err, r)
				return
			}
			lost <- r.Error.Code + ": " + r.Error.Message
		}()
		testbin.Await(t, 10*time.Second, "the call to run", func() bool { return w.plugin("mcp").InFlight == 1 })
		killed := 0
		for _, pid := range marked(t, mark) {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err == nil && !strings.Contains(string(raw), "\x00other\x00") {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				killed++
			}
		}
		if killed == 0 {
			t.Fatal("no process to kill")
		}
		if got := <-lost; !strings.HasPrefix(got, "execution_failed: ") || !strings.Contains(got, "signal 9") {
			t.Errorf("round %d: the call in flight got %s", round, got)
		}
		begin := time.Now()
		r, err := call(ctx, "bad__echo", `{"n":1}`)
		if err != nil || r.IsError {
			t.Errorf("round %d: %v %+v", round, err, r.Error)
		}
		if d := time.Since(begin); d > 20*time.Second {
			t.Errorf("round %d: the next call took %s", round, d)
		}
		if r, err := call(ctx, "other__echo", `{}`); err != nil || r.IsError {
			t.Errorf("round %d: the other server: %v %+v", round, err, r.Error)
		}
	}
	if w.plugin("mcp").Restarts != 0 {
		t.Error("the bridge was restarted")
	}
}

// C8 and C9: the host is ready at once; good tools are there although other
// servers are slow, wrong or unreachable, and these say why.
func TestBridgeStartUp(t *testing.T) {
	w, _ := newBridge(t, `
    server "slow" {
      command = [BAD, "init=3s"]
    }
    server "good" {
      command = [BAD]
    }
    server "wrong" {
      command = ["no-such-program-here"]
    }
    server "refusing" {
      url = "http://127.0.0.1:1/mcp"
    }
    server "hung" {
      command = [BAD, "never"]
    }
`)
	w.serve()
	w.awaitTool("good__echo")
	w.ok("call", "good__echo", "{}")
	w.awaitTool("slow__echo")
	testbin.Await(t, 30*time.Second, "the reasons of the broken ones", func() bool {
		out := w.ok("call", "mcp_list_services")
		for _, want := range []string{"no such program", "connection refused", "connect_timeout 5s"} {
			if !strings.Contains(out, want) {
				return false
			}
		}
		return true
	})
	testbin.Await(t, 60*time.Second, "the status to name them", func() bool {
		out := w.ok("status")
		return strings.Contains(out, "no such program") && strings.Contains(out, "connection refused")
	})
}

// C12: nothing is left of servers, whatever they started and however the host ends.
func TestBridgeLeavesNoProcess(t *testing.T) {
	for _, how := range []string{"stop", "kill"} {
		t.Run(how, func(t *testing.T) {
			seconds := strconv.FormatInt(200000+time.Now().UnixNano()%100000, 10)
			w, mark := newBridge(t, fmt.Sprintf("    server \"bad\" {\n      command = [BAD, \"stubborn\", \"grandchild=%s\"]\n    }\n", seconds))
			w.serve()
			w.awaitTool("bad__echo")
			sleeping := func() int {
				n := 0
				all, err := filepath.Glob("/proc/[0-9]*/cmdline")
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range all {
					if raw, err := os.ReadFile(p); err == nil && string(raw) == "sleep\x00"+seconds+"\x00" {
						n++
					}
				}
				return n
			}
			if len(marked(t, mark)) == 0 || sleeping() == 0 {
				t.Fatal("the server and its grandchild don't run")
			}
			if how == "stop" {
				w.stop()
			} else {
				w.kill()
			}
			testbin.Await(t, 15*time.Second, "the end of all processes", func() bool { return len(marked(t, mark)) == 0 && sleeping() == 0 })
		})
	}
}

// C7: a result of three megabytes reaches an agent in chunks that can all be read.
func TestBridgeLongResult(t *testing.T) {
	w, _ := newBridge(t, "    server \"bad\" {\n      command = [BAD, \"many=600\"]\n    }\n")
	w.serve()
	w.awaitTool("bad__tool_599")
	s := connect(t, w, "2025-11-25", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const size = (3<<20 - 4096) / 16 * 16 // nearly all that a message of the bridge holds, its frame counted
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "call_tool", Arguments: map[string]any{"name": "bad__big", "arguments": map[string]any{"n": size - 16}}})
	if err != nil || r.IsError || !strings.Contains(text(t, r), "-index") {
		t.Fatalf("%v %.500s", err, text(t, r))
	}
	total := 0
	for i := range 1000 {
		key := chunkKey(text(t, r), i)
		if key == "" {
			break
		}
		c, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "get_from_working_memory", Arguments: map[string]any{"key": key}})
		if err != nil || c.IsError {
			t.Fatalf("%s: %v %v", key, err, c)
		}
		total += len(text(t, c))
	}
	if total < size*99/100 {
		t.Errorf("the chunks hold %d of %d characters", total, size)
	}
}

// The bridge killed in the middle of a call: one clear error, the next call is
// answered, nothing is left behind. Then its binary is replaced: no call is lost.
func TestBridgeKilledAndReplaced(t *testing.T) {
	w, mark := newBridge(t, "    server \"bad\" {\n      command = [BAD]\n    }\n")
	w.serve()
	w.awaitTool("bad__sleep")
	call := w.caller()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	lost := make(chan string, 1)
	go func() {
		r, err := call(ctx, "bad__sleep", `{"ms":60000}`)
		if err != nil || r.Error == nil {
			lost <- fmt.Sprint(err, r)
			return
		}
		lost <- r.Error.Code + ": " + r.Error.Message
	}()
	testbin.Await(t, 10*time.Second, "the call to run", func() bool { return w.plugin("mcp").InFlight == 1 })
	before := marked(t, mark)
	if err := syscall.Kill(w.plugin("mcp").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := <-lost; !strings.HasPrefix(got, "execution_failed: ") || !strings.Contains(got, `"mcp"`) {
		t.Errorf("the call in flight got %s", got)
	}
	for n := range 3 {
		r, err := call(ctx, "bad__echo", `{"n":1}`)
		if err != nil || r.IsError {
			t.Errorf("call %d after the kill: %v %+v", n, err, r.Error)
		}
	}
	now := marked(t, mark)
	for _, pid := range before {
		for _, left := range now {
			if pid == left {
				t.Errorf("process %d of the killed bridge is left", pid)
			}
		}
	}

	stop, done := make(chan struct{}), make(chan struct{})
	calls := 0
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if r, err := call(ctx, "bad__echo", `{}`); err != nil || r.IsError {
				t.Errorf("during the swap: %v %+v", err, r.Error)
				return
			}
			calls++
		}
	}()
	generation := w.plugin("mcp").Generation
	path := filepath.Join(w.dir, "plugins", "bulkhead-plugin-mcp")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", append(raw, "another"...), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	testbin.Await(t, 60*time.Second, "the new generation", func() bool { return w.plugin("mcp").Generation > generation })
	testbin.Await(t, 30*time.Second, "its server", func() bool {
		r, err := call(ctx, "bad__echo", `{}`)
		return err == nil && !r.IsError
	})
	close(stop)
	<-done
	if calls < 10 {
		t.Errorf("only %d calls were made", calls)
	}
}

// Tools on demand: what was found is listed from then on where lists may change,
// and callable by call_tool everywhere.
func TestBridgeOnDemand(t *testing.T) {
	w, _ := newBridge(t, "    wrapper_mode = \"pinned\"\n    server \"bad\" {\n      command = [BAD]\n    }\n")
	w.serve()
	w.awaitTool("bad__echo")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	listed := func(s *mcp.ClientSession) string {
		l, err := s.ListTools(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range l.Tools {
			names = append(names, tool.Name)
		}
		return strings.Join(names, " ")
	}
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		s := connect(t, w, version, nil)
		if strings.Contains(listed(s), "bad__") {
			t.Errorf("%s: listed at once: %s", version, listed(s))
		}
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "mcp_find_tools", Arguments: map[string]any{"query": "bad__echo", "limit": 1}})
		if err != nil || r.IsError || !strings.Contains(text(t, r), `"name":"bad__echo"`) {
			t.Fatalf("%s: %v %s", version, err, text(t, r))
		}
		fixed := version == "2026-07-28"
		if got := listed(s); strings.Contains(got, "bad__echo") == fixed {
			t.Errorf("%s: listed after the search: %s", version, got)
		}
		r, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "call_tool", Arguments: map[string]any{"name": "bad__log"}})
		if err != nil || r.IsError {
			t.Errorf("%s: %v %s", version, err, text(t, r))
		}
		if got := listed(s); strings.Contains(got, "bad__sleep") == fixed {
			t.Errorf("%s: listed after a call of the server: %s", version, got)
		}
	}
}
