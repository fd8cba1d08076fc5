//go:build linux

package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/launch"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const fixture = "github.com/bulkhead-dev/bulkhead/host/internal/testplugin"

func TestMain(m *testing.M) {
	sandbox.MaybeRun()
	if os.Getenv("TESTHOST") != "" {
		hostToKill()
		return
	}
	code := m.Run()
	testbin.Cleanup()
	os.Exit(code)
}

func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func specIn(dir, binary string, p sandbox.Profile) launch.Spec {
	return launch.Spec{
		Instance: "fixture", Generation: 1, Binary: binary, Sandbox: p,
		RunDir: filepath.Join(dir, "r"), DataDir: filepath.Join(dir, "d"), TempDir: filepath.Join(dir, "t"),
		Env: map[string]string{"TESTPLUGIN_HOST": fmt.Sprint(os.Getpid())},
	}
}

func start(t *testing.T, s launch.Spec) *launch.Process {
	t.Helper()
	p, err := launch.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	t.Log(p.Sandbox())
	return p
}

func invoke(p *launch.Process, tool string, args any) (*pluginv1.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	stream, err := p.Client().Invoke(ctx, &pluginv1.InvokeRequest{CallId: "c", Name: tool, Arguments: raw})
	for err == nil {
		var ev *pluginv1.InvokeEvent
		if ev, err = stream.Recv(); err == nil && ev.GetResult() != nil {
			return ev.GetResult(), nil
		}
	}
	return nil, err
}

func say(t *testing.T, p *launch.Process, tool string, args any) string {
	t.Helper()
	r, err := invoke(p, tool, args)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return r.GetContent()[0].GetText()
}

type reach struct {
	PID int               `json:"pid"`
	Env []string          `json:"env"`
	Try map[string]string `json:"try"`
}

func probe(t *testing.T, p *launch.Process, args map[string]any) reach {
	t.Helper()
	r, err := invoke(p, "probe", args)
	if err != nil {
		t.Fatal(err)
	}
	var got reach
	if err := json.Unmarshal(r.GetStructured(), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// A plugin that was dropped in sees nothing of the host but its own folders.
func TestStrictSeesNothingOfTheHost(t *testing.T) {
	for _, keeper := range []bool{false, true} {
		t.Run(fmt.Sprintf("keeper=%v", keeper), func(t *testing.T) {
			t.Setenv("A_SECRET", "of the host")
			dir := tempDir(t)
			secret := filepath.Join(dir, "secret")
			if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			unixLn, err := net.Listen("unix", filepath.Join(dir, "sock"))
			if err != nil {
				t.Fatal(err)
			}
			defer unixLn.Close()
			abstract, err := net.Listen("unix", "@bulkhead-test-"+filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			defer abstract.Close()
			tcp, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer tcp.Close()
			shared := filepath.Join(dir, "shared", "plugins", "fixture")
			others := filepath.Join(dir, "shared", "attachments")
			for _, d := range []string{shared, others} {
				if err := os.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			s := specIn(dir, testbin.Build(t, fixture), sandbox.Profile{NoNamespaces: keeper})
			s.SharedDir = shared
			p := start(t, s)
			own := filepath.Join(s.DataDir, "own")
			got := probe(t, p, map[string]any{
				"read":  []string{secret, "/etc/passwd", "/etc/shadow", dir, others, "/proc/self/status"},
				"write": []string{own, filepath.Join(s.TempDir, "x"), filepath.Join(shared, "x"), filepath.Join(others, "x"), secret, "/usr/x"},
				"dial":  []string{"unix:" + unixLn.Addr().String(), "unix:" + abstract.Addr().String(), "tcp:" + tcp.Addr().String(), "udp:127.0.0.1:53"},
			})
			for what, allowed := range map[string]bool{
				"read " + secret: false, "read /etc/passwd": true, "read /etc/shadow": false, "read " + dir: false,
				"read " + others: false, "read /proc/self/status": true,
				"write " + own: true, "write " + filepath.Join(s.TempDir, "x"): true, "write " + filepath.Join(shared, "x"): true,
				"write " + filepath.Join(others, "x"): false, "write " + secret: false, "write /usr/x": false,
				"dial unix:" + abstract.Addr().String(): false, "dial tcp:" + tcp.Addr().String(): false,
			} {
				if result, tried := got.Try[what]; !tried || (result == "ok") != allowed {
					t.Errorf("%s: %q, allowed should be %v", what, result, allowed)
				}
			}
			if keeper {
				// Without a mount namespace a path stays a path: AutoMTLS covers it.
				t.Log("dial of a foreign socket by path:", got.Try["dial unix:"+unixLn.Addr().String()])
			} else {
				if got.Try["dial unix:"+unixLn.Addr().String()] == "ok" {
					t.Error("a foreign socket was reached by path")
				}
				if got.PID != 1 {
					t.Errorf("the plugin is pid %d of its namespace", got.PID)
				}
			}
			for _, kv := range got.Env {
				name, _, _ := strings.Cut(kv, "=")
				if !slices.Contains([]string{"PATH", "HOME", "TMPDIR", "LANG", "BULKHEAD_SHARED", "ROCKBOT_SHARED_PATH", "BULKHEAD_PLUGIN", "TESTPLUGIN_HOST"}, name) && !strings.HasPrefix(name, "PLUGIN_") {
					t.Errorf("in the environment: %s", name)
				}
			}
			// SIGURG would be harmless; the answer is what counts.
			if text := say(t, p, "signal_host", map[string]any{"signal": int(syscall.SIGURG)}); strings.Contains(text, fmt.Sprintf("%d: <nil>", os.Getpid())) {
				t.Errorf("the host could be signalled: %s", text)
			}
			if text := say(t, p, "pivot", nil); !strings.Contains(text, "error") {
				t.Errorf("a strict plugin mounted: %s", text)
			}
		})
	}
}

func TestNetworkAll(t *testing.T) {
	dir := tempDir(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	p := start(t, specIn(dir, testbin.Build(t, fixture), sandbox.Profile{Network: sandbox.NetworkAll}))
	if got := probe(t, p, map[string]any{"dial": []string{"tcp:" + tcp.Addr().String()}}); got.Try["dial tcp:"+tcp.Addr().String()] != "ok" {
		t.Errorf("%v", got.Try)
	}
}

func TestNamedPathsAreAdmitted(t *testing.T) {
	dir := tempDir(t)
	for _, name := range []string{"in", "out"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in, out := filepath.Join(dir, "in", "file"), filepath.Join(dir, "out", "file")
	if err := os.WriteFile(in, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := specIn(dir, testbin.Build(t, fixture), sandbox.Profile{Paths: []sandbox.Path{
		{Path: filepath.Dir(in), Access: sandbox.Read, Must: true}, {Path: filepath.Dir(out), Access: sandbox.Write, Must: true},
	}})
	p := start(t, s)
	got := probe(t, p, map[string]any{"read": []string{in}, "write": []string{out, in}})
	if got.Try["read "+in] != "ok" || got.Try["write "+out] != "ok" || got.Try["write "+in] == "ok" {
		t.Errorf("%v", got.Try)
	}
	s = specIn(dir, s.Binary, sandbox.Profile{Paths: []sandbox.Path{{Path: "/nothing/here", Access: sandbox.Read, Must: true}}})
	if _, err := launch.Start(t.Context(), s); err == nil || fault.From(err).Ref != fault.PluginSandbox || !strings.Contains(err.Error(), "/nothing/here") {
		t.Errorf("a named path that is not there: %v", err)
	}
}

// A launcher's plugin builds sandboxes of its own.
func TestLauncherMayPivot(t *testing.T) {
	s := specIn(tempDir(t), testbin.Build(t, fixture), sandbox.Profile{Name: sandbox.Launcher})
	p := start(t, s)
	if text := say(t, p, "pivot", nil); text != "pid 1 sees /here" {
		t.Error(text)
	}
	if text := say(t, p, "signal_host", map[string]any{"signal": int(syscall.SIGURG)}); strings.Contains(text, fmt.Sprintf("%d: <nil>", os.Getpid())) {
		t.Errorf("the host could be signalled: %s", text)
	}
}

func TestMemoryLimit(t *testing.T) {
	for _, profile := range []string{sandbox.Strict, sandbox.Launcher} {
		t.Run(profile, func(t *testing.T) {
			s := specIn(tempDir(t), testbin.Build(t, fixture), sandbox.Profile{Name: profile, Memory: 256 << 20})
			p := start(t, s)
			if r, err := invoke(p, "hog", map[string]any{"mb": 2048}); err == nil {
				t.Fatalf("the hog lives: %v", r)
			}
			select {
			case <-p.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("the hog did not end")
			}
			if tail := strings.Join(p.Tail(), "\n"); !strings.Contains(tail, "out of memory") && !strings.Contains(tail, "cannot allocate memory") {
				t.Errorf("its last words: %s", tail)
			}
		})
	}
}

func TestProcessLimit(t *testing.T) {
	for _, profile := range []string{sandbox.Strict, sandbox.Launcher} {
		t.Run(profile, func(t *testing.T) {
			// Threads count: a Go program has about ten.
			s := specIn(tempDir(t), testbin.Build(t, fixture), sandbox.Profile{Name: profile, Processes: 48})
			p := start(t, s)
			if slices.ContainsFunc(p.Sandbox().Missing, func(s string) bool { return strings.Contains(s, "processes") }) {
				t.Skipf("no limit can be had here: %v", p.Sandbox().Missing)
			}
			refused := false
			for range 48 {
				if r, err := invoke(p, "spawn", map[string]any{}); err != nil || strings.Contains(r.GetContent()[0].GetText(), "error") {
					refused = true
					break
				}
			}
			if !refused {
				t.Error("48 processes were started beside the plugin")
			}
			p.Stop(t.Context())
			left, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/pids/bulkhead-%d-*", os.Getpid()))
			if len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// marked lists the processes that carry a mark in their environment.
func marked(mark string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var out []string
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(env), "TESTPLUGIN_MARK="+mark) {
			out = append(out, strings.Split(f, "/")[2])
		}
	}
	return out
}

// hostToKill is a small host: it starts one plugin that starts grandchildren, says
// so, and waits to be killed.
func hostToKill() {
	var s launch.Spec
	if err := json.Unmarshal([]byte(os.Getenv("TESTHOST")), &s); err != nil {
		fmt.Println("error", err)
		return
	}
	p, err := launch.Start(context.Background(), s)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	for _, setsid := range []bool{false, true} {
		if r, err := invoke(p, "spawn", map[string]any{"setsid": setsid}); err != nil || strings.Contains(r.GetContent()[0].GetText(), "error") {
			fmt.Println("error", r, err)
			return
		}
	}
	fmt.Println("ready", p.PID())
	select {}
}

func TestNothingOutlivesTheHost(t *testing.T) {
	rows := []struct {
		profile, mode string
		keeper        bool
	}{
		{sandbox.Strict, "", false}, {sandbox.Strict, "untie", false}, {sandbox.Launcher, "", false}, {sandbox.Launcher, "untie", false},
		{sandbox.None, "", false}, {sandbox.Strict, "", true}, {sandbox.Launcher, "", true}, {sandbox.None, "untie", true},
	}
	for _, row := range rows {
		t.Run(fmt.Sprintf("%s %s keeper=%v", row.profile, row.mode, row.keeper), func(t *testing.T) {
			dir := tempDir(t)
			mark := filepath.Base(dir)
			s := specIn(dir, testbin.Build(t, fixture), sandbox.Profile{Name: row.profile, NoNamespaces: row.keeper})
			s.Env["TESTPLUGIN_MARK"], s.Env["TESTPLUGIN_START"] = mark, row.mode
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			host := exec.Command("/proc/self/exe")
			host.Env = append(os.Environ(), "TESTHOST="+string(text))
			pipe, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			var word, rest string
			fmt.Fscan(pipe, &word, &rest)
			if word != "ready" {
				host.Process.Kill()
				host.Wait()
				t.Fatalf("the host says %s %s", word, rest)
			}
			tree := marked(mark)
			if len(tree) < 3 {
				t.Errorf("only %v run", tree)
			}
			if err := host.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			host.Wait()
			testbin.Await(t, 5*time.Second, "every process of the plugin is gone", func() bool { return len(marked(mark)) == 0 })
		})
	}
}

// Stopping a plugin takes its grandchildren along, the ones that left its session
// and keep its pipes included.
func TestStopTakesTheTree(t *testing.T) {
	for _, profile := range []string{sandbox.Strict, sandbox.Launcher, sandbox.None} {
		for _, keeper := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s keeper=%v", profile, keeper), func(t *testing.T) {
				dir := tempDir(t)
				mark := filepath.Base(dir)
				s := specIn(dir, testbin.Build(t, fixture), sandbox.Profile{Name: profile, NoNamespaces: keeper})
				s.Env["TESTPLUGIN_MARK"] = mark
				p := start(t, s)
				say(t, p, "spawn", map[string]any{"setsid": true, "stdio": true})
				say(t, p, "spawn", map[string]any{"stdio": true})
				p.Stop(t.Context())
				testbin.Await(t, 5*time.Second, "every process of the plugin is gone", func() bool { return len(marked(mark)) == 0 })
			})
		}
	}
}

// The same walls must stand for a host without privileges.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this run is unprivileged itself")
	}
	dir := tempDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "sandbox.test")
	if err := os.WriteFile(self, code, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.v", "-test.run", "TestStrict|TestNetworkAll|TestNamed|TestLauncher|TestMemory|TestProcess|TestNothing|TestStop")
	cmd.Dir = home
	cmd.Env = []string{"TMPDIR=" + home, "PATH=" + os.Getenv("PATH"), testbin.Made(fixture, testbin.Build(t, fixture))}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	text, err := cmd.CombinedOutput()
	t.Logf("%s", text)
	if err != nil {
		t.Error(err)
	}
}
