//go:build unix

package local

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

// Kinds of walls.
const (
	Namespaces = "namespaces"
	Bubblewrap = "bubblewrap"
	Unwalled   = "unsandboxed"
)

// walls are a kind of them.
type walls struct {
	name string
	// missing says what it lacks here; nil = it can be tried.
	missing func() error
	// spec is how a keeper is started behind them.
	spec func(r *Runner, s run.Spec, self string, box *sandbox) (child.Spec, error)
	// depth is how many processes are above the script's: those of the walls.
	depth int
	// files is whether the number of files is watched, since the walls don't bound it.
	files bool
}

// kinds are in the order in which they are tried.
var kinds = []walls{
	{name: Namespaces, missing: func() error { return nil }, spec: inNamespaces, depth: 2},
	{name: Bubblewrap, missing: noBubblewrap, spec: inBubblewrap, depth: 4, files: true},
	{name: Unwalled, missing: func() error { return nil }, spec: unwalled, depth: 2},
}

const (
	insideSelf  = "/run/keeper"
	insideIndex = "/run/index.sock"
	bwrap       = "/usr/bin/bwrap"
	shmSize     = 8 << 20
	// keeperTasks is how many threads a keeper has, which count as the script's, and
	// the processes of its walls.
	keeperTasks = 16
)

// limits of a keeper and what it starts.
func limits(l run.Limits) child.Limits {
	return child.Limits{Data: l.Memory, Processes: l.Processes + keeperTasks, OpenFiles: 256, FileSize: l.Disk}
}

// mounts are a sandbox's file tree: the system's programs, and what is the run's.
func (r *Runner) mounts(s run.Spec, self string) []child.Mount {
	var mounts []child.Mount
	for _, m := range child.SystemMounts() {
		switch m.Target {
		case "/tmp", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group":
			continue
		case "/etc/ssl", "/etc/ca-certificates", "/etc/pki":
			if s.Index == "" {
				continue
			}
		}
		mounts = append(mounts, m)
	}
	mounts = append(mounts,
		child.Mount{Target: "/tmp", Writable: true, Size: s.Limits.Disk},
		child.Mount{Target: "/out", Writable: true, Size: s.Limits.Disk},
		child.Mount{Target: "/in", Writable: true, Size: inSize},
		child.Mount{Target: insideSelf, Source: self},
	)
	if r.o.Shared != "" {
		mounts = append(mounts, child.Mount{Target: "/shared", Source: r.o.Shared})
	}
	if s.Packages != "" {
		mounts = append(mounts, child.Mount{Target: "/deps", Source: s.Packages})
	}
	if s.Wheels != "" {
		mounts = append(mounts, child.Mount{Target: "/wheels", Source: s.Wheels})
	}
	if s.Index != "" {
		mounts = append(mounts, child.Mount{Target: insideIndex, Source: s.Index})
	}
	return mounts
}

// inNamespaces builds the walls itself.
func inNamespaces(r *Runner, s run.Spec, self string, _ *sandbox) (child.Spec, error) {
	return child.Spec{
		Path: insideSelf, Args: []string{keeperName, s.Language, "/", r.o.Interpreters[s.Language]}, Dir: "/",
		Root: &child.Root{Mounts: r.mounts(s, self)}, FewCalls: true, Limits: limits(s.Limits),
	}, nil
}

func noBubblewrap() error {
	if os.Geteuid() == 0 {
		// Its sandboxes would be root's, whom limits on processes don't bind.
		return errors.New("not used by root, who has namespaces wherever bubblewrap would")
	}
	if !executable(bwrap) {
		return errors.New("it is not installed; Debian's package bubblewrap has it")
	}
	return nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// inBubblewrap has bubblewrap build them, for machines that let only certain programs
// have namespaces. The filter of system calls the keeper puts over itself.
func inBubblewrap(r *Runner, s run.Spec, self string, _ *sandbox) (child.Spec, error) {
	args := []string{bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--hostname", "script"}
	for _, m := range r.mounts(s, self) {
		switch {
		case m.Source == "":
			args = append(args, "--size", strconv.FormatInt(m.Size, 10), "--tmpfs", m.Target)
		case m.Optional:
			args = append(args, "--ro-bind-try", m.Source, m.Target)
		default:
			args = append(args, "--ro-bind", m.Source, m.Target)
		}
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--size", strconv.Itoa(shmSize), "--tmpfs", "/dev/shm", "--remount-ro", "/dev", "--remount-ro", "/",
		"--chdir", "/", "--", insideSelf, keeperName, s.Language, "/", r.o.Interpreters[s.Language], strconv.FormatInt(limits(s.Limits).Processes, 10))
	l := limits(s.Limits)
	l.Processes = 0 // they would be all of this user's, but for those in a namespace of users
	return child.Spec{Path: bwrap, Args: args, Dir: "/", NoNamespaces: true, KeepNetwork: true, Limits: l}, nil
}

// finishWalls puts up what bubblewrap does not.
func finishWalls(processes string) error {
	n, err := strconv.ParseUint(processes, 10, 32)
	if err != nil {
		return err
	}
	if err := setProcesses(n); err != nil {
		return err
	}
	return child.FewCalls()
}

// unwalled starts a keeper in a folder of its own, and nothing keeps a script there. What
// it leaves running, and its memory, are bounded all the same.
func unwalled(r *Runner, s run.Spec, self string, box *sandbox) (child.Spec, error) {
	base, err := os.MkdirTemp("", "script-")
	if err != nil {
		return child.Spec{}, err
	}
	box.base = base
	for _, dir := range []string{"in", "out", "tmp"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(base, dir), 0o700))
	}
	for name, to := range map[string]string{"deps": s.Packages, "wheels": s.Wheels} {
		if to != "" {
			err = errors.Join(err, os.Symlink(to, filepath.Join(base, name)))
		}
	}
	l := limits(s.Limits)
	l.Processes = 0 // they would be all of this user's
	return child.Spec{
		Path: self, Args: []string{keeperName, s.Language, base, r.o.Interpreters[s.Language]}, Dir: "/", Env: []string{sharedName + "=" + cmp.Or(r.o.Shared, "/shared")},
		NoNamespaces: true, KeepNetwork: true, KeepUser: true, Limits: l,
	}, err
}

// sweep removes the folder of a sandbox that has one.
func (b *sandbox) sweep() {
	if b.base != "" {
		_ = os.RemoveAll(b.base) // what is left lies in the folder for temporary files
	}
}

// below are the processes under pid that are a script's, and the one that keeps them.
func below(pid, depth int) (keeper int, script []int) {
	var walk func(pid, level int)
	walk = func(pid, level int) {
		switch {
		case level == depth-1:
			keeper = pid
		case level >= depth:
			script = append(script, pid)
		}
		if level < 1000 {
			for _, c := range children(pid) {
				walk(c, level+1)
			}
		}
	}
	walk(pid, 0)
	slices.Sort(script)
	return keeper, script
}
