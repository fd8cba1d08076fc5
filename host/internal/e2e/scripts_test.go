package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// scriptWorld runs the shipped plugin in a host.
func scriptWorld(t *testing.T) *world {
	t.Helper()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("NOT RUN namespaces /usr/bin/python3 is not installed")
	}
	w := newWorld(t, "plugin \"scripts\" {\n  grants = [\"shared\"]\n}\nplugin \"workspace\" {\n  grants = [\"shared\"]\n}\n", "scripts", "workspace")
	// The shared folder is where it is by default, as the host makes it.
	raw, err := os.ReadFile(filepath.Join(w.dir, "config.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("config.hcl", strings.Replace(string(raw), "  shared   = \"shared\"\n", "", 1))
	w.serve()
	w.write("data/shared/attachments/numbers.csv", "1,2,3\n")
	testbin.Await(t, 40*time.Second, "the tool to be offered, or the reason why it is not", func() bool {
		return strings.Contains(w.ok("tools"), "execute_python_script") || strings.Contains(w.ok("status"), "can't be run here")
	})
	if s := w.ok("status"); strings.Contains(s, "can't be run here") {
		t.Skipf("NOT RUN namespaces: %s", s)
	}
	return w
}

// A script reads what tools share, and the next tool reads what it leaves.
func TestScripts(t *testing.T) {
	w := scriptWorld(t)
	script := `
import json, os
numbers = [int(n) for n in open("/shared/attachments/numbers.csv").read().split(",")]
open("/out/sum.txt", "w").write(str(sum(numbers)))
print(json.dumps({"sum": sum(numbers), "input": os.environ["BULKHEAD_INPUT"]}))
`
	args, err := json.Marshal(map[string]any{"script": script, "input_data": "hello", "timeout_seconds": "20"})
	if err != nil {
		t.Fatal(err)
	}
	out := w.ok("call", "execute_python_script", string(args), "--json")
	if text := gjson.Get(out, "content.0.text").Str; text != `{"sum": 6, "input": "hello"}` {
		t.Errorf("%s", out)
	}
	s := gjson.Get(out, "structured")
	if s.Get("exit_code").Int() != 0 || s.Get("ended_by").Str != "exited" || s.Get("peak_memory_bytes").Int() < 1<<20 || !s.Get("wall_ms").Exists() {
		t.Errorf("%s", s.Raw)
	}
	file := s.Get("files.0").Str
	if !strings.HasPrefix(file, "/shared/attachments/script-") || !strings.HasSuffix(file, "/sum.txt") {
		t.Fatalf("%s", s.Raw)
	}
	if got := strings.TrimSpace(w.ok("call", "read_file", fmt.Sprintf(`{"path":%q}`, file))); got != "6" {
		t.Errorf("%q", got)
	}
	w.fails(1, []string{"Script failed (exit 1):", "ZeroDivisionError", "[stdout]", "before"}, "call", "execute_python_script", `{"script":"print('before')\n1/0"}`)
	w.fails(1, []string{"Script failed (timed out after 1s)"}, "call", "execute_python_script", `{"script":"while True: pass","timeout_seconds":1}`)
	w.fails(1, []string{"script is empty"}, "call", "execute_python_script", `{"script":" "}`)
	w.fails(1, []string{"packages can't be installed here"}, "call", "execute_python_script", `{"script":"x","pip_packages":["numpy; rm -rf /"]}`)
	if got := strings.TrimSpace(w.ok("call", "execute_python_script", `{"script":"x = 1"}`)); got != "(no output)" {
		t.Errorf("%q", got)
	}
}

// The plugin killed in the middle of a run leaves no process and no mount, and the next
// script runs.
func TestScriptsPluginKilled(t *testing.T) {
	w := scriptWorld(t)
	marker := strconv.Itoa(600_000 + os.Getpid()%100_000)
	script := fmt.Sprintf("import subprocess\nsubprocess.Popen(['setsid', 'sleep', %q])\nprint('on', flush=True)\nsubprocess.run(['sleep', %q])", marker, marker)
	args, err := json.Marshal(map[string]any{"script": script, "timeout_seconds": 120})
	if err != nil {
		t.Fatal(err)
	}
	call := exec.Command(bulkhead(t), "call", "execute_python_script", string(args))
	call.Dir, call.Env = w.dir, w.env
	if err := call.Start(); err != nil {
		t.Fatal(err)
	}
	sleeping := func() (n int) {
		all, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if raw, err := os.ReadFile(p); err == nil && string(raw) == "sleep\x00"+marker+"\x00" {
				n++
			}
		}
		return n
	}
	testbin.Await(t, 30*time.Second, "the script to sleep", func() bool { return sleeping() == 2 })
	pid := int(gjson.Get(w.ok("status", "--json"), `plugins.#(name=="scripts").pid`).Int())
	if pid <= 1 {
		t.Fatalf("no process: %s", w.ok("status"))
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := call.Wait(); err == nil {
		t.Error("the call went well")
	}
	testbin.Await(t, 20*time.Second, "all of the script to be gone", func() bool { return sleeping() == 0 })
	testbin.Await(t, 40*time.Second, "the plugin to come back", func() bool {
		return exec.Command("sh", "-c", "cd '"+w.dir+"' && exec '"+bulkhead(t)+"' call execute_python_script '{\"script\":\"print(7)\"}'").Run() == nil
	})
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), "child-root-") {
		t.Errorf("%v: mounts are left:\n%s", err, mounts)
	}
}
