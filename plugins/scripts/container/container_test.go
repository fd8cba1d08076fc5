//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/alive"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/attacks"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/enginetest"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

func options(t *testing.T) Options {
	t.Helper()
	e := enginetest.Get(t)
	dir := t.TempDir()
	m, err := alive.Here(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return Options{Socket: e.Socket, Image: enginetest.Image, NanoCPUs: 1e9, Limits: attacks.Limits, Dir: dir, Owner: "test-" + m.Name, Mark: m, Log: slog.New(slog.DiscardHandler)}
}

func runner(t *testing.T, change func(*Options)) *Runner {
	t.Helper()
	o := options(t)
	if change != nil {
		change(&o)
	}
	r, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		none(t, r)
	})
	return r
}

// none says that no container is left, waiting for those on their way out.
func none(t *testing.T, r *Runner) {
	t.Helper()
	api, err := client.New(client.WithHost("unix://" + r.o.Socket))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	var left []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		list, err := api.ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", ownerLabel+"="+r.o.Owner)})
		if err != nil {
			t.Fatal(err)
		}
		left = left[:0]
		for _, c := range list.Items {
			left = append(left, c.ID[:12]+" "+string(c.State))
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("these are left: %v", left)
}

func python(t *testing.T, r *Runner, script string, more ...func(*run.Spec)) run.Result {
	t.Helper()
	s := run.Spec{Language: run.Python, Script: []byte(script), Timeout: 30 * time.Second}
	for _, m := range more {
		m(&s)
	}
	got, err := r.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestARun(t *testing.T) {
	shared := t.TempDir()
	for dir := shared; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(shared+"/data.csv", []byte("1,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := runner(t, func(o *Options) { o.Shared = shared })
	got := python(t, r, `
import os, sys
print(open("/shared/data.csv").read().strip(), os.environ["BULKHEAD_INPUT"], os.environ["ROCKBOT_INPUT"], open("/in/input").read(), __name__, sys.argv)
print("to stderr", file=sys.stderr)
os.makedirs("/out/sub")
open("/out/sub/a.txt", "w").write("x" * 1000)
open("b.bin", "wb").write(bytes(range(256)) * 5000)
`, func(s *run.Spec) { s.Input = []byte("héllo") })
	if want := "1,2 héllo héllo héllo __main__ ['/in/script.py']\n"; got.Cause != run.Exited || got.Exit != 0 || string(got.Stdout) != want || string(got.Stderr) != "to stderr\n" {
		t.Errorf("%+v\n%s%s", got, got.Stdout, got.Stderr)
	}
	if len(got.Files) != 2 || got.Files[0].Name != "b.bin" || len(got.Files[0].Data) != 256*5000 || got.Files[1].Name != "sub/a.txt" || got.FilesLost != "" {
		t.Errorf("%d files, %s", len(got.Files), got.FilesLost)
	}
	if got.Wall <= 0 || got.PeakMemory < 1<<20 || got.PeakMemory > 200<<20 {
		t.Errorf("%s, %d bytes", got.Wall, got.PeakMemory)
	}
	got = python(t, r, "import sys\ndef f():\n    raise ValueError('no')\nf()")
	if got.Exit != 1 || !strings.Contains(string(got.Stderr), `File "/in/script.py", line 4, in <module>`) || strings.Contains(string(got.Stderr), "<string>") {
		t.Errorf("%+v\n%s", got, got.Stderr)
	}
	for script, exit := range map[string]int{"exit(7)": 7, "raise SystemExit('bye')": 1, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": -11, "": 0, "x = (": 1} {
		if got := python(t, r, script); got.Cause != run.Exited || got.Exit != exit {
			t.Errorf("%q: %+v %s", script, got, got.Stderr)
		}
	}
	got = python(t, r, "import os; print(len(os.environ['BULKHEAD_INPUT']), len(open('/in/input').read()))", func(s *run.Spec) { s.Input = []byte(strings.Repeat("y", 3<<20)) })
	if string(got.Stdout) != fmt.Sprintf("0 %d\n", 3<<20) {
		t.Errorf("%+v %s %s", got, got.Stdout, got.Stderr)
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
	got = python(t, r, "print('on', flush=True)\nwhile True: pass", func(s *run.Spec) { s.Timeout = time.Second })
	if got.Cause != run.Timeout || string(got.Stdout) != "on\n" {
		t.Errorf("%+v %s", got, got.Stdout)
	}
}

func TestAttacks(t *testing.T) {
	attacks.Run(t, attacks.Runner{Runner: runner(t, nil), NotThere: []string{"/work", "/etc/ssh", "/run/docker.sock", enginetest.Get(t).Socket},
		Ends: map[string]string{"files without end": run.Memory, "memory of one": run.Memory, "its keeper is killed": run.Timeout}})
}

func TestACallerThatLeaves(t *testing.T) { attacks.Leave(t, runner(t, nil)) }

func TestManyRuns(t *testing.T) { attacks.Many(t, runner(t, nil), 60, 8) }

// A keeper ends with the line to whoever waits, and its container with it; what an
// engine kept all the same is removed at the next start, but not what a living process
// waits for.
func TestWhatIsLeft(t *testing.T) {
	r := runner(t, nil)
	id, err := r.create(t.Context(), run.Spec{Language: run.Python, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := r.attend(ctx, id, run.Spec{Language: run.Python, Script: []byte("import time\nprint('on', flush=True)\ntime.sleep(600)"), Timeout: time.Minute, Said: func(run.Stream, []byte) { cancel() }})
		lines <- err
	}()
	if err := <-lines; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	none(t, r) // by itself: nobody removed it

	dead := r.o
	other, err := alive.Here(dead.Dir)
	if err != nil {
		t.Fatal(err)
	}
	dead.Mark = other
	was := &Runner{o: dead, api: r.api, podman: r.podman, filter: r.filter}
	ids := []string{}
	for _, of := range []*Runner{was, r} {
		id, err := of.create(t.Context(), run.Spec{Language: run.Python, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	other.Close()
	if err := r.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, gone := range []bool{true, false} {
		_, err := r.api.ContainerInspect(t.Context(), ids[i], client.ContainerInspectOptions{})
		if (err != nil) != gone {
			t.Errorf("%d: %v", i, err)
		}
	}
	r.remove(t.Context(), ids[1])
}

func TestWhatIsMissingIsTold(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no engine": {func(o *Options) { o.Socket = filepath.Join(o.Dir, "none.sock") }, "no engine answers at"},
		"no folder": {func(o *Options) { o.Shared = filepath.Join(o.Dir, "none") }, "the engine does not see the plugin's files: /shared is empty"},
		"no image":  {func(o *Options) { o.Image = "localhost/nothing:1" }, "the engine has no image localhost/nothing:1; `podman pull localhost/nothing:1` gets it"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			row.change(&o)
			_, err := New(t.Context(), o)
			var failure *run.Failure
			if !errors.As(err, &failure) || !strings.Contains(failure.Reason, row.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// An engine that says nothing more is not taken for a script that takes long.
func TestAnEngineThatHangs(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "engine.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	}()
	mark, err := alive.Here(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer mark.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("enough"))
	defer cancel()
	o := Options{Socket: socket, Image: "x", Limits: attacks.Limits, Dir: dir, Mark: mark, Log: slog.New(slog.DiscardHandler)}
	if _, err := New(ctx, o); err == nil || !strings.Contains(err.Error(), "no engine answers at "+socket) {
		t.Errorf("%v", err)
	}
	api, err := client.New(client.WithHost("unix://" + socket))
	if err != nil {
		t.Fatal(err)
	}
	r := &Runner{o: o, api: api}
	short, stop := context.WithDeadline(t.Context(), time.Now().Add(300*time.Millisecond))
	defer stop()
	if _, err := r.attend(short, "x", run.Spec{Language: run.Python, Timeout: time.Second}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := r.Run(ctx, run.Spec{Language: run.Python, Timeout: time.Second}); err == nil || err.Error() != "enough" {
		t.Errorf("%v", err)
	}
}
