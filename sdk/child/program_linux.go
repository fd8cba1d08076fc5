package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// beProgram gives up everything and becomes the program. It returns only on
// failure, told on the pipe that closes when the program runs.
func beProgram() int {
	fail := func(fd int, what string, err error) int {
		_, _ = unix.Write(fd, []byte(what+": "+err.Error()+"\n")) // the init sees the exit as well
		return 127
	}
	// Loaded to the last library: from here on the old tree may go.
	if _, err := unix.Write(reportFD, []byte{ready}); err != nil {
		return 127 // the init is gone
	}
	in := os.NewFile(orderFD, "order")
	var o order
	if err := json.NewDecoder(io.LimitReader(in, 8<<20)).Decode(&o); err != nil {
		return fail(reportFD, "order", err)
	}
	// Extra files move down to 3; the pipe for errors goes above them first.
	errFD, err := unix.FcntlInt(reportFD, unix.F_DUPFD_CLOEXEC, filesFD+o.Files)
	if err != nil {
		return fail(reportFD, "descriptors", err)
	}
	in.Close()
	for i := range o.Files {
		if err := unix.Dup3(filesFD+i, 3+i, 0); err != nil {
			return fail(errFD, "descriptors", err)
		}
	}
	if err := unix.CloseRange(uint(3+o.Files), ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fail(errFD, "descriptors", err)
	}
	if o.Spec.Path == "" {
		return 0 // a trial: the walls stand
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"no new namespaces", o.forbidNamespaces},
		{"working folder", func() error { return os.Chdir(o.Spec.Dir) }},
		{"bounds", dropBounds}, // while the powers to do it are there
		{"user", o.dropUser},
		{"capabilities", dropCapabilities},
		// A change of user or powers has untied this process from its init.
		{"tie", func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) }},
		{"no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"Landlock", o.restrictFiles},
		{"limits", o.Spec.Limits.set},
		{"seccomp", o.restrictCalls}, // last: the steps before it need some of the calls
	} {
		if err := step.do(); err != nil {
			return fail(errFD, step.what, err)
		}
	}
	err = syscall.Exec(o.Spec.Path, o.Spec.Args, o.Spec.Env)
	return fail(errFD, o.Spec.Path, err)
}

// forbidNamespaces keeps the program from making namespaces, and with them new
// powers, inside its own. It must come while the powers are still there.
func (o order) forbidNamespaces() error {
	if o.Spec.AllowNamespaces || o.Spec.NoNamespaces {
		return nil
	}
	if o.UID >= 0 || realRoot() {
		// The count belongs to the user namespace, which here is the machine's own;
		// a process without powers gains nothing that its walls don't hold.
		return nil
	}
	err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil // no /proc in this tree, or a masked one: no_new_privs still holds
	}
	return err
}

func (o order) dropUser() error {
	if o.UID < 0 {
		return nil
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(o.UID); err != nil {
		return err
	}
	return syscall.Setuid(o.UID)
}

// dropBounds empties the set of powers that a program can ever get.
func dropBounds() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
				return nil // no power to shrink the set with, so none to give up
			}
			return err
		}
	}
	return nil
}

// dropCapabilities takes every power from this thread, for good: root's exec
// would give them back without the secure bits.
func dropCapabilities() error {
	const noRoot = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 // NOROOT, NO_SETUID_FIXUP, their locks, KEEP_CAPS locked
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0); err != nil && (os.Geteuid() == 0 || !errors.Is(err, unix.EPERM)) {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

// restrictFiles applies the Landlock rules to this thread and what it becomes.
func (o order) restrictFiles() error {
	f := o.Spec.Files
	if f == nil {
		return nil
	}
	if landlockABI() == 0 {
		return fmt.Errorf("%w", ErrUnsupported)
	}
	const (
		exec  = landlock.AccessFSSet(unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR)
		read  = landlock.AccessFSSet(unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR)
		onDir = landlock.AccessFSSet(unix.LANDLOCK_ACCESS_FS_READ_DIR)
	)
	var rules []landlock.Rule
	add := func(paths []string, access landlock.AccessFSSet) {
		for _, p := range paths {
			if info, err := os.Stat(p); err == nil && !info.IsDir() {
				rules = append(rules, landlock.PathAccess(access&^onDir, p))
			} else if err == nil {
				rules = append(rules, landlock.PathAccess(access, p))
			}
		}
	}
	add(append([]string{o.Spec.Path}, f.Exec...), exec)
	add(f.Read, read)
	for _, p := range f.Write {
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			rules = append(rules, landlock.RWFiles(p))
		} else if err == nil {
			rules = append(rules, landlock.RWDirs(p).WithRefer())
		}
	}
	return landlock.V5.BestEffort().RestrictPaths(rules...)
}

// set applies the limits, address space last: this process itself is large.
func (l Limits) set() error {
	for _, x := range []struct {
		resource int
		value    int64
	}{
		{unix.RLIMIT_CORE, -1},
		{unix.RLIMIT_CPU, int64((l.CPU + time.Second - 1) / time.Second)},
		{unix.RLIMIT_NPROC, l.Processes},
		{unix.RLIMIT_NOFILE, l.OpenFiles},
		{unix.RLIMIT_FSIZE, l.FileSize},
		{unix.RLIMIT_DATA, l.Data},
		{unix.RLIMIT_AS, l.Memory},
	} {
		if x.value == 0 {
			continue
		}
		v := uint64(max(x.value, 0))
		if err := syscall.Setrlimit(x.resource, &syscall.Rlimit{Cur: v, Max: v}); err != nil {
			return fmt.Errorf("resource %d: %w", x.resource, err)
		}
	}
	return nil
}
