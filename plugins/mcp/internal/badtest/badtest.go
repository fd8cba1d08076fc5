// Package badtest is what the bridge's tests share: servers built from this tree,
// run for the length of a test, and waits that end.
package badtest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// module is this tree's.
const module = "github.com/bulkhead-dev/bulkhead/"

var (
	mu    sync.Mutex
	dir   string
	built = map[string]string{}
)

// Run runs a package's tests and removes what was built for them.
func Run(m *testing.M) {
	code := m.Run()
	if dir != "" {
		_ = os.RemoveAll(dir) // a leftover in a temporary folder fails no test
	}
	os.Exit(code)
}

// Build builds a command once and gives its path.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if bin := built[pkg]; bin != "" {
		return bin
	}
	if dir == "" {
		d, err := os.MkdirTemp("", "mcp-test-")
		if err != nil {
			t.Fatal(err)
		}
		dir = d
	}
	bin := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", bin, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	built[pkg] = bin
	return bin
}

// Bad is the misbehaving server.
func Bad(t testing.TB) string {
	t.Helper()
	return Build(t, module+"plugins/mcp/testdata/badserver")
}

// Ask is the server that asks.
func Ask(t testing.TB) string {
	t.Helper()
	return Build(t, module+"plugins/mcp/testdata/askserver")
}

// HTTP runs the misbehaving server over HTTP for the length of the test.
func HTTP(t testing.TB, modes ...string) (url string) {
	t.Helper()
	cmd := exec.Command(Bad(t), append([]string{"http=127.0.0.1:0"}, modes...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("http://%s/mcp", strings.TrimSpace(line))
}

// Await waits until something is so, and fails the test when it does not come about.
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come about", what)
		}
	}
}

// Within is a context of the test that ends after d.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
