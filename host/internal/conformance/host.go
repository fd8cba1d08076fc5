package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// hostProcess is a running host that serves the fixture.
type hostProcess struct {
	address string
	cmd     *exec.Cmd
	done    chan struct{}
	said    *testbin.Buffer
}

const startTime = time.Minute

// serve builds host and fixture, starts them in dir and waits until the fixture is
// ready.
func serve(ctx context.Context, dir string) (*hostProcess, error) {
	host, plugins := filepath.Join(dir, "bulkhead"), filepath.Join(dir, "plugins")
	if err := os.Mkdir(plugins, 0o755); err != nil {
		return nil, err
	}
	for out, pkg := range map[string]string{host: "./host", filepath.Join(plugins, "bulkhead-plugin-conformance"): "./host/internal/conformance/fixture"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, text)
		}
	}
	config := filepath.Join(dir, "config.hcl")
	if err := os.WriteFile(config, []byte(`
host {
  data_dir  = "data"
  plugins   = "plugins"
  shared    = "shared"
  log_level = "info"
}
frontend "http" {
  address = "127.0.0.1:0"
}
plugin "conformance" {}
`), 0o600); err != nil {
		return nil, err
	}
	h := &hostProcess{cmd: exec.Command(host, "--config", config, "serve"), done: make(chan struct{}), said: &testbin.Buffer{}}
	h.cmd.Dir, h.cmd.Stdout, h.cmd.Stderr = dir, h.said, h.said
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(h.done)
		_ = h.cmd.Wait() // what it says is in the log
	}()
	if err := h.ready(ctx); err != nil {
		return nil, fmt.Errorf("%w:\n%s", err, h.stop())
	}
	return h, nil
}

// ready waits for the line of the fixture, which follows that of the door.
func (h *hostProcess) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		for line := range strings.Lines(h.said.String()) {
			if _, at, ok := strings.Cut(line, "http://"); ok && strings.HasPrefix(line, "listens on ") {
				h.address = strings.TrimRight(strings.Fields(at)[0], "/")
			}
			if strings.HasPrefix(line, "plugin conformance: ready") && h.address != "" {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the host is not ready within %s", startTime)
		case <-h.done:
			return fmt.Errorf("the host ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends the host and gives the end of what it said.
func (h *hostProcess) stop() string {
	_ = h.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-h.done:
	case <-time.After(40 * time.Second):
		_ = h.cmd.Process.Kill()
		<-h.done
	}
	lines := strings.SplitAfter(h.said.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "")
}
