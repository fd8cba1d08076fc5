//go:build !unix

package search

import (
	"io/fs"
	"os"
	"sync/atomic"
)

// folder is an open folder, held by all that is still to be done in it.
type folder struct {
	root  *os.Root
	users atomic.Int32
}

func openRoot(root *os.Root, name string) (*folder, error) {
	r, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	d := &folder{root: r}
	d.users.Store(1)
	return d, nil
}

func (d *folder) hold() { d.users.Add(1) }

func (d *folder) release() {
	if d.users.Add(-1) == 0 {
		d.root.Close()
	}
}

func (d *folder) entries() (files, dirs []string, err error) {
	list, err := fs.ReadDir(d.root.FS(), ".")
	for _, e := range list {
		switch t := e.Type(); {
		case t.IsRegular():
			files = append(files, e.Name())
		case t.IsDir():
			dirs = append(dirs, e.Name())
		}
	}
	return files, dirs, err
}

func (d *folder) sub(name string) (*folder, error) { return openRoot(d.root, name) }

type file struct{ *os.File }

func (d *folder) open(name string, _ bool) (f file, size int64, err error) {
	raw, err := d.root.Open(name)
	if err != nil {
		return f, 0, err
	}
	info, err := raw.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = os.ErrInvalid
	}
	if err != nil {
		raw.Close()
		return f, 0, err
	}
	return file{raw}, info.Size(), nil
}
