//go:build unix

// Package alive tells which processes of this plugin still run, so that what a dead one
// left behind can be told from what a living one works with: each holds a lock on a file
// of its own in a folder that they share, and the system lets go of it whatever way the
// process ends.
package alive

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Mark is a process's own.
type Mark struct {
	Name string // lower-case letters and digits
	dir  string
	once sync.Once
	file *os.File
}

// Here makes the mark of this process in a folder, which is made if need be.
func Here(dir string) (*Mark, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	m := &Mark{Name: strings.ToLower(rand.Text()[:16]), dir: dir}
	f, err := os.OpenFile(filepath.Join(dir, m.Name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	m.file = f
	return m, nil
}

// Close takes the mark away.
func (m *Mark) Close() {
	m.once.Do(func() {
		_ = os.Remove(filepath.Join(m.dir, m.Name)) // without its lock it says nothing
		_ = m.file.Close()
	})
}

// Lives says whether the process of a mark still runs. The name may come from anywhere.
// A mark whose process has ended is taken away.
func (m *Mark) Lives(name string) bool {
	if name == m.Name {
		return true
	}
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return false
	}
	path := filepath.Join(m.dir, name)
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return true
	}
	_ = os.Remove(path) // the next look says the same
	return false
}
