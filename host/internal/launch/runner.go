package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
)

// waitDelay is how long a grandchild may hold the plugin's pipes after its end.
const waitDelay = 500 * time.Millisecond

// keeperGrace is how long a keeper has to kill the plugin's tree.
const keeperGrace = time.Second

// run is go-plugin's view of the process: a runner.Runner that trusts nothing.
type run struct {
	spec *Spec
	path string

	cmd       *exec.Cmd
	guard     *sandbox.Guard
	handshake *handshake
	stdout    *io.PipeReader
	stderr    *stderr
	fd2       *lines
	sockets   string // go-plugin's folder for this process

	mu      sync.Mutex
	started bool
	ended   bool
	killed  bool
	pid     int
	report  sandbox.Report
	done    chan struct{} // closed when the process has been waited for
	state   *os.ProcessState
	waitErr error
}

func newRun(spec *Spec, path string) *run {
	r, w := io.Pipe()
	log := newStderr(spec.Log)
	return &run{
		spec: spec, path: path,
		handshake: &handshake{instance: spec.Instance, to: w},
		stdout:    r,
		stderr:    log,
		fd2:       &lines{to: log},
		done:      make(chan struct{}),
	}
}

// use takes the command go-plugin prepared: only its environment matters.
func (r *run) use(env []string, sockets string) error {
	r.sockets = sockets
	r.cmd = &exec.Cmd{
		Path: r.path,
		Args: append([]string{r.path}, r.spec.Args...),
		Env:  append(r.spec.environ(), env...),
		Dir:  "/",
		// Stdin stays nil: the host's own may be a client's.
		Stdout:    r.handshake,
		Stderr:    r.fd2,
		WaitDelay: waitDelay,
	}
	guard, err := sandbox.Wrap(r.cmd, r.spec.Sandbox)
	if err != nil {
		return r.sandboxFault(err)
	}
	r.guard = guard
	return nil
}

func (r *run) sandboxFault(err error) error {
	if errors.Is(err, sandbox.ErrRefused) {
		return r.spec.failed(fault.PluginSandbox, nil, "%v", err)
	}
	return r.spec.failed(fault.PluginStart, r.stderr.last(), "%v", err)
}

// Start starts the process and waits until its sandbox is in force.
func (r *run) Start(ctx context.Context) error {
	started := make(chan error, 1)
	go r.live(started)
	if err := <-started; err != nil {
		return r.spec.failed(fault.PluginStart, nil, "%v", err)
	}
	report, err := r.guard.Report(ctx)
	if err != nil {
		r.kill()
		<-r.done
		return r.sandboxFault(err)
	}
	r.mu.Lock()
	r.report = report
	r.mu.Unlock()
	return nil
}

// live starts the process and waits for its end on one OS thread that is never
// given back: the kernel ties the process to the thread that started it.
func (r *run) live(started chan<- error) {
	runtime.LockOSThread()
	err := r.cmd.Start()
	r.guard.Started()
	if err != nil {
		r.guard.Ended()
		r.handshake.end()
		started <- err
		return
	}
	r.mu.Lock()
	r.started, r.pid = true, r.cmd.Process.Pid
	killed := r.killed
	r.mu.Unlock()
	started <- nil
	if killed {
		r.kill()
	}
	err = r.cmd.Wait()
	r.mu.Lock()
	r.ended, r.state, r.waitErr = true, r.cmd.ProcessState, err
	r.mu.Unlock()
	r.guard.Ended()
	r.handshake.end()
	r.fd2.flush()
	r.stderr.flush()
	close(r.done)
}

// kill ends the process and all it started. It does not wait for the end.
func (r *run) kill() {
	r.mu.Lock()
	r.killed = true
	pid, alive := r.pid, r.started && !r.ended
	r.mu.Unlock()
	if !alive {
		return
	}
	r.guard.Release()
	if r.guard.Keeper() {
		select {
		case <-r.done:
			return
		case <-time.After(keeperGrace):
		}
	}
	killTree(pid)
	r.cmd.Process.Kill()
}

// exit says how the process ended.
func (r *run) exit() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended || r.state == nil {
		return "still running"
	}
	status, ok := r.state.Sys().(syscall.WaitStatus)
	if code := r.state.ExitCode(); ok && r.guard.Relays() && code > 128 && code < 128+65 {
		return fmt.Sprintf("signal: %s", syscall.Signal(code-128))
	}
	if ok && status.Signaled() {
		return fmt.Sprintf("signal: %s", status.Signal())
	}
	return r.state.String()
}

// Wait waits for the end.
func (r *run) Wait(context.Context) error {
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waitErr
}

// Kill kills the whole tree.
func (r *run) Kill(context.Context) error {
	r.kill()
	return nil
}

// Stdout carries the handshake line, if it is one.
func (r *run) Stdout() io.ReadCloser { return r.stdout }

// Stderr is empty: go-plugin's own reader of it can be made to panic.
func (r *run) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is the binary.
func (r *run) Name() string { return r.path }

// ID is the process id.
func (r *run) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.pid)
}

// Diagnose has nothing to add.
func (r *run) Diagnose(context.Context) string { return "" }

// PluginToHost admits only a socket in the folder made for this process: a
// plugin must not send its host anywhere else.
func (r *run) PluginToHost(network, address string) (string, string, error) {
	info, err := os.Lstat(address)
	if network != "unix" || filepath.Dir(filepath.Clean(address)) != r.sockets || err != nil || info.Mode().Type() != os.ModeSocket {
		return "", "", r.spec.failed(fault.PluginHandshake, nil, "it wants to be reached at %s %q, which is not a socket in its own run folder", cut(network, 20), cut(address, 120))
	}
	return network, address, nil
}

// HostToPlugin changes nothing: both see the folder under the same path.
func (r *run) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
