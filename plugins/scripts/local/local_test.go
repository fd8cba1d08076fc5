//go:build linux

package local

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/attacks"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

// asNobody marks the runs of the tests under another user; it names their walls.
const asNobody = "LOCAL_TEST_AS_NOBODY"

func TestMain(m *testing.M) {
	child.Init()
	Init()
	os.Exit(m.Run())
}

func interpreters(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for language, path := range map[string]string{run.Python: "/usr/bin/python3", run.JavaScript: "/usr/bin/node", run.Shell: "/bin/sh"} {
		if _, err := os.Stat(path); err == nil {
			found[language] = path
		}
	}
	if found[run.Python] == "" {
		t.Skip("NOT RUN namespaces /usr/bin/python3 is not installed")
	}
	return found
}

func runner(t *testing.T, change func(*Options)) *Runner {
	t.Helper()
	o := Options{Interpreters: interpreters(t), Limits: attacks.Limits, Log: slog.New(slog.DiscardHandler), Walls: cmp.Or(os.Getenv(asNobody), Namespaces)}
	if s := child.Probe(t.Context()); !s.Namespaces && o.Walls == Namespaces {
		t.Skipf("NOT RUN namespaces %s", s.Reason)
	}
	if change != nil {
		change(&o)
	}
	r, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func python(t *testing.T, r *Runner, script string, more ...func(*run.Spec)) run.Result {
	t.Helper()
	s := run.Spec{Language: run.Python, Script: []byte(script), Timeout: 30 * time.Second}
	for _, m := range more {
		m(&s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := r.Run(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestARun(t *testing.T) {
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(shared+"/data.csv", []byte("1,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, warm := range []int{0, 2} {
		r := runner(t, func(o *Options) { o.Shared, o.Warm = shared, warm })
		got := python(t, r, `
import os, sys
print(open("/shared/data.csv").read().strip(), os.environ["BULKHEAD_INPUT"], os.environ["ROCKBOT_INPUT"], open("/in/input").read(), __name__, sys.argv)
print("to stderr", file=sys.stderr)
os.makedirs("/out/sub")
open("/out/sub/a.txt", "w").write("x" * 1000)
open("b.bin", "wb").write(b"\0\1")
`, func(s *run.Spec) { s.Input = []byte("héllo") })
		if want := "1,2 héllo héllo héllo __main__ ['/in/script.py']\n"; got.Cause != run.Exited || got.Exit != 0 || string(got.Stdout) != want || string(got.Stderr) != "to stderr\n" {
			t.Errorf("warm %d: %+v\n%s%s", warm, got, got.Stdout, got.Stderr)
		}
		if len(got.Files) != 2 || got.Files[0].Name != "b.bin" || string(got.Files[0].Data) != "\x00\x01" || got.Files[1].Name != "sub/a.txt" || len(got.Files[1].Data) != 1000 || got.FilesLost != "" {
			t.Errorf("%+v", got.Files)
		}
		if got.Wall <= 0 || got.PeakMemory < 1<<20 || got.PeakMemory > 200<<20 {
			t.Errorf("%s, %d bytes", got.Wall, got.PeakMemory)
		}
		got = python(t, r, "import sys\ndef f():\n    raise ValueError('no')\nf()")
		if got.Exit != 1 || !strings.Contains(string(got.Stderr), `File "/in/script.py", line 4, in <module>`) || !strings.Contains(string(got.Stderr), "raise ValueError('no')") || strings.Contains(string(got.Stderr), "<string>") {
			t.Errorf("%+v\n%s", got, got.Stderr)
		}
		for script, exit := range map[string]int{"exit(7)": 7, "raise SystemExit('bye')": 1, "import os; os._exit(3)": 3, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": -11, "": 0, "x = (": 1} {
			if got := python(t, r, script); got.Cause != run.Exited || got.Exit != exit {
				t.Errorf("%q: %+v %s", script, got, got.Stderr)
			}
		}
		got = python(t, r, `
import sys, types
plot = types.ModuleType("matplotlib.pyplot")
class Figure:
    def savefig(self, name): open(name, "w").write("a picture")
plot.get_fignums, plot.figure = lambda: [1, 2], lambda n: Figure()
sys.modules["matplotlib.pyplot"] = plot
`)
		if len(got.Files) != 2 || got.Files[0].Name != "figure-1.png" || string(got.Files[1].Data) != "a picture" {
			t.Errorf("%+v %s", got.Files, got.Stderr)
		}
		got = python(t, r, "import os; print(repr(os.environ['BULKHEAD_INPUT']), len(open('/in/input').read()))", func(s *run.Spec) { s.Input = []byte("a\x00b") })
		if string(got.Stdout) != "'' 3\n" {
			t.Errorf("%s %s", got.Stdout, got.Stderr)
		}
		got = python(t, r, "import os; print(len(os.environ['BULKHEAD_INPUT']), len(open('/in/input').read()))", func(s *run.Spec) { s.Input = []byte(strings.Repeat("y", 3<<20)) })
		if string(got.Stdout) != fmt.Sprintf("0 %d\n", 3<<20) {
			t.Errorf("%+v %s %s", got, got.Stdout, got.Stderr)
		}
	}
}

func TestOtherLanguages(t *testing.T) {
	r := runner(t, nil)
	for language, script := range map[string]string{
		run.Shell:      `echo "$BULKHEAD_INPUT"; cat /in/input; echo x > f; exit 3`,
		run.JavaScript: `console.log(process.env.BULKHEAD_INPUT); process.stdout.write(require("fs").readFileSync("/in/input")); require("fs").writeFileSync("f", "x\n"); process.exitCode = 3`,
	} {
		if !slices.Contains(r.Languages(), language) {
			t.Logf("NOT RUN %s is not installed", language)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, err := r.Run(ctx, run.Spec{Language: language, Script: []byte(script), Input: []byte("in"), Timeout: 30 * time.Second})
		if err != nil || got.Exit != 3 || string(got.Stdout) != "in\nin" || len(got.Files) != 1 || string(got.Files[0].Data) != "x\n" {
			t.Errorf("%s: %+v %s %s %v", language, got, got.Stdout, got.Stderr, err)
		}
	}
}

// What is said comes while the script runs.
func TestOutputComesAsItIsPrinted(t *testing.T) {
	r := runner(t, nil)
	first := make(chan string, 1)
	var once sync.Once
	got := python(t, r, `
import os, time
print("begun", flush=True)
while not os.path.exists("/shared/go"):
    time.sleep(0.01)
print("over")
`, func(s *run.Spec) {
		s.Timeout = 2 * time.Second
		s.Said = func(_ run.Stream, text []byte) { once.Do(func() { first <- string(text) }) }
	})
	if said := <-first; !strings.HasPrefix(said, "begun") || got.Cause != run.Timeout || string(got.Stdout) != "begun\n" {
		t.Errorf("%q %+v %s", said, got, got.Stdout)
	}
}

// Tests of the walls are run by another user, too.
func TestWallsAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can be another user, too")
	}
	if os.Getenv(asNobody) != "" {
		return
	}
	bin := t.TempDir() + "/local.test"
	raw, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bin, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := bin; dir != "/tmp" && dir != "/" && dir != "."; dir = dir[:max(strings.LastIndexByte(dir, '/'), 0)] {
		if err := os.Chmod(dir, 0o755); err != nil {
			break // not ours: it is open already, or the run says so
		}
	}
	for _, walls := range []string{Namespaces, Bubblewrap} {
		t.Run(walls, func(t *testing.T) {
			if walls == Bubblewrap && !executable(bwrap) {
				t.Skip("NOT RUN bubblewrap it is not installed")
			}
			cmd := exec.CommandContext(t.Context(), bin, "-test.v", "-test.run", "^(TestARun|TestAttacks|TestOtherLanguages|TestACallerThatLeaves)$", "-test.timeout", "5m")
			cmd.Dir, cmd.Env = "/", append(os.Environ(), asNobody+"="+walls, "TMPDIR=/tmp", "HOME=/tmp")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Contains(string(out), "NOT RUN "+walls) || strings.Count(string(out), "--- PASS") < 4 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	t.Log("NOT RUN bubblewrap as root: " + noBubblewrap().Error())
}

// Without walls a script runs in a folder of its own, if that is wanted, and what it
// leaves running is ended.
func TestWithoutWalls(t *testing.T) {
	if _, err := New(t.Context(), Options{Interpreters: interpreters(t), Limits: attacks.Limits, Log: slog.New(slog.DiscardHandler), Walls: Unwalled}); err == nil {
		t.Error("nobody wanted that")
	}
	shared := t.TempDir()
	r := runner(t, func(o *Options) { o.Walls, o.NoWalls, o.Shared, o.Warm = Unwalled, true, shared, 2 })
	marker := strconv.Itoa(500_000 + os.Getpid()%100_000)
	got := python(t, r, "import os, subprocess\nsubprocess.Popen(['setsid', 'sleep', '"+marker+"'])\nprint(os.environ['BULKHEAD_SHARED'], os.environ['BULKHEAD_INPUT'], os.getcwd() == os.environ['BULKHEAD_OUT'])\nopen('f', 'w').write('1')", func(s *run.Spec) { s.Input = []byte("in") })
	if string(got.Stdout) != shared+" in True\n" || len(got.Files) != 1 || r.Name() != Unwalled {
		t.Errorf("%+v %s %s", got, got.Stdout, got.Stderr)
	}
	if n := attacks.Sleepers(t, marker); n != 0 {
		t.Errorf("%d are left", n)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "script-*", "out", "f")); err != nil || len(left) != 0 {
		t.Errorf("%v %v", left, err)
	}
}
