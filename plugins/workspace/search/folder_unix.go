//go:build unix

package search

import (
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// folder is an open folder, held by all that is still to be done in it.
type folder struct {
	f     *os.File
	fd    int // of f
	users atomic.Int32
}

func newFolder(f *os.File) *folder {
	d := &folder{f: f, fd: int(f.Fd())}
	d.users.Store(1)
	return d
}

// openRoot opens the folder a search begins in.
func openRoot(root *os.Root, name string) (*folder, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	return newFolder(f), nil
}

func (d *folder) hold() { d.users.Add(1) }

func (d *folder) release() {
	if d.users.Add(-1) == 0 {
		d.f.Close()
	}
}

// entries lists the folder; dirs are those that are folders themselves. Links and
// whatever is neither file nor folder are left out.
func (d *folder) entries() (files, dirs []string, err error) {
	for {
		list, err := d.f.ReadDir(1024)
		for _, e := range list {
			switch t := e.Type(); {
			case t.IsRegular():
				files = append(files, e.Name())
			case t.IsDir():
				dirs = append(dirs, e.Name())
			}
		}
		if err == io.EOF {
			return files, dirs, nil
		}
		if err != nil {
			return files, dirs, err
		}
	}
}

// sub opens a folder in this one, unless it became a link.
func (d *folder) sub(name string) (*folder, error) {
	fd, err := d.openat(name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return newFolder(os.NewFile(uintptr(fd), name)), nil
}

func (d *folder) openat(name string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// file is an open regular file.
type file int

// open opens a file of this folder, unless it became something else; errLinked when it
// has several names and linked is not set. size is what it says; it may have more.
func (d *folder) open(name string, linked bool) (f file, size int64, err error) {
	fd, err := d.openat(name, unix.O_NONBLOCK)
	if err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = os.ErrInvalid
	}
	if err == nil && st.Nlink > 1 && !linked {
		err = errLinked
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, 0, err
	}
	return file(fd), st.Size, nil
}

func (f file) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(f), p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (f file) Close() error { return unix.Close(int(f)) }
