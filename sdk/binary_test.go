package sdk_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
	"go.uber.org/goleak"
)

// serveEnv turns the test binary into the sample plugin.
const serveEnv = "SDK_TEST_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		sdk.Serve(samplePlugin())
		return
	}
	goleak.VerifyTestMain(m,
		// go-plugin waits for the end of the process it is attached to: this one.
		goleak.IgnoreAnyFunction("github.com/hashicorp/go-plugin.(*Client).reattach.func1"),
		// For a plugin served in this process go-plugin reads two pipes of its own to
		// which nothing writes and which nobody can close: they end when the garbage
		// collector comes by.
		goleak.IgnoreAnyFunction("github.com/hashicorp/go-plugin.copyChan"))
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBinaryConforms(t *testing.T) {
	sdktest.RunBinary(t, self(t), `{"greeting":"moin"}`, sdktest.Env(serveEnv+"=1"), sdktest.SlowTool("wait", `{}`))
}

func TestBinaryReachesItsHost(t *testing.T) {
	s := sdktest.Launch(t, self(t), sdktest.Env(serveEnv+"=1"))
	s.Call("remember", `{}`).WantText("kept")
	if v, _ := s.Host.State("key"); string(v) != "value" {
		t.Errorf("%q", v)
	}
	s.Call("panic", `{}`).WantError("execution_failed", "index out of range")
	s.Call("greet", `{}`).WantText("hello")
}

func TestPluginEndsWithItsHost(t *testing.T) {
	// A shell stands for a host that dies without a word to its plugin.
	host := exec.Command("/bin/sh", "-c", `"$0" >/dev/null & echo $!; wait`, self(t))
	host.Env = append(os.Environ(), serveEnv+"=1", wire.Handshake.MagicCookieKey+"="+wire.Handshake.MagicCookieValue,
		"TMPDIR="+t.TempDir()) // its socket stays there
	out, err := host.StdoutPipe()
	if err != nil {
		t.Skipf("no shell: %v", err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scanErr := fmt.Sscan(line, &pid); err != nil || scanErr != nil {
		t.Fatalf("%q %v %v", line, err, scanErr)
	}
	await(t, "the plugin", func() bool { return cmdline(pid) != "" && cmdline(pid) != "/bin/sh" })
	// It watches its parent from the moment it serves; the socket tells of that.
	await(t, "serving", func() bool { return hasSocket(pid) })
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait() // it was killed
	await(t, "the end of the plugin", func() bool { return cmdline(pid) == "" })
}

func cmdline(pid int) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	name, _, _ := bytes.Cut(raw, []byte{0})
	return string(name)
}

func hasSocket(pid int) bool {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return false
	}
	for _, fd := range fds {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		if err == nil && strings.HasPrefix(to, "socket:") {
			return true
		}
	}
	return false
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come about", what)
		}
	}
}

func TestCheckOutsideOfTests(t *testing.T) {
	for _, o := range sdktest.Check(self(t), "", sdktest.Env(serveEnv+"=1")) {
		if !o.Passed && o.Skipped == "" {
			t.Errorf("%s: %q", o.Name, o.Lines)
		}
	}
	bad := sdktest.Check("/bin/true", "")
	for _, o := range bad {
		if o.Passed || o.Skipped == "" && !strings.Contains(strings.Join(o.Lines, "\n"), "does not start") {
			t.Errorf("/bin/true passes for a plugin: %+v", o)
		}
	}
}
