package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// walls prepares the namespaces the init was started in.
func (o order) walls() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	if o.Spec.OwnNet {
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("loopback: %w", err)
		}
	}
	if o.Spec.Root != nil {
		return o.buildRoot()
	}
	// The old tree stays, but /proc must show the new PID namespace only.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("/proc of the child: %w", err)
	}
	return nil
}

// buildRoot makes the tree on the staging folder and moves into it.
func (o order) buildRoot() error {
	root := o.Staging
	if err := tmpfs(root, 1<<20, false); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	for _, m := range o.Spec.Root.Mounts {
		if err := m.make(root); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	if err := devices(root); err != nil {
		return fmt.Errorf("/dev: %w", err)
	}
	proc := filepath.Join(root, "proc")
	if err := os.MkdirAll(proc, 0o755); err != nil {
		return err
	}
	// Where the outer /proc is masked the kernel gives no new one; most programs do
	// without, and a foreign one must not be shown.
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
}

func tmpfs(target string, size int64, everyone bool) error {
	mode := "0755"
	if everyone {
		mode = "1777"
	}
	return unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("size=%d,nr_inodes=%d,mode=%s", size, max(size/4096, 4096), mode))
}

// make puts one mount into the new tree.
func (m Mount) make(root string) error {
	target := filepath.Join(root, filepath.Clean("/"+m.Target))
	if m.Source == "" {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		size := m.Size
		if size <= 0 {
			size = 16 << 20
		}
		if err := tmpfs(target, size, m.Writable); err != nil || m.Writable {
			return err
		}
		return unix.MountSetattr(unix.AT_FDCWD, target, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	info, err := os.Lstat(m.Source)
	if errors.Is(err, fs.ErrNotExist) && m.Optional {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 && !m.Writable {
		link, err := os.Readlink(m.Source)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(link) && filepath.Clean(m.Source) == filepath.Clean(m.Target) {
			// A system's /bin -> usr/bin: the same link leads to the same place.
			if real, err := filepath.EvalSymlinks(m.Source); err == nil && isUnder(real, "/usr") {
				return os.Symlink(link, target)
			}
		}
	}
	if info, err = os.Stat(m.Source); errors.Is(err, fs.ErrNotExist) && m.Optional {
		return nil // a link that leads nowhere
	} else if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else {
		err = touch(target)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(m.Source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if !m.Writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	return unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &attr)
}

func isUnder(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// devices makes the few devices a program needs.
func devices(root string) error {
	dev := filepath.Join(root, "dev")
	if err := os.MkdirAll(filepath.Join(dev, "shm"), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		at := filepath.Join(dev, name)
		if err := touch(at); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, at, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return tmpfs(filepath.Join(dev, "shm"), 8<<20, true)
}

// loopbackUp brings up the one device of a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(req))); errno != 0 {
		return errno
	}
	return nil
}
