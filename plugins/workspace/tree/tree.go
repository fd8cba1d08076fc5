package tree

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/sdk/regular"
)

// Errors that callers tell apart.
var (
	ErrReadOnly = errors.New("the workspace is read-only")
	ErrTooLarge = errors.New("the file is larger than allowed")
	ErrChanged  = errors.New("the file was changed by somebody else meanwhile")
)

// Tree is a folder. Its methods may be called by many at once.
type Tree struct {
	Dir      string // for people; access goes by the open root
	ReadOnly bool
	MaxFile  int64 // bytes of a file that is read or written
	Linked   bool  // files with several names are let through

	root   *os.Root
	writes string // folder with a note of each file that is being written
	mu     sync.Mutex
	locks  map[string]*lock
	commit sync.Mutex // a file may have two paths here, by a link of a folder
}

type lock struct {
	sync.Mutex
	users int
}

// Open opens a folder, which must exist. In writes, a folder of the caller's that no
// other process uses, stands what is being written.
func Open(dir, writes string) (*Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(writes, 0o700); err != nil {
		root.Close()
		return nil, err
	}
	return &Tree{Dir: dir, root: root, writes: writes, MaxFile: 8 << 20, locks: map[string]*lock{}}, nil
}

// Sweep removes what a killed process left half written. Nobody may write meanwhile.
func (t *Tree) Sweep() error {
	notes, err := os.ReadDir(t.writes)
	for _, n := range notes {
		note := filepath.Join(t.writes, n.Name())
		folder, err := os.ReadFile(note)
		if err != nil {
			return err
		}
		_ = t.root.Remove(path.Join(string(folder), TempPrefix+n.Name())) // it may have got its name
		if err := os.Remove(note); err != nil {
			return err
		}
	}
	return err
}

// Close lets go of the folder.
func (t *Tree) Close() error { return t.root.Close() }

// FS is the folder for walking; links in it are not followed out of it.
func (t *Tree) FS() fs.FS { return t.root.FS() }

// Root is the open folder.
func (t *Tree) Root() *os.Root { return t.root }

// Clean checks a relative path and gives its one spelling: with slashes, without
// . and doubled slashes.
func Clean(name string) (string, error) {
	switch {
	case name == "":
		return ".", nil
	case !utf8.ValidString(name):
		return "", errors.New("the path is not valid UTF-8")
	case strings.ContainsRune(name, 0):
		return "", errors.New("the path holds a NUL")
	case len(name) > 4096:
		return "", errors.New("the path is longer than 4096 bytes")
	case strings.HasPrefix(name, "/"):
		return "", errors.New("the path is absolute; name it from the workspace's folder on")
	}
	clean := path.Clean(name)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", errors.New("the path leads out of the workspace")
	}
	return clean, nil
}

// Read gives the bytes of a file.
func (t *Tree) Read(name string) ([]byte, error) {
	f, info, err := t.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return t.readAll(f, info)
}

func (t *Tree) readAll(f *os.File, info fs.FileInfo) ([]byte, error) {
	if info.Size() > t.MaxFile {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, info.Size(), t.MaxFile)
	}
	// A file that grows meanwhile, or says it is empty and is not, is bounded too.
	raw, err := io.ReadAll(io.LimitReader(f, t.MaxFile+1))
	if err == nil && int64(len(raw)) > t.MaxFile {
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, t.MaxFile)
	}
	return raw, err
}

// open opens a regular file for reading, without ever waiting for it.
func (t *Tree) open(name string) (*os.File, fs.FileInfo, error) {
	// Looked at first, since opening a device may do something already, and again
	// once open, since it may have been swapped.
	info, err := t.root.Stat(name)
	if err == nil {
		err = t.proper(info)
	}
	if err != nil {
		return nil, nil, plain(err)
	}
	f, err := regular.OpenIn(t.root, name)
	if err != nil {
		return nil, nil, plain(err)
	}
	if info, err = f.Stat(); err == nil {
		err = t.proper(info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Proper says what is wrong with a file, without opening it; nil for a folder.
func (t *Tree) Proper(name string) error {
	info, err := t.root.Stat(name)
	if err == nil && !info.IsDir() {
		err = t.proper(info)
	}
	return plain(err)
}

// proper says what is wrong with a file.
func (t *Tree) proper(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return errors.New("it is a folder")
	case !mode.IsRegular():
		return fmt.Errorf("it is no regular file (%s)", mode.Type())
	case !t.Linked && names(info) > 1:
		return fmt.Errorf("the file has %d names (hard links), some perhaps outside the workspace; set hard_links = true on the workspace if that is meant", names(info))
	}
	return nil
}

// Change replaces a file by what f makes of it: old is nil when there is none. No
// other Change of the file runs meanwhile. When f gives an error nothing changes,
// and when somebody else changed the file it is ErrChanged. The new file has the
// permissions of the old, and is there whole or not at all.
func (t *Tree) Change(name string, f func(old []byte) ([]byte, error)) error {
	if t.ReadOnly {
		return ErrReadOnly
	}
	if name == "." {
		return errors.New("it is a folder")
	}
	defer t.lock(name)()
	old, before, err := t.current(name)
	if err != nil {
		return err
	}
	raw, err := f(old)
	if err != nil {
		return err
	}
	if int64(len(raw)) > t.MaxFile {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(raw), t.MaxFile)
	}
	mode := fs.FileMode(0o644)
	if before != nil {
		mode = before.Mode().Perm()
	}
	if err := t.folderFor(name); err != nil {
		return err
	}
	temp, done, err := t.temporary(name, raw, mode)
	if err != nil {
		return plain(err)
	}
	defer done()
	t.commit.Lock()
	defer t.commit.Unlock()
	if err = t.same(name, before); err == nil {
		err = plain(t.root.Rename(temp, name))
	}
	if err != nil {
		_ = t.root.Remove(temp) // it was only ours
	}
	return err
}

// Remove deletes a file after f was given its bytes.
func (t *Tree) Remove(name string, f func(old []byte) error) error {
	if t.ReadOnly {
		return ErrReadOnly
	}
	defer t.lock(name)()
	old, before, err := t.current(name)
	if err != nil {
		return err
	}
	if before == nil {
		return fs.ErrNotExist
	}
	if err := f(old); err != nil {
		return err
	}
	t.commit.Lock()
	defer t.commit.Unlock()
	if err := t.same(name, before); err != nil {
		return err
	}
	return plain(t.root.Remove(name))
}

// current reads a file that is to be changed; nil info = there is none. A link is
// refused: the change would replace the link.
func (t *Tree) current(name string) ([]byte, fs.FileInfo, error) {
	info, err := t.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, plain(err)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, nil, errors.New("it is a link; change the file it points to")
	}
	f, info, err := t.open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	raw, err := t.readAll(f, info)
	return raw, info, err
}

// same says whether a file is still the one that was read.
func (t *Tree) same(name string, before fs.FileInfo) error {
	now, err := t.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && before == nil:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return plain(err)
	case err != nil, before == nil, !os.SameFile(now, before), now.Size() != before.Size(), !now.ModTime().Equal(before.ModTime()):
		return ErrChanged
	}
	return nil
}

// folderFor makes the folders a file stands in.
func (t *Tree) folderFor(name string) error {
	if dir := path.Dir(name); dir != "." {
		return plain(t.root.MkdirAll(dir, 0o755))
	}
	return nil
}

// TempPrefix begins the names of files that are being written.
const TempPrefix = ".bulkhead-"

// temporary writes a file beside the one it will become; done is called when that is
// decided.
func (t *Tree) temporary(name string, raw []byte, mode fs.FileMode) (temp string, done func(), err error) {
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	note := filepath.Join(t.writes, hex.EncodeToString(id[:]))
	temp = path.Join(path.Dir(name), TempPrefix+filepath.Base(note))
	if err := os.WriteFile(note, []byte(path.Dir(name)), 0o600); err != nil {
		return "", nil, err
	}
	done = func() { _ = os.Remove(note) } // a note of what is gone is no harm
	f, err := t.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		done()
		return "", nil, err
	}
	_, err = f.Write(raw)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = t.root.Remove(temp)
		done()
	}
	return temp, done, err
}

// lock makes changes of a file wait for each other.
func (t *Tree) lock(name string) (unlock func()) {
	t.mu.Lock()
	l := t.locks[name]
	if l == nil {
		l = &lock{}
		t.locks[name] = l
	}
	l.users++
	t.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(t.locks, name)
		}
	}
}

// plain is an error without the path, which the caller names in its own way.
func plain(err error) error {
	var p *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &p):
		err = p.Err
	case errors.As(err, &link):
		err = link.Err
	}
	if err != nil && strings.Contains(err.Error(), "path escapes") {
		return errors.New("the path leads out of the workspace")
	}
	return err
}
