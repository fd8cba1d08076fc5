package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	initName = "bulkhead-child-init"
	execName = "bulkhead-child-exec"
	// startTime is how long a child may take to become its program.
	startTime = 10 * time.Second
	// firstUser is where the user ids for root's children begin; they wrap after
	// userSpan.
	firstUser, userSpan = 900_000, 50_000
)

var userCount atomic.Uint32

// order is what the copies of the binary are told, by pipe.
type order struct {
	Spec    specJSON
	UID     int    // user of the program; -1 = stays
	Staging string // empty folder the new root is built on
	Files   int    // extra files
}

// specJSON is Spec without what passes as descriptors.
type specJSON struct {
	Path, Dir            string
	Args, Env            []string
	NoNamespaces, OwnNet bool
	Root                 *Root
	Files                *Files
	AllowNamespaces      bool
	FewCalls             bool
	Limits               Limits
}

// report is one line from the init: that the program runs, why not, or how it ended.
type report struct {
	Started bool
	Error   string
	Code    int
	Signal  int
	Ended   bool
}

// Child is a running child.
type Child struct {
	spec    Spec
	cmd     *exec.Cmd
	reports *os.File
	killed  atomic.Bool
	done    chan struct{}
	status  Status
	err     error
	stop    sync.Once
}

// User is the user id the next child of this plugin would have under spec: the
// owner its writable folders need, when the plugin is root. It is fixed for the
// Start that follows with StartAs.
func User(spec Spec) int {
	if spec.KeepUser || !realRoot() {
		return os.Geteuid()
	}
	return firstUser + int(userCount.Add(1)%userSpan)
}

// Start runs the program under a fresh user id.
func Start(ctx context.Context, spec Spec) (*Child, error) { return StartAs(ctx, spec, User(spec)) }

// StartAs runs the program under a user id that User gave. It returns when the
// program runs or can't; when ctx ends the whole tree of the child is ended.
func StartAs(ctx context.Context, spec Spec, uid int) (*Child, error) {
	if err := check(&spec); err != nil {
		return nil, err
	}
	c := &Child{spec: spec, done: make(chan struct{})}
	o := order{UID: -1, Files: len(spec.ExtraFiles), Spec: specJSON{
		Path: spec.Path, Args: spec.Args, Env: spec.Env, Dir: spec.Dir, NoNamespaces: spec.NoNamespaces,
		OwnNet: !spec.KeepNetwork, Root: spec.Root, Files: spec.Files, AllowNamespaces: spec.AllowNamespaces, FewCalls: spec.FewCalls, Limits: spec.Limits,
	}}
	if uid != os.Geteuid() {
		o.UID = uid
	}
	if spec.Root != nil {
		dir, err := os.MkdirTemp("", "child-root-")
		if err != nil {
			return nil, fmt.Errorf("child %s: %w", spec.Path, err)
		}
		o.Staging = dir
	}
	err := c.launch(ctx, o)
	if o.Staging != "" {
		// It was only a mount point, in another namespace, and the program stands on
		// what was mounted there by now.
		_ = os.Remove(o.Staging)
	}
	if err != nil {
		return nil, fmt.Errorf("child %s: %w", spec.Path, err)
	}
	return c, nil
}

func check(spec *Spec) error {
	if spec.Path == "" && len(spec.Args) > 0 {
		spec.Path = spec.Args[0]
	}
	if len(spec.Args) == 0 {
		spec.Args = []string{spec.Path}
	}
	if !filepath.IsAbs(spec.Path) {
		return fmt.Errorf("child: the program's path %q is not absolute", spec.Path)
	}
	if spec.Dir == "" {
		spec.Dir = "/"
	}
	if spec.NoNamespaces && (spec.Root != nil || !spec.KeepNetwork) {
		return fmt.Errorf("child %s: a root or a network of its own needs namespaces: %w", spec.Path, ErrUnsupported)
	}
	if spec.Files != nil && landlockABI() == 0 {
		return fmt.Errorf("child %s: Landlock: %w", spec.Path, ErrUnsupported)
	}
	return nil
}

// launch starts the init and waits until the program runs.
func (c *Child) launch(ctx context.Context, o order) error {
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer orderW.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		orderR.Close()
		return err
	}
	c.reports = reportR
	c.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{initName}, Env: []string{}, Dir: "/",
		Stdin: c.spec.Stdin, Stdout: c.spec.Stdout, Stderr: c.spec.Stderr,
		ExtraFiles:  append([]*os.File{orderR, reportW}, c.spec.ExtraFiles...),
		SysProcAttr: attributes(c.spec), WaitDelay: 2 * time.Second,
	}
	started, waited := make(chan error, 1), make(chan error, 1)
	go func() {
		// The signal that ties the init to its parent is sent when this thread
		// ends, so the thread stays until the child has.
		runtime.LockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			waited <- c.cmd.Wait()
		}
	}()
	err = <-started
	orderR.Close()
	reportW.Close()
	if err != nil {
		reportR.Close()
		return fmt.Errorf("namespaces: %w (%w)", err, ErrUnsupported)
	}
	raw, err := json.Marshal(o)
	if err == nil {
		_ = orderW.SetWriteDeadline(time.Now().Add(startTime)) // pipes take deadlines
		_, err = orderW.Write(raw)
	}
	orderW.Close()
	dec := json.NewDecoder(io.LimitReader(reportR, 1<<20))
	var first report
	if err == nil {
		until := time.Now().Add(startTime)
		if d, ok := ctx.Deadline(); ok && d.Before(until) {
			until = d
		}
		_ = reportR.SetReadDeadline(until) // pipes take deadlines
		stopWatch := context.AfterFunc(ctx, func() { _ = reportR.SetReadDeadline(time.Now()) })
		err = dec.Decode(&first)
		stopWatch()
	}
	if err != nil || !first.Started {
		c.killTree()
		<-waited
		reportR.Close()
		switch {
		case first.Error != "":
			return errors.New(first.Error)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		return fmt.Errorf("the child did not start: %w", err)
	}
	_ = reportR.SetReadDeadline(time.Time{}) // pipes take deadlines
	go c.watch(ctx, dec, waited)
	return nil
}

// watch owns the child until it has ended.
func (c *Child) watch(ctx context.Context, dec *json.Decoder, waited <-chan error) {
	ended := make(chan struct{})
	stopWatch := context.AfterFunc(ctx, func() { c.end(ended) })
	var last report
	decErr := dec.Decode(&last)
	waitErr := <-waited
	close(ended)
	stopWatch()
	c.reports.Close()
	c.status = Status{Code: last.Code, Signal: last.Signal, Killed: c.killed.Load()}
	if decErr != nil || !last.Ended {
		// The init was killed before it could tell.
		c.status.Code, c.status.Signal = -1, int(syscall.SIGKILL)
	}
	if errors.Is(waitErr, exec.ErrWaitDelay) {
		c.err = fmt.Errorf("child %s: something outside its tree keeps its output open: %w", c.spec.Path, waitErr)
	}
	close(c.done)
}

// Wait gives how the child ended, when it and its whole tree have.
func (c *Child) Wait() (Status, error) {
	<-c.done
	return c.status, c.err
}

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// PID is the process id of the child's init, the head of its tree.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Signal sends a signal to the program's process group.
func (c *Child) Signal(s syscall.Signal) error {
	if s == syscall.SIGKILL {
		c.killed.Store(true)
		c.killTree()
		return nil
	}
	return c.cmd.Process.Signal(s)
}

// Stop ends the whole tree: SIGTERM, the Grace of the Spec, SIGKILL. It returns
// when all has ended.
func (c *Child) Stop() Status {
	c.end(c.done)
	<-c.done
	return c.status
}

func (c *Child) end(ended <-chan struct{}) {
	c.stop.Do(func() {
		select {
		case <-ended:
			return
		default:
		}
		c.killed.Store(true)
		if c.spec.Grace > 0 && c.cmd.Process.Signal(syscall.SIGTERM) == nil {
			t := time.NewTimer(c.spec.Grace)
			defer t.Stop()
			select {
			case <-ended:
				return
			case <-t.C:
			}
		}
		c.killTree()
	})
}

// killTree kills the init. With a PID namespace the kernel ends all that is in
// it; without one the init is told first, and then ends what it can find.
func (c *Child) killTree() {
	pid := c.cmd.Process.Pid
	if c.spec.NoNamespaces {
		_ = c.cmd.Process.Signal(syscall.SIGUSR1) // it may be gone already
		deadline := time.Now().Add(3 * time.Second)
		for time.Now().Before(deadline) {
			if err := unix.Kill(pid, 0); err != nil || zombie(pid) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	_ = unix.Kill(-pid, unix.SIGKILL) // it may be gone already
	_ = c.cmd.Process.Kill()          // likewise
}

// attributes are the namespaces and ties of the init.
func attributes(spec Spec) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if spec.NoNamespaces {
		return a
	}
	a.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	if !spec.KeepNetwork {
		a.Cloneflags |= syscall.CLONE_NEWNET
	}
	if !realRoot() {
		uid, gid := os.Geteuid(), os.Getegid()
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_KILL, unix.CAP_DAC_OVERRIDE}
	}
	return a
}
