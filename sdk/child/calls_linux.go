package child

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arch is what the filter's numbers are for.
var arch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

// forbidden are the calls no script needs and break-outs begin with: mounts and
// namespaces, other processes, keys, and those whose rings or programs do things
// that no filter sees.
var forbidden = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_PROCESS_MADVISE,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_PERSONALITY,
}

// newNamespaces are the flags of clone that make any.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// filter is the program. Offsets are those of struct seccomp_data.
func filter() []unix.SockFilter {
	const nrAt, archAt, arg0At = 0, 4, 16
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	fail := func(e unix.Errno) unix.SockFilter { return ret(unix.SECCOMP_RET_ERRNO | uint32(e)) }

	p := []unix.SockFilter{load(archAt), jump(unix.BPF_JEQ, arch, 1, 0), ret(unix.SECCOMP_RET_KILL_PROCESS), load(nrAt)}
	if arch == unix.AUDIT_ARCH_X86_64 {
		p = append(p, jump(unix.BPF_JGE, 0x40000000, 0, 1), ret(unix.SECCOMP_RET_KILL_PROCESS)) // x32
	}
	for _, nr := range forbidden {
		p = append(p, jump(unix.BPF_JEQ, nr, 0, 1), fail(unix.EPERM))
	}
	return append(p,
		// The flags of clone3 lie in memory; libraries fall back to clone.
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), fail(unix.ENOSYS),
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4), load(arg0At), jump(unix.BPF_JSET, newNamespaces, 0, 1), fail(unix.EPERM), ret(unix.SECCOMP_RET_ALLOW),
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 4), load(arg0At), jump(unix.BPF_JEQ, unix.AF_UNIX, 1, 0), fail(unix.EACCES), ret(unix.SECCOMP_RET_ALLOW),
		ret(unix.SECCOMP_RET_ALLOW),
	)
}

// restrictCalls puts the filter over this thread and what it becomes.
func (o order) restrictCalls() error {
	if !o.Spec.FewCalls {
		return nil
	}
	return setFilter(0)
}

// FewCalls puts the filter that Spec.FewCalls speaks of over this process and what it
// starts, for programs that others have built walls around. It can't be undone.
func FewCalls() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return setFilter(unix.SECCOMP_FILTER_FLAG_TSYNC)
}

func setFilter(flags uintptr) error {
	if arch == 0 {
		return fmt.Errorf("no filter for %s: %w", runtime.GOARCH, ErrUnsupported)
	}
	p := filter()
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	other, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(p)
	switch {
	case errno == unix.ENOSYS || errno == unix.EINVAL:
		return errors.Join(errno, ErrUnsupported)
	case errno != 0:
		return errno
	case other != 0:
		return fmt.Errorf("thread %d has another filter", other)
	}
	return nil
}
