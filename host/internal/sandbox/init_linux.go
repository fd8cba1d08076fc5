package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// look starts the plugin and looks after it: it reaps what the plugin's tree
// leaves behind, ends with the plugin, and kills everything when the host goes
// away. As PID 1 of a namespace its own end does the killing; as a keeper it
// walks its descendants.
func (o order) look(r *Report) error {
	attr := &syscall.SysProcAttr{}
	if o.Mode == modeKeeper {
		attr.Pdeathsig = syscall.SIGKILL
		attr.Setpgid = true
	}
	if o.Hidden && o.NS.User && os.Geteuid() == 0 {
		// The plugin keeps what it needs to mount for its children, in a namespace
		// of its own: what was mounted outside of it can't be taken off inside.
		spaces{User: true, Mount: true}.apply(attr)
	}
	cmd := exec.Cmd{
		Path: o.Path, Args: o.Args, Env: pluginEnv(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: attr,
	}
	// File rules would bind the keeper too, and name its /proc/self; a limit of
	// memory would bind the init. A second shim takes those on, and answers the
	// host itself.
	inner := o.Mode == modeKeeper && o.Profile.Name == Strict || o.Profile.Memory > 0
	if inner {
		if err := o.second(&cmd, r); err != nil {
			return err
		}
	} else {
		if err := o.limits(r); err != nil {
			return err
		}
		if err := o.restrict(r); err != nil { // binds this thread and the plugin started from it
			return err
		}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the plugin: %w", err)
	}
	plugin := cmd.Process.Pid
	silence()
	// What runs below, as the same user, must not trace its guardian.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		r.lacks("a guardian that can't be traced (%v)", err)
	}
	for _, f := range cmd.ExtraFiles {
		f.Close()
	}
	if inner {
		unix.Close(reportFD)
	} else if err := r.answer(nil); err != nil {
		return err
	}

	go func() {
		waitHostGone()
		end(o.Mode, exitShim)
	}()
	status := reap(plugin)
	end(o.Mode, exitCode(status))
	return nil
}

// second makes cmd the start of an inner shim.
func (o order) second(cmd *exec.Cmd, r *Report) error {
	o.Mode, o.Report = modeInner, *r
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd.Path = "/proc/self/exe"
	cmd.Args = []string{"bulkhead-sandbox", shimArg, o.Profile.Plugin}
	cmd.Env = append(cmd.Env, orderEnv+"="+string(text))
	// Duplicates: the originals stay the keeper's own.
	for i, fd := range []int{reportFD, lifeFD} {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 10+i)
		if err != nil {
			return err
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(dup), "shim"))
	}
	return nil
}

// silence lets go of the plugin's pipes, so that their other ends see its end.
func silence() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	for fd := range 3 {
		unix.Dup3(int(null.Fd()), fd, 0)
	}
}

func waitHostGone() {
	fds := []unix.PollFd{{Fd: lifeFD, Events: unix.POLLIN}}
	for {
		fds[0].Revents = 0
		if n, err := unix.Poll(fds, -1); n == 1 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// reap waits for every child there is until the plugin itself has ended.
func reap(plugin int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return status
		case pid == plugin && (status.Exited() || status.Signaled()):
			return status
		}
	}
}

// exitCode passes a status on the way shells do: a signal is 128 and its number.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// end takes the whole tree along. The kernel does it for a PID namespace.
func end(mode string, code int) {
	if mode == modeKeeper {
		killDescendants(2 * time.Second)
	}
	os.Exit(code)
}

// killDescendants kills until none is left: a killed parent's children become
// our own, since we are their subreaper, and are found in the next round.
func killDescendants(limit time.Duration) {
	self := os.Getpid()
	for until := time.Now().Add(limit); time.Now().Before(until); {
		tree := Descendants(self)
		for _, pid := range tree {
			unix.Kill(pid, unix.SIGKILL)
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err != nil {
				return // ECHILD: nobody is left
			}
			if pid == 0 {
				break
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Descendants lists the processes below pid that this process can see.
func Descendants(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, e := range entries {
		kid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, err := parentOf(kid); err == nil {
			children[parent] = append(children[parent], kid)
		}
	}
	var tree []int
	for todo := children[pid]; len(todo) > 0; {
		kid := todo[0]
		todo = append(todo[1:], children[kid]...)
		tree = append(tree, kid)
	}
	return tree
}

// parentOf reads a process's parent; the name before it may hold anything.
func parentOf(pid int) (int, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 2 {
		return 0, errors.New("unreadable stat")
	}
	return strconv.Atoi(string(fields[1]))
}
