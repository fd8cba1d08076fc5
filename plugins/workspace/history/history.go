// Package history keeps what files held before they were changed. It stands in a
// folder of its own, outside of what it keeps, and is bounded: by versions of a file
// and by bytes of all. A version is one file, a line of JSON and then the bytes, and
// is there whole or not at all, so that a crash leaves at most one version missing.
package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Version is what a file held before a change.
type Version struct {
	N      int       `json:"version"` // counts up from 1 for each file
	Path   string    `json:"path"`
	Saved  time.Time `json:"saved"`
	Change string    `json:"change"`           // what replaced it: write, edit, delete, revert
	Absent bool      `json:"absent,omitempty"` // there was no file
	Size   int64     `json:"size"`
}

// ErrNone says that there is no such version.
var ErrNone = errors.New("no such version is kept")

// Store is the history of one folder. Its methods may be called by many at once.
type Store struct {
	Versions int   // kept of a file
	Bytes    int64 // kept of all files

	mu    sync.Mutex
	root  *os.Root
	files map[string][]kept // by folder name, oldest first
	size  int64
}

type kept struct {
	n     int
	size  int64 // on disk
	saved time.Time
}

// Open opens the history in a folder, making it.
func Open(dir string, versions int, bytes int64) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{Versions: versions, Bytes: bytes, root: root, files: map[string][]kept{}}
	if err := s.index(); err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

// Close lets go of the folder.
func (s *Store) Close() error { return s.root.Close() }

func (s *Store) index() error {
	folders, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, folder := range folders {
		versions, err := fs.ReadDir(s.root.FS(), folder.Name())
		if err != nil {
			continue // none of ours
		}
		var all []kept
		for _, v := range versions {
			n, err := strconv.Atoi(v.Name())
			info, ierr := v.Info()
			if err != nil || ierr != nil || n < 1 || !info.Mode().IsRegular() {
				_ = s.root.Remove(path.Join(folder.Name(), v.Name())) // what a crash left
				continue
			}
			all = append(all, kept{n, info.Size(), info.ModTime()})
			s.size += info.Size()
		}
		if len(all) > 0 {
			slices.SortFunc(all, func(a, b kept) int { return a.n - b.n })
			s.files[folder.Name()] = all
		}
	}
	return nil
}

// folder is where the versions of a file stand.
func folder(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// Save keeps what a file holds before it is changed; raw nil = there is no file.
func (s *Store) Save(name, change string, raw []byte) (Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := folder(name)
	v := Version{N: 1, Path: name, Saved: time.Now().UTC(), Change: change, Absent: raw == nil, Size: int64(len(raw))}
	if all := s.files[dir]; len(all) > 0 {
		v.N = all[len(all)-1].n + 1
	}
	head, err := json.Marshal(v)
	if err != nil {
		return v, err
	}
	if err := s.root.MkdirAll(dir, 0o700); err != nil {
		return v, err
	}
	out := append(append(head, '\n'), raw...)
	temp, final := path.Join(dir, ".part"), path.Join(dir, strconv.Itoa(v.N))
	if err = s.root.WriteFile(temp, out, 0o600); err == nil {
		err = s.root.Rename(temp, final)
	}
	if err != nil {
		_ = s.root.Remove(temp)
		return v, fmt.Errorf("what the file held can't be kept: %w", err)
	}
	s.files[dir] = append(s.files[dir], kept{v.N, int64(len(out)), v.Saved})
	s.size += int64(len(out))
	s.prune(dir)
	return v, nil
}

// prune drops the oldest versions of a file, then of all files, over the bounds. The
// lock is held.
func (s *Store) prune(dir string) {
	for len(s.files[dir]) > s.Versions {
		s.drop(dir)
	}
	for s.size > s.Bytes {
		oldest := ""
		for d, all := range s.files {
			if oldest == "" || all[0].saved.Before(s.files[oldest][0].saved) {
				oldest = d
			}
		}
		if oldest == "" {
			return
		}
		s.drop(oldest)
	}
}

// drop removes the oldest version of a file.
func (s *Store) drop(dir string) {
	all := s.files[dir]
	_ = s.root.Remove(path.Join(dir, strconv.Itoa(all[0].n))) // gone is gone
	s.size -= all[0].size
	if all = all[1:]; len(all) == 0 {
		delete(s.files, dir)
		_ = s.root.Remove(dir)
		return
	}
	s.files[dir] = all
}

// List gives the versions of a file, the newest first.
func (s *Store) List(name string) []Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Version
	for _, k := range slices.Backward(s.files[folder(name)]) {
		if v, _, err := s.read(name, k.n); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// Get gives a version of a file; n 0 = the newest. It is ErrNone when it is not kept.
func (s *Store) Get(name string, n int) (Version, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.files[folder(name)]
	if n == 0 && len(all) > 0 {
		n = all[len(all)-1].n
	}
	if !slices.ContainsFunc(all, func(k kept) bool { return k.n == n }) {
		return Version{}, nil, ErrNone
	}
	return s.read(name, n)
}

func (s *Store) read(name string, n int) (Version, []byte, error) {
	var v Version
	f, err := s.root.Open(path.Join(folder(name), strconv.Itoa(n)))
	if err != nil {
		return v, nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(f)
	if err != nil {
		return v, nil, err
	}
	head, body, ok := bytes.Cut(raw, []byte("\n"))
	if !ok || json.Unmarshal(head, &v) != nil || v.Path != name || v.Size != int64(len(body)) {
		return v, nil, fmt.Errorf("version %d of the file is damaged", n)
	}
	if v.Absent {
		return v, nil, nil
	}
	return v, body, nil
}

// Describe says in a line what a version is.
func (v Version) Describe() string {
	what := fmt.Sprintf("%d bytes", v.Size)
	if v.Absent {
		what = "no file"
	}
	return fmt.Sprintf("version %d: %s, before the %s at %s", v.N, what, strings.ToLower(v.Change), v.Saved.Format(time.RFC3339))
}
