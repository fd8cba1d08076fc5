package child

import (
	"errors"
	"io"
	"os"
	"time"
)

// Spec says what to run and behind which walls. The zero walls are the strictest
// namespaces without a file tree of its own.
type Spec struct {
	Path string   // absolute, as the child sees it; the first of Args by default
	Args []string // with the program's name first, as in exec.Cmd
	Env  []string // all of it; nothing is inherited
	Dir  string   // working folder, as the child sees it; empty = /

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	ExtraFiles     []*os.File // from descriptor 3 on

	// KeepNetwork leaves the child the plugin's network; without it the child has
	// a loopback device of its own and nothing else.
	KeepNetwork bool
	// NoNamespaces runs the child without PID, mount, IPC, UTS and network
	// namespaces, for machines that have none. A Root can't be had then, nor a
	// network of its own (KeepNetwork must be set), and of a tree killed by force
	// only the process group is sure to end.
	NoNamespaces bool
	// Root is a file tree of the child's own; nil = it sees the plugin's.
	Root *Root
	// Files restricts the files the child can reach in its tree by Landlock.
	Files *Files
	// KeepUser runs the child as the plugin's own user even when that is root. By
	// default root gives it an unused user id, so that limits on processes bind it
	// and a slip of the kernel lands on nobody; its folders need that owner: User.
	KeepUser bool
	// AllowNamespaces lets the child make user namespaces of its own, as browsers
	// do for their sandbox.
	AllowNamespaces bool

	// FewCalls closes the system calls that break-outs begin with, by seccomp: mounts
	// and namespaces, tracing, keys, BPF, io_uring, and sockets of all families but
	// unix. A program of another architecture is killed.
	FewCalls bool

	Limits Limits
	// Grace is the time between SIGTERM and SIGKILL when the context ends or Stop
	// is called; 0 = none.
	Grace time.Duration
}

// Limits of one process, but for Processes, which counts all of the child's.
// 0 = none.
type Limits struct {
	Memory    int64 // bytes of address space
	Data      int64 // bytes of data segment, for runtimes that reserve address space
	CPU       time.Duration
	Processes int64
	OpenFiles int64
	FileSize  int64 // bytes
}

// Root is a file tree built from nothing.
type Root struct {
	Mounts []Mount
}

// Mount is one place of a Root.
type Mount struct {
	Target string // absolute, in the new tree
	// Source is a file or folder of the plugin's tree; empty = a new tmpfs.
	Source   string
	Writable bool
	Optional bool  // left out when the source is not there
	Size     int64 // bytes of a tmpfs; 0 = 16 MiB
}

// Files are the paths Landlock leaves open, as the child sees them; those that
// don't exist are left out. Exec implies reading.
type Files struct {
	Read, Write, Exec []string
}

// Support is what this machine and this process can give.
type Support struct {
	Namespaces bool   // PID, mount, IPC, UTS and network namespaces
	OwnUser    bool   // children of root get a user id of their own
	Landlock   int    // ABI version; 0 = none
	Reason     string // why there are no namespaces
}

// Status is how a child ended.
type Status struct {
	Code   int  // exit code; -1 when a signal ended it
	Signal int  // 0 = none
	Killed bool // the context or Stop ended it
}

// ErrUnsupported is wrapped by errors that say a wall can't be had here.
var ErrUnsupported = errors.New("not available on this machine")

// SystemMounts are the programs, libraries and public settings of the machine,
// read-only, with private /tmp, /dev and /proc: what most programs need to run.
func SystemMounts() []Mount {
	var m []Mount
	for _, dir := range []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
		"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
		"/etc/ssl", "/etc/ca-certificates", "/etc/pki", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
		"/etc/localtime", "/etc/passwd", "/etc/group", "/etc/mime.types", "/etc/fonts",
	} {
		m = append(m, Mount{Target: dir, Source: dir, Optional: true})
	}
	return append(m, Mount{Target: "/tmp", Writable: true, Size: 64 << 20})
}
