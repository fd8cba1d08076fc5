//go:build linux

package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const fixture = "github.com/bulkhead-dev/bulkhead/host/internal/testplugin"

func TestMain(m *testing.M) {
	sandbox.MaybeRun()
	code := m.Run()
	testbin.Cleanup()
	os.Exit(code)
}

func specOf(t *testing.T, mode string) (Spec, *testbin.Buffer) {
	t.Helper()
	dir, err := os.MkdirTemp("", "l")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	log := &testbin.Buffer{}
	s := Spec{
		Instance: "fixture", Generation: 1, Binary: testbin.Build(t, fixture),
		RunDir: filepath.Join(dir, "r"), DataDir: filepath.Join(dir, "d"), TempDir: filepath.Join(dir, "t"),
		Env: map[string]string{}, StartTimeout: 4 * time.Second,
		Log: hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: log}),
	}
	if mode != "" {
		s.Env["TESTPLUGIN_START"] = mode
	}
	return s, log
}

func start(t *testing.T, s Spec) *Process {
	t.Helper()
	p, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// invoke runs one tool and returns its text or structured result.
func invoke(t *testing.T, p *Process, tool, args string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream, err := p.Client().Invoke(ctx, &pluginv1.InvokeRequest{CallId: "c", Name: tool, Arguments: []byte(args)})
	for err == nil {
		var ev *pluginv1.InvokeEvent
		if ev, err = stream.Recv(); err == nil && ev.GetResult() != nil {
			r := ev.GetResult()
			if len(r.GetContent()) > 0 {
				return r.GetContent()[0].GetText(), nil
			}
			return string(r.GetStructured()), nil
		}
	}
	return "", err
}

func TestStartServesAndStops(t *testing.T) {
	for _, profile := range []string{sandbox.Strict, sandbox.Launcher, sandbox.None} {
		for _, keeper := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s keeper=%v", profile, keeper), func(t *testing.T) {
				s, _ := specOf(t, "")
				s.Sandbox = sandbox.Profile{Name: profile, NoNamespaces: keeper}
				before := testbin.Count()
				p, err := Start(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(p.Sandbox())
				if text, err := invoke(t, p, "echo", `{"a":12345678901234567890}`); err != nil || text != `{"a":12345678901234567890}` {
					t.Errorf("echo: %q, %v", text, err)
				}
				if text, err := invoke(t, p, "stdin", `{}`); err != nil || text != `"" <nil>` {
					t.Errorf("stdin is not empty: %q, %v", text, err)
				}
				p.Stop(t.Context())
				if p.Exit() != "exit status 0" {
					t.Errorf("an honest plugin leaves by itself, this one: %s", p.Exit())
				}
				before.Back(t)
				if _, err := os.Stat(s.RunDir); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the run dir is left: %v", err)
				}
			})
		}
	}
}

func TestStartFailures(t *testing.T) {
	rows := []struct {
		mode, hang string
		ref        fault.Ref
		says       string
	}{
		{mode: "garbage", ref: fault.PluginHandshake, says: "hello, I am a plugin"},
		{mode: "longline", ref: fault.PluginHandshake, says: "on stdout where its handshake belongs"},
		{mode: "endless", ref: fault.PluginHandshake, says: "on stdout where its handshake belongs"},
		{mode: "partial", ref: fault.PluginStart, says: "printed no handshake within"},
		{mode: "silence", ref: fault.PluginStart, says: "printed no handshake within"},
		{mode: "exit0", ref: fault.PluginStart, says: "it ended (exit status 0) before its handshake"},
		{mode: "exit3", ref: fault.PluginStart, says: "can't read my settings"},
		{mode: "panic", ref: fault.PluginStart, says: "panic: no way to start"},
		{mode: "nosocket", ref: fault.PluginHandshake, says: "not a socket in its own run folder"},
		{mode: "tcp", ref: fault.PluginHandshake, says: "not a socket in its own run folder"},
		{mode: "foreign", ref: fault.PluginHandshake, says: "not a socket in its own run folder"},
		{mode: "newer", ref: fault.PluginHandshake, says: "upgrade the host"},
		{mode: "older", ref: fault.PluginHandshake, says: "rebuild the plugin"},
		{mode: "nocert", ref: fault.PluginHandshake, says: "no certificate"},
		{mode: "neverserve", ref: fault.PluginStart, says: "it answered nothing within"},
		{hang: "describe", ref: fault.PluginStart, says: "it answered nothing within"},
	}
	for _, row := range rows {
		t.Run(row.mode+row.hang, func(t *testing.T) {
			s, _ := specOf(t, row.mode)
			s.StartTimeout = 2 * time.Second
			if row.hang != "" {
				s.Env["TESTPLUGIN_HANG"] = row.hang
			}
			before := testbin.Count()
			_, err := Start(t.Context(), s)
			if err == nil {
				t.Fatal("it started")
			}
			if f := fault.From(err); f.Ref != row.ref || !strings.Contains(f.Message, row.says) || !strings.Contains(f.Message, `"fixture"`) {
				t.Errorf("got %s %s, want %s with %q", f.Ref, f.Message, row.ref, row.says)
			}
			before.Back(t)
			if _, err := os.Stat(s.RunDir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the run dir is left: %v", err)
			}
		})
	}
}

func TestStartCancelled(t *testing.T) {
	s, _ := specOf(t, "silence")
	before := testbin.Count()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	if _, err := Start(ctx, s); err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("got %v", err)
	}
	before.Back(t)
}

func TestStderrCannotHurt(t *testing.T) {
	s, log := specOf(t, "stderrjson")
	p := start(t, s)
	if _, err := invoke(t, p, "stderr_json", "{}"); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`{"mb":256}`, `{"mb":64,"line":true}`} {
		if _, err := invoke(t, p, "stderr", args); err != nil {
			t.Fatal(err)
		}
	}
	testbin.Await(t, 10*time.Second, "the drop is told", func() bool { return strings.Contains(log.String(), "lines_dropped") })
	if n := len(log.String()); n > 4<<20 {
		t.Errorf("%d bytes were logged of a flood", n)
	}
	if tail := p.Tail(); len(tail) > 20 {
		t.Errorf("%d lines kept", len(tail))
	}
}

func TestStdoutIsDrained(t *testing.T) {
	s, _ := specOf(t, "")
	p := start(t, s)
	if text, err := invoke(t, p, "stdout", `{"mb":64}`); err != nil || text != "written" {
		t.Errorf("%q, %v", text, err)
	}
	// What a handler prints must not block it either.
	if text, err := invoke(t, p, "print", `{"mb":2}`); err != nil || text != "written" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestStopOfAStoppedProcess(t *testing.T) {
	s, _ := specOf(t, "")
	p := start(t, s)
	stopProcess(t, p.PID())
	done := make(chan struct{})
	go func() { p.Stop(context.Background()); close(done) }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		t.Fatal("Stop hangs on a stopped process")
	}
	if p.Exit() != "signal: killed" {
		t.Errorf("exit: %s", p.Exit())
	}
}

func TestDescribe(t *testing.T) {
	s, _ := specOf(t, "")
	before := testbin.Count()
	d, err := Describe(t.Context(), s)
	if err != nil || d.GetName() != "testplugin" {
		t.Fatalf("%v, %v", d, err)
	}
	before.Back(t)
}

func TestBinaryIsChecked(t *testing.T) {
	good := testbin.Build(t, fixture)
	code, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := Hash(good)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]struct {
		make func(dir string) string
		says string
	}{
		"group may write": {func(d string) string { return put(t, d, code, 0o775) }, "can be written by others"},
		"world may write": {func(d string) string { return put(t, d, code, 0o757) }, "can be written by others"},
		"not executable":  {func(d string) string { return put(t, d, code, 0o644) }, "not executable"},
		"folder open": {func(d string) string {
			f := put(t, d, code, 0o755)
			os.Chmod(d, 0o777)
			return f
		}, "can be written by others"},
		"symlink out": {func(d string) string {
			f := filepath.Join(d, "link")
			os.Symlink(good, f)
			return f
		}, "leads out of"},
		"a folder": {func(d string) string { return put(t, d, nil, 0) }, "not a regular file"},
		"absent":   {func(d string) string { return filepath.Join(d, "nothing") }, "no such file"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			s, _ := specOf(t, "")
			dir := filepath.Join(filepath.Dir(s.RunDir), "plugins")
			os.Mkdir(dir, 0o755)
			s.Binary = row.make(dir)
			_, err := Start(t.Context(), s)
			if err == nil || fault.From(err).Ref != fault.PluginBinary || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %q", err, row.says)
			}
		})
	}
	t.Run("pin", func(t *testing.T) {
		s, _ := specOf(t, "")
		s.SHA256 = sum
		p := start(t, s)
		if text, err := invoke(t, p, "echo", "{}"); err != nil || text != "{}" {
			t.Errorf("%q %v", text, err)
		}
		p.Stop(t.Context())
		s.SHA256 = strings.Repeat("0", 64)
		if _, err := Start(t.Context(), s); err == nil || fault.From(err).Ref != fault.PluginBinary || !strings.Contains(err.Error(), sum) {
			t.Errorf("a wrong pin: %v", err)
		}
	})
}

func put(t *testing.T, dir string, code []byte, mode os.FileMode) string {
	t.Helper()
	f := filepath.Join(dir, "p")
	if code == nil {
		if err := os.Mkdir(f, 0o755); err != nil {
			t.Fatal(err)
		}
		return f
	}
	if err := os.WriteFile(f, code, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f, mode); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLongRunDirIsToldUpFront(t *testing.T) {
	s, _ := specOf(t, "")
	s.RunDir = filepath.Join(s.RunDir, strings.Repeat("x", 80))
	if _, err := Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "shorter data_dir") {
		t.Errorf("got %v", err)
	}
}
