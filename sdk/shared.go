package sdk

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bulkhead-dev/bulkhead/sdk/regular"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// Shared is the shared folder, as far as the plugin may see it. Files in it are
// named /shared/… wherever a model, a person or another plugin reads the name.
// Accepted on input are /shared/x, the real absolute path, attachments/x and
// results/x. Nothing outside is ever reached, not by .. and not by a link.
type Shared struct {
	dir  string // the real folder; empty = none
	name string // what dir is called: /shared or /shared/plugins/NAME
}

// sharedRoot is the name of the shared folder everywhere.
const sharedRoot = "/shared"

// Shared gives the shared folder; usable from Configure on. Without the grant
// shared it is the plugin's own part of it.
func (p *Plugin) Shared() *Shared {
	f := p.Facts()
	dir := f.SharedDir
	for _, env := range []string{wire.EnvShared, wire.EnvSharedLegacy} {
		if dir == "" {
			dir = os.Getenv(env)
		}
	}
	s := &Shared{dir: dir, name: sharedRoot}
	own := path.Join("plugins", f.Instance)
	if f.Instance != "" && !slices.Contains(f.Granted, "shared") && strings.HasSuffix(filepath.ToSlash(dir), "/"+own) {
		s.name = path.Join(sharedRoot, own)
	}
	return s
}

// rel gives the path below dir for any of the accepted forms.
func (s *Shared) rel(name string) (string, error) {
	if s.dir == "" {
		return "", Errorf(Unavailable, "this plugin has no shared folder; grant it with grants = [\"shared\"]")
	}
	clean := path.Clean(filepath.ToSlash(name))
	dir := path.Clean(filepath.ToSlash(s.dir))
	var rel string
	switch {
	case within(clean, dir):
		rel = strings.TrimPrefix(clean, dir)
	case within(clean, s.name):
		rel = strings.TrimPrefix(clean, s.name)
	case within(clean, "attachments"), within(clean, "results"):
		rel = clean
	default:
		return "", Errorf(InvalidArguments, "%q is not a file this plugin can reach: name it %s/…", name, s.name)
	}
	rel = strings.TrimPrefix(rel, "/")
	if rel == "" {
		rel = "."
	}
	return rel, nil
}

func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

func (s *Shared) root(name string) (*os.Root, string, error) {
	rel, err := s.rel(name)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, "", Errorf(Unavailable, "the shared folder can't be opened: %w", err)
	}
	return root, rel, nil
}

// Name gives the /shared/… name of a file in any of the accepted forms.
func (s *Shared) Name(name string) (string, error) {
	rel, err := s.rel(name)
	if err != nil {
		return "", err
	}
	return path.Join(s.name, rel), nil
}

// Folder is what the plugin's part of the shared folder is called: /shared, or
// /shared/plugins/NAME without the grant.
func (s *Shared) Folder() string { return s.name }

// RealPath gives the real path, for a child process that must open the file
// itself. The file, or folder, must exist and lie inside, links followed.
func (s *Shared) RealPath(name string) (string, error) {
	root, rel, err := s.root(name)
	if err != nil {
		return "", err
	}
	defer root.Close()
	info, err := root.Stat(rel)
	if err != nil {
		return "", sharedError(name, err)
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return "", Errorf(InvalidArguments, "%q is neither a regular file nor a folder", name)
	}
	return filepath.Join(s.dir, filepath.FromSlash(rel)), nil
}

// Open opens a file for reading.
func (s *Shared) Open(name string) (*os.File, error) {
	root, rel, err := s.root(name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := regular.OpenIn(root, rel)
	if errors.Is(err, regular.ErrNotRegular) {
		return nil, Errorf(InvalidArguments, "%q is not a regular file", name)
	}
	if err != nil {
		return nil, sharedError(name, err)
	}
	return f, nil
}

// ReadFile reads a file of at most max bytes.
func (s *Shared) ReadFile(name string, max int64) ([]byte, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, sharedError(name, err)
	}
	if int64(len(data)) > max {
		return nil, Errorf(TooLarge, "%q has more than %d bytes", name, max)
	}
	return data, nil
}

// Stat describes a file as a FileRef.
func (s *Shared) Stat(name string) (FileRef, error) {
	f, err := s.Open(name)
	if err != nil {
		return FileRef{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return FileRef{}, sharedError(name, err)
	}
	return s.ref(name, info.Size())
}

func (s *Shared) ref(name string, size int64) (FileRef, error) {
	shared, err := s.Name(name)
	if err != nil {
		return FileRef{}, err
	}
	return FileRef{Path: shared, Name: path.Base(shared), Size: size, MIME: mime.TypeByExtension(path.Ext(shared))}, nil
}

// Write stores a file, such as results/report.md, whole or not at all, making its
// folders. It replaces an older file of that name.
func (s *Shared) Write(name string, from io.Reader) (FileRef, error) {
	root, rel, err := s.root(name)
	if err != nil {
		return FileRef{}, err
	}
	defer root.Close()
	if dir := path.Dir(rel); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return FileRef{}, sharedError(name, err)
		}
	}
	temp := path.Join(path.Dir(rel), ".part-"+rand.Text())
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return FileRef{}, sharedError(name, err)
	}
	size, err := io.Copy(f, from)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = root.Rename(temp, rel)
	}
	if err != nil {
		_ = root.Remove(temp) // what failed is told below
		return FileRef{}, sharedError(name, err)
	}
	return s.ref(name, size)
}

// WriteFile is Write for bytes.
func (s *Shared) WriteFile(name string, data []byte) (FileRef, error) {
	return s.Write(name, strings.NewReader(string(data)))
}

// Remove deletes a file; one that is gone is no error.
func (s *Shared) Remove(name string) error {
	root, rel, err := s.root(name)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sharedError(name, err)
	}
	return nil
}

// sharedError words a file error with the shared name, never with the real folder.
func sharedError(name string, err error) error {
	var pathErr *fs.PathError
	cause := err
	if errors.As(err, &pathErr) {
		cause = pathErr.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e := Errorf(NotFound, "there is no file %q", name)
		e.cause = cause
		return e
	case errors.Is(err, fs.ErrPermission):
		return Errorf(Denied, "%q may not be touched: %w", name, cause)
	case strings.Contains(cause.Error(), "escapes"): // as os.Root says it
		return Errorf(InvalidArguments, "%q leads out of the shared folder", name)
	}
	return fmt.Errorf("%q: %w", name, cause)
}
