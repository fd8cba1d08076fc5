package testbin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

var builds struct {
	sync.Mutex
	dir  string
	made map[string]string
}

// Build builds a main package without cgo and returns the binary's path. It is
// built once a test process, in a folder only its owner can write.
func Build(t testing.TB, importPath string) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	if out, ok := builds.made[importPath]; ok {
		return out
	}
	if out := os.Getenv(madeEnv(importPath)); out != "" {
		return out
	}
	if builds.dir == "" {
		dir, err := os.MkdirTemp("", "testbin")
		if err == nil {
			err = os.Chmod(dir, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		builds.dir, builds.made = dir, map[string]string{}
	}
	out := filepath.Join(builds.dir, filepath.Base(importPath))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", out, importPath)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", importPath, err, text)
	}
	if err := os.Chmod(out, 0o755); err != nil {
		t.Fatal(err)
	}
	builds.made[importPath] = out
	return out
}

// madeEnv names the variable that hands a built binary to a test run that can't
// build, as another user's.
func madeEnv(importPath string) string {
	return "TESTBIN_" + strings.ToUpper(filepath.Base(importPath))
}

// Made is that variable, set.
func Made(importPath, path string) string { return madeEnv(importPath) + "=" + path }

// Cleanup removes what Build made; for TestMain, after the tests.
func Cleanup() {
	builds.Lock()
	defer builds.Unlock()
	if builds.dir != "" {
		os.RemoveAll(builds.dir)
	}
}

// Counts is what a process holds.
type Counts struct {
	Goroutines, Files, Processes int
}

// Count counts this process's goroutines, open files and descendants.
func Count() Counts {
	files, _ := os.ReadDir("/proc/self/fd")
	return Counts{runtime.NumGoroutine(), len(files), len(Descendants())}
}

// Back waits until counts are back at what they were before, or fails the test
// with what is left.
func (before Counts) Back(t testing.TB) {
	t.Helper()
	var now Counts
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		now = Count()
		if now.Goroutines <= before.Goroutines && now.Files <= before.Files && now.Processes <= before.Processes {
			return
		}
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	t.Errorf("left behind: had %+v, have %+v; processes %v\n%s", before, now, Descendants(), stacks)
}

// Await polls a condition until it holds; after limit the test fails.
func Await(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// Descendants lists the live processes below this one, "PID NAME STATE" each.
func Descendants() []string { return Below(os.Getpid()) }

// Below lists the live processes below pid.
func Below(pid int) []string {
	type proc struct {
		pid, parent int
		text        string
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	children := map[int][]proc{}
	for _, file := range stats {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		text := string(raw)
		open, shut := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		if open < 0 || shut < open {
			continue
		}
		var p proc
		var state string
		fmt.Sscan(text[:open], &p.pid)
		fmt.Sscan(text[shut+1:], &state, &p.parent)
		if state == "Z" {
			continue
		}
		p.text = fmt.Sprintf("%d %s %s", p.pid, text[open+1:shut], state)
		children[p.parent] = append(children[p.parent], p)
	}
	var out []string
	for todo := children[pid]; len(todo) > 0; todo = todo[1:] {
		out = append(out, todo[0].text)
		todo = append(todo, children[todo[0].pid]...)
	}
	return out
}
