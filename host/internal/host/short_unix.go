//go:build unix

package host

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// own says whether a folder is one of this user's that nobody else can write to: in
// /tmp anybody may have made it.
func own(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return errors.New("it is no folder")
	case !ok || int(stat.Uid) != os.Getuid():
		return errors.New("it belongs to another user")
	case info.Mode().Perm()&0o077 != 0:
		return errors.New("others may enter it; `chmod 700` it or remove it")
	}
	return nil
}

// lockOwner opens and locks the file by which a host holds a folder. The lock ends
// with the process.
func lockOwner(path string, create bool) (*os.File, error) {
	flags := os.O_RDWR | unix.O_NOFOLLOW
	if create {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil { // whoever had it may have removed it
		var here, there os.FileInfo
		if here, err = f.Stat(); err == nil {
			if there, err = os.Lstat(path); err == nil && !os.SameFile(here, there) {
				err = errors.New("it was replaced")
			}
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
