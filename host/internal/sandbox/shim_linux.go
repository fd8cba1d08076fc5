package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// exitShim is the status of a shim that could not become its plugin.
const exitShim = 125

// MaybeRun is the first thing a host's main calls. In a host it returns at once;
// in a process that was started as a shim it never returns.
func MaybeRun() {
	if len(os.Args) < 2 || os.Args[1] != shimArg || os.Getenv(orderEnv) == "" {
		return
	}
	runtime.LockOSThread() // what follows acts on this thread and what it execs
	o, err := readOrder()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitShim)
	}
	if o.Mode == modeProbe {
		if err := probeInside(o.NS); err != nil {
			os.Exit(exitShim)
		}
		os.Exit(0)
	}
	unix.CloseOnExec(reportFD)
	unix.CloseOnExec(lifeFD)
	var r Report
	err = o.run(&r)
	// run comes back only with an error.
	r.answer(err)
	os.Exit(exitShim)
}

func probeInside(s spaces) error {
	if s.Mount {
		if err := freshProc("/proc"); err != nil {
			return err
		}
	}
	if s.Net {
		return loopbackUp()
	}
	return nil
}

func (o order) run(r *Report) error {
	if o.Mode == modeInner {
		*r = o.Report
		return o.become(r)
	}
	r.Profile, r.Network = o.Profile.Name, o.Profile.Network
	if o.Mode != modeKeeper {
		// Death of the host is death of the plugin; the pipe covers a host that
		// died before this line.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("tie the plugin to the host: %w", err)
		}
		if hostGone() {
			return errors.New("the host is gone")
		}
		r.has("own process tree (PID namespace)")
	} else {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become the keeper of the plugin's processes: %w", err)
		}
		r.has("process tree watched by a keeper")
		r.lacks("a PID namespace")
	}
	if o.Group != "" {
		if err := joinGroup(o.Group); err != nil {
			r.lacks("a limit of %d processes (%v)", o.Profile.Processes, err)
		} else {
			r.has("processes %d (cgroup)", o.Profile.Processes)
		}
	}
	if err := o.files(r); err != nil {
		return err
	}
	if o.NS.Net {
		if err := loopbackUp(); err != nil {
			r.lacks("a loopback device (%v)", err)
		}
	}
	if o.Mode == modeExec {
		return o.become(r)
	}
	return o.look(r)
}

// become restricts this thread and execs the plugin. It comes back only with an
// error.
func (o order) become(r *Report) error {
	if err := o.limits(r); err != nil {
		return err
	}
	if err := o.restrict(r); err != nil {
		return err
	}
	if o.Profile.Memory > 0 {
		r.has("memory %d MiB a process", o.Profile.Memory>>20)
	}
	// The answer goes out last: after it there is only the exec.
	if err := r.answer(nil); err != nil {
		return err
	}
	if o.Profile.Memory > 0 { // last: this runtime may need more than the plugin may have
		limit(unix.RLIMIT_DATA, uint64(o.Profile.Memory))
	}
	err := syscall.Exec(o.Path, o.Args, pluginEnv())
	fmt.Fprintf(os.Stderr, "start %s: %v\n", o.Path, err)
	os.Exit(exitShim)
	return err
}

// restrict gives up what the plugin must not have. It binds this thread, and all
// that is started from it.
func (o order) restrict(r *Report) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	r.has("no_new_privs")
	if o.Profile.Name == Strict || !o.NS.User && o.Profile.Name != None {
		if err := dropCapabilities(); err != nil {
			return fmt.Errorf("give up capabilities: %w", err)
		}
		r.has("no capabilities")
	} else if os.Geteuid() != 0 {
		if err := clearAmbient(); err != nil {
			return fmt.Errorf("give up capabilities: %w", err)
		}
	}
	if err := o.landlock(r); err != nil {
		return err
	}
	return o.seccomp(r)
}

func limit(what int, value uint64) error {
	return syscall.Setrlimit(what, &syscall.Rlimit{Cur: value, Max: value})
}

func (o order) limits(r *Report) error {
	p := o.Profile
	if err := limit(unix.RLIMIT_CORE, 0); err != nil {
		return fmt.Errorf("limit core files: %w", err)
	}
	var had syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NOFILE, &had); err == nil {
		if err := limit(unix.RLIMIT_NOFILE, min(uint64(p.Files), had.Max)); err != nil {
			return fmt.Errorf("limit open files: %w", err)
		}
		r.has("open files %d", min(uint64(p.Files), had.Max))
	}
	if p.FileSize > 0 {
		if err := limit(unix.RLIMIT_FSIZE, uint64(p.FileSize)); err != nil {
			return fmt.Errorf("limit the size of files: %w", err)
		}
		r.has("files of %d MiB at most", p.FileSize>>20)
	}
	if p.Processes > 0 && o.Group == "" {
		// The kernel counts per user and exempts root; only an ordinary user's
		// own user namespace makes the count that of this plugin.
		if os.Geteuid() != 0 && o.NS.User {
			if err := limit(unix.RLIMIT_NPROC, uint64(p.Processes)); err != nil {
				return fmt.Errorf("limit processes: %w", err)
			}
			r.has("processes %d", p.Processes)
		} else {
			r.lacks("a limit of %d processes", p.Processes)
		}
	}
	return nil
}

// answer tells the host once how it went and closes the pipe.
func (r *Report) answer(err error) error {
	a := answer{Report: *r}
	if err != nil {
		a.Err, a.Refused = err.Error(), errors.Is(err, ErrRefused)
	}
	text, merr := json.Marshal(a)
	if merr != nil {
		return merr
	}
	_, werr := unix.Write(reportFD, text)
	unix.Close(reportFD)
	return werr
}

// hostGone looks at the life pipe without waiting.
func hostGone() bool {
	fds := []unix.PollFd{{Fd: lifeFD, Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}
