package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// floor is what every strict plugin may use beside its own folders.
var floor = []Path{
	{Path: "/usr", Access: Exec}, {Path: "/bin", Access: Exec}, {Path: "/sbin", Access: Exec},
	{Path: "/lib", Access: Exec}, {Path: "/lib32", Access: Exec}, {Path: "/lib64", Access: Exec}, {Path: "/libx32", Access: Exec},
	// Certificates, and not the private keys beside them.
	{Path: "/etc/ssl/certs", Access: Read}, {Path: "/etc/ssl/cert.pem", Access: Read}, {Path: "/etc/ssl/openssl.cnf", Access: Read},
	{Path: "/etc/pki/tls/certs", Access: Read}, {Path: "/etc/pki/ca-trust", Access: Read}, {Path: "/etc/ca-certificates", Access: Read},
	{Path: "/etc/resolv.conf", Access: Read}, {Path: "/etc/hosts", Access: Read}, {Path: "/etc/nsswitch.conf", Access: Read},
	{Path: "/etc/localtime", Access: Read}, {Path: "/etc/passwd", Access: Read}, {Path: "/etc/group", Access: Read},
	{Path: "/etc/ld.so.cache", Access: Read}, {Path: "/etc/alternatives", Access: Read},
	{Path: "/sys/fs/cgroup", Access: Read},
	{Path: "/dev/null", Access: Write}, {Path: "/dev/zero", Access: Write},
	{Path: "/dev/urandom", Access: Read}, {Path: "/dev/random", Access: Read},
}

// files builds the file system the plugin sees: a small root of what is admitted
// under strict; elsewhere the machine's, with a /proc of its own processes and the
// host's own files hidden.
func (o *order) files(r *Report) error {
	o.survey()
	o.refuseAsked(r)
	for _, p := range o.Profile.Paths {
		if _, err := os.Stat(p.Path); err != nil {
			if p.Must {
				return refused("%s %s: %v", p.Access, p.Path, err)
			}
			if errors.Is(err, os.ErrNotExist) {
				r.lacks("%s (does not exist)", p.Path)
			}
		}
	}
	if o.Profile.Name == Strict && !o.wholeRoot() {
		if !o.NS.Mount {
			if o.opensHost() {
				r.lacks("the host's own files hidden (no mount namespace)")
			}
			return nil
		}
		if err := o.smallRoot(); err != nil {
			r.lacks("a root of its own (%v)", err)
			return nil
		}
		o.Rooted = true
		r.has("own root with %d paths", len(o.paths()))
		return nil
	}
	if o.NS.Mount {
		if err := freshProc("/proc"); err != nil {
			r.lacks("a /proc of its own (%v)", err)
		}
	}
	o.hideHost(r)
	return nil
}

// hideHost hides the host's own files from a plugin that sees the machine's.
func (o *order) hideHost(r *Report) {
	switch {
	case o.Profile.Name == None || len(o.Profile.Hide) == 0:
		return
	case !o.NS.Mount:
		r.lacks("the host's own files hidden (no mount namespace)")
		return
	}
	if err := o.hide("/"); err != nil {
		r.lacks("the host's own files hidden (%v)", err)
		return
	}
	o.Hidden = true
	r.has("the host's own files hidden")
}

func (o order) wholeRoot() bool {
	return slices.ContainsFunc(o.Profile.Paths, func(p Path) bool { return filepath.Clean(p.Path) == "/" })
}

// paths is floor and profile, outer paths first, so that an inner mount lands on
// the outer one.
func (o order) paths() []Path {
	all := slices.Concat(floor, o.Profile.Paths)
	slices.SortStableFunc(all, func(a, b Path) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// freshProc mounts a /proc that shows the namespace's own processes.
func freshProc(at string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	return nil
}

// piece is one admitted path, held open while the root is exchanged.
type piece struct {
	Path
	tree int
	dir  bool
}

// smallRoot pivots into an empty root with nothing but the admitted paths at
// their usual places. What is not there can't be opened, signalled through or
// connected to, sockets included.
func (o order) smallRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	var pieces []piece
	defer func() {
		for _, p := range pieces {
			unix.Close(p.tree)
		}
	}()
	for _, p := range o.paths() {
		if _, err := os.Stat(p.Path); err != nil {
			continue // files told of those that matter
		}
		k, err := take(p, p.Path)
		if err != nil {
			return err
		}
		pieces = append(pieces, k)
	}

	const at = "/tmp" // any folder that exists: hidden from here on
	base := at
	if info, err := os.Stat(base); err != nil || !info.IsDir() {
		base = "/usr"
	}
	if err := unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64k"); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	for _, p := range pieces {
		if err := place(base, p); err != nil {
			return err
		}
	}
	if err := o.hide(base); err != nil {
		return err
	}
	proc := filepath.Join(base, "proc")
	if err := os.MkdirAll(proc, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		os.Symlink(to, filepath.Join(base, "dev", name))
	}
	if err := os.MkdirAll(filepath.Join(base, "tmp"), 0o755); err != nil {
		return err
	}
	return pivot(base)
}

// place puts a tree under base at its own path.
func place(base string, p piece) error {
	at := filepath.Join(base, p.Path.Path)
	if _, err := os.Lstat(at); err != nil {
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if p.dir {
			err = os.Mkdir(at, 0o755)
		} else {
			err = os.WriteFile(at, nil, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if err := unix.MoveMount(p.tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", p.Path.Path, err)
	}
	return nil
}

// pivot makes base the root and drops the old one.
func pivot(base string) error {
	if err := os.Chdir(base); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("exchange the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("drop the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}
