package container

import (
	"encoding/json"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// notNeeded are calls of the engines' usual profile that no script has a use for.
var notNeeded = []string{"socket", "socketcall", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd",
	"memfd_secret", "name_to_handle_at", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
	"io_uring_setup", "io_uring_enter", "io_uring_register", "seccomp", "syslog", "quotactl", "quotactl_fd", "vhangup"}

// profile is the filter of system calls: the engines' usual one, without those and
// without the calls of other architectures; the only sockets are unix sockets.
func profile() ([]byte, error) {
	p := seccomp.DefaultProfile()
	for i := range p.ArchMap {
		p.ArchMap[i].SubArches = nil
	}
	for _, s := range p.Syscalls {
		s.Names = slices.DeleteFunc(s.Names, func(n string) bool { return slices.Contains(notNeeded, n) })
	}
	p.Syscalls = slices.DeleteFunc(p.Syscalls, func(s *seccomp.Syscall) bool { return len(s.Names) == 0 })
	p.Syscalls = append(p.Syscalls, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{"socket"}, Action: specs.ActAllow,
		Args: []specs.LinuxSeccompArg{{Index: 0, Value: unix.AF_UNIX, Op: specs.OpEqualTo}}}})
	no := uint(unix.EACCES)
	p.Syscalls = append(p.Syscalls, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{"socket"}, Action: specs.ActErrno, ErrnoRet: &no,
		Args: []specs.LinuxSeccompArg{{Index: 0, Value: unix.AF_UNIX, Op: specs.OpNotEqual}}}})
	return json.Marshal(p)
}
