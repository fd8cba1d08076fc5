// Package regular opens files whose paths others can put something else at: a FIFO
// would hold whoever opens it until somebody writes, a device may do anything.
package regular

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// ErrNotRegular says that what is at a path is no regular file.
var ErrNotRegular = errors.New("not a regular file")

// Open opens a regular file for reading. It never waits: what is no regular file is
// found out on the open descriptor, so nothing can be put in its place meanwhile.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlock, 0)
	return checked(f, err, path)
}

// OpenIn is Open for a path below root.
func OpenIn(root *os.Root, path string) (*os.File, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|nonBlock, 0)
	return checked(f, err, path)
}

func checked(f *os.File, err error, path string) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read reads a regular file of at most most bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: ErrTooLong}
	}
	return raw, err
}

// ErrTooLong says that a file has more bytes than are read.
var ErrTooLong = errors.New("the file is too long")
