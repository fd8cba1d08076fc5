package sdktest

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Outcome is how one conformance case went.
type Outcome struct {
	Name    string
	Passed  bool
	Skipped string   // why it was not run; empty when it was
	Lines   []string // what failed, and what the plugin wrote then
}

// Check runs the cases of RunBinary outside of go test, for command lines, and
// gives one outcome a case. A plugin that does not start with the config given fails
// one, "starts", and no other is tried: all would fail by the same.
func Check(path, configJSON string, opts ...Option) []Outcome {
	opts = withConfig(configJSON, opts)
	start := &recorder{}
	start.run(func() { Launch(start, path, opts...) })
	if start.Failed() {
		return []Outcome{{Name: "starts", Lines: start.lines}}
	}
	var all []Outcome
	for _, c := range cases {
		if c.slow && slowTool(opts) == "" {
			all = append(all, Outcome{Name: c.name, Skipped: noSlowTool})
			continue
		}
		r := &recorder{}
		r.run(func() { c.run(r, Launch(r, path, c.options(opts)...)) })
		all = append(all, Outcome{Name: c.name, Passed: !r.Failed(), Lines: r.lines})
	}
	return all
}

// recorder is a TB that keeps what it is told.
type recorder struct {
	mu       sync.Mutex
	failed   bool
	lines    []string
	cleanups []func()
}

// run runs f, which Fatal may leave early, and then the clean-ups.
func (r *recorder) run(f func()) {
	step := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if v := recover(); v != nil {
					r.Errorf("panic: %v", v)
				}
			}()
			f()
		}()
		<-done
	}
	step(f)
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		step(last)
	}
}

func (r *recorder) Helper() {}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, strings.Split(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n")...)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(slices.Clip(r.cleanups), f)
}

func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "plugin-test-")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = os.RemoveAll(dir) }) // what is left is in the temporary folder
	return dir
}
