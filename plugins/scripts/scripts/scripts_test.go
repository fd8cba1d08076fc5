//go:build linux

package scripts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/enginetest"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/local"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestMain(m *testing.M) {
	child.Init()
	local.Init()
	os.Exit(enginetest.Main(m))
}

func start(t *testing.T, conf string) *sdktest.Session {
	t.Helper()
	if s := child.Probe(t.Context()); !s.Namespaces {
		t.Skipf("NOT RUN namespaces %s", s.Reason)
	}
	if !installed("/usr/bin/python3") {
		t.Skip("NOT RUN namespaces /usr/bin/python3 is not installed")
	}
	return sdktest.Start(t, Plugin(), sdktest.Config(conf), sdktest.Granted("shared"))
}

func args(t *testing.T, pairs ...any) string {
	t.Helper()
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestTimes(t *testing.T) {
	for raw, want := range map[string]time.Duration{
		`5`: 5 * time.Second, `"7"`: 7 * time.Second, `" 2.5 "`: 2500 * time.Millisecond, `0`: 30 * time.Second, `-1`: 30 * time.Second, ``: 30 * time.Second, `null`: 30 * time.Second,
		`"soon"`: 30 * time.Second, `1e300`: longest, `"NaN"`: 30 * time.Second, `"inf"`: longest, `0.001`: time.Second, `301`: longest,
	} {
		if got := timeout(json.RawMessage(raw), 30*time.Second); got != want {
			t.Errorf("%s is %s, want %s", raw, got, want)
		}
	}
}

func TestResults(t *testing.T) {
	s := start(t, `{"output":"1KiB","warm":0,"languages":["python","shell"]}`)
	r := s.Call("execute_python_script", args(t, "script", "print('x' * 2000)"))
	r.WantText("[output truncated after 1024 bytes]")
	if !strings.Contains(string(r.Structured), `"stdout_truncated":true`) {
		t.Errorf("%s", r.Structured)
	}
	r = s.Call("execute_python_script", args(t, "script", "import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('/out/a b.txt', 'w').write('1')\nsys.exit(4)"))
	if !r.IsError || !strings.Contains(r.Text, "Script failed (exit 4):\nerr\n[stdout]\nout") {
		t.Errorf("%q %v", r.Text, r.IsError)
	}
	// What it left is there, though it failed.
	files, err := filepath.Glob(filepath.Join(s.SharedDir, "attachments/script-*/a b.txt"))
	if err != nil || len(files) != 1 || !strings.Contains(string(r.Structured), "a b.txt") {
		t.Errorf("%v %v %s", files, err, r.Structured)
	}
	s.Call("execute_python_script", args(t, "script", "echo $BULKHEAD_INPUT", "language", "shell", "input_data", "in")).WantText("in")
	s.Call("execute_python_script", args(t, "script", "x", "language", "javascript")).WantError("invalid_arguments", "javascript")
	s.Call("execute_python_script", args(t, "script", "x", "pip_packages", []string{"numpy"})).WantError("invalid_arguments", "no wheelhouse")
	s.Call("execute_python_script", args(t, "script", "x", "language", "shell", "pip_packages", []string{"numpy"})).WantError("invalid_arguments", "for python")
	s.Call("execute_python_script", args(t, "script", "\n ")).WantError("invalid_arguments", "script is empty")
	if r := s.Call("execute_python_script", args(t, "script", "import os\nos.kill(os.getpid(), 9)")); !r.IsError || !strings.Contains(r.Text, "ended by signal 9") {
		t.Errorf("%q", r.Text)
	}
}

// More scripts than may run wait for each other, and all are run.
func TestScriptsWaitForEachOther(t *testing.T) {
	s := start(t, `{"runs":1,"warm":0}`)
	done := make(chan string, 4)
	for i := range 4 {
		go func() {
			done <- s.Call("execute_python_script", args(t, "script", fmt.Sprintf("import time\ntime.sleep(0.05)\nprint(%d)", i))).Text
		}()
	}
	sum := 0
	for range 4 {
		var n int
		if _, err := fmt.Sscan(<-done, &n); err != nil {
			t.Error(err)
		}
		sum += n
	}
	if sum != 6 {
		t.Errorf("%d", sum)
	}
}

// A tool that can't run is not offered, and the plugin says why.
func TestWithoutAnInterpreterNothingIsOffered(t *testing.T) {
	old := programs["javascript"]
	programs["javascript"] = []string{"/no/such/node"}
	defer func() { programs["javascript"] = old }()
	s := start(t, `{"languages":["javascript"]}`)
	if names := s.ToolNames(); len(names) != 0 {
		t.Errorf("%v", names)
	}
	if degraded, detail := s.Health(); !degraded || !strings.Contains(detail, "no interpreter is installed") {
		t.Errorf("%v %s", degraded, detail)
	}
}

// The tool is the same in containers.
func TestInContainers(t *testing.T) {
	e := enginetest.Get(t)
	s := sdktest.Start(t, Plugin(), sdktest.Config(fmt.Sprintf(`{"runner":"container","socket":%q,"image":%q}`, e.Socket, enginetest.Image)), sdktest.Granted("shared"))
	if degraded, detail := s.Health(); !degraded || !strings.Contains(detail, "scripts can't read /shared, since they run as another user: chmod o+rx "+s.SharedDir) {
		t.Errorf("%v %s", degraded, detail)
	}
	if err := os.Chmod(s.SharedDir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := s.Call("execute_python_script", args(t, "script", "import os\nprint(os.environ['BULKHEAD_INPUT'], os.getuid())\nopen('/out/f.txt', 'w').write('1')", "input_data", "in"))
	r.WantText("in 65534")
	if files, err := filepath.Glob(filepath.Join(s.SharedDir, "attachments/script-*/f.txt")); err != nil || len(files) != 1 {
		t.Errorf("%v %v", files, err)
	}
	if r := s.Call("execute_python_script", args(t, "script", "x = []\nwhile True: x.append(bytearray(1 << 20))")); !r.IsError || !strings.Contains(r.Text, "MemoryError") && !strings.Contains(r.Text, "more memory than it may") {
		t.Errorf("%q", r.Text)
	}
	if degraded, detail := s.Health(); degraded || detail != "runner container for python" {
		t.Errorf("%v %s", degraded, detail)
	}
}

// Without walls nothing is run, but where the operator says so; then every result does.
func TestUnsandboxed(t *testing.T) {
	if !installed("/usr/bin/python3") {
		t.Skip("NOT RUN unsandboxed /usr/bin/python3 is not installed")
	}
	s := sdktest.Start(t, build(local.Unwalled).plugin, sdktest.Config(`{}`))
	if names := s.ToolNames(); len(names) != 0 {
		t.Errorf("%v", names)
	}
	s = sdktest.Start(t, build(local.Unwalled).plugin, sdktest.Config(`{"allow_unsandboxed":true}`))
	s.Call("execute_python_script", args(t, "script", "print(1)")).WantText("[warning: this ran without a sandbox]")
	if degraded, detail := s.Health(); !degraded || !strings.Contains(detail, "allow_unsandboxed") {
		t.Errorf("%v %s", degraded, detail)
	}
}
