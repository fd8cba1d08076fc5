package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// audit architectures, by GOARCH.
var auditArch = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64,
	"arm64": unix.AUDIT_ARCH_AARCH64,
}

// seccomp closes two holes no other wall covers: a plugin that is its own PID 1
// must not undo the signal that ties it to the host, and without a network
// namespace the only sockets left under network "none" are unix sockets.
func (o order) seccomp(r *Report) error {
	noSockets := o.Profile.Network == NetworkNone && !o.NS.Net
	arch, known := auditArch[runtime.GOARCH]
	if !known {
		if noSockets {
			return o.noNetwork(r, fmt.Errorf("no filter for %s", runtime.GOARCH))
		}
		return nil
	}
	if !noSockets && o.Mode != modeExec {
		o.networkInForce(r)
		return nil
	}
	if err := install(filter(arch, noSockets, o.Mode == modeExec)); err != nil {
		if noSockets {
			return o.noNetwork(r, err)
		}
		r.lacks("a seccomp filter (%v)", err)
		return nil
	}
	o.networkInForce(r)
	return nil
}

func (o order) networkInForce(r *Report) {
	switch {
	case o.NS.Net:
		r.has("network none (own network namespace, loopback only)")
	case o.Profile.Network == NetworkNone:
		r.has("network none (only unix sockets)")
	default:
		r.has("network all")
	}
}

func (o order) noNetwork(r *Report, err error) error {
	if o.Profile.MustNetwork {
		return refused("network = \"none\": %v", err)
	}
	r.lacks("network none (%v)", err)
	return nil
}

// filter builds the program. Offsets are those of struct seccomp_data.
func filter(arch uint32, noSockets, keepTie bool) []unix.SockFilter {
	const nrAt, archAt, arg0At, arg1At = 0, 4, 16, 24
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	ret := func(k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
	}
	fail := func(errno unix.Errno) unix.SockFilter { return ret(unix.SECCOMP_RET_ERRNO | uint32(errno)) }

	prog := []unix.SockFilter{
		load(archAt),
		equal(arch, 1, 0),
		fail(unix.ENOSYS), // another ABI's numbers mean other calls
		load(nrAt),
	}
	if arch == unix.AUDIT_ARCH_X86_64 {
		prog = append(prog, // the x32 numbers too
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 0x40000000, Jt: 0, Jf: 1},
			fail(unix.ENOSYS))
	}
	if noSockets {
		prog = append(prog,
			equal(unix.SYS_IO_URING_SETUP, 0, 1), // its rings open sockets past any filter
			fail(unix.ENOSYS),
			equal(unix.SYS_SOCKET, 0, 4),
			load(arg0At),
			equal(unix.AF_UNIX, 1, 0),
			fail(unix.EACCES),
			ret(unix.SECCOMP_RET_ALLOW),
		)
	}
	if !keepTie {
		return append(prog, ret(unix.SECCOMP_RET_ALLOW))
	}
	return append(prog,
		equal(unix.SYS_PRCTL, 0, 5),
		load(arg0At),
		equal(unix.PR_SET_PDEATHSIG, 0, 3),
		load(arg1At),
		equal(uint32(unix.SIGKILL), 1, 0),
		fail(unix.EPERM),
		ret(unix.SECCOMP_RET_ALLOW),
	)
}

func install(prog []unix.SockFilter) error {
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return errno
	}
	return nil
}
