package cache

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxEntries = 1000     // files in a folder
	maxHead    = 64 << 10 // bytes of what stands in front of a body
	suffix     = ".page"
)

// Store is a folder of copies.
type Store struct {
	dir      string
	maxBytes int64

	mu sync.Mutex // of what is written and removed; reading needs none
}

// entry is a copy: the head of its file, and its body.
type entry struct {
	URL       string      `json:"url"`
	Header    http.Header `json:"header"`
	Fetched   time.Time   `json:"fetched"`   // when the body came
	Validated time.Time   `json:"validated"` // when the server last stood for it
	Size      int64       `json:"size"`
	Sum       string      `json:"sum"` // of the body

	body []byte
}

// Open gives the store in a folder, which is made if need be, of maxBytes in all.
func Open(dir string, maxBytes int64) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &Store{dir: dir, maxBytes: maxBytes}, nil
}

func (s *Store) file(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:])+suffix)
}

// get gives the copy of a key, or nil. One that is damaged is removed.
func (s *Store) get(key, address string) *entry {
	e, err := s.read(s.file(key))
	if err == nil && e.URL != address {
		err = errors.New("it is of another address")
	}
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			s.drop(key)
		}
		return nil
	}
	return e
}

func (s *Store) read(name string) (*entry, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(io.LimitReader(f, maxHead+s.maxBytes), maxHead)
	head, err := in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	e := &entry{}
	if err := json.Unmarshal(head, e); err != nil {
		return nil, err
	}
	if e.body, err = io.ReadAll(in); err != nil {
		return nil, err
	}
	if int64(len(e.body)) != e.Size || sumOf(e.body) != e.Sum {
		return nil, errors.New("its body is not what was written")
	}
	return e, nil
}

func sumOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func (s *Store) drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = os.Remove(s.file(key)) // it may be gone already, or be written over later
}

// put writes a copy, whole or not at all, and makes room for it first.
func (s *Store) put(key string, e *entry) error {
	e.Size, e.Sum = int64(len(e.body)), sumOf(e.body)
	head, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if len(head) >= maxHead || e.Size > s.maxBytes/4 {
		return fmt.Errorf("%s is too large to be kept", e.URL)
	}
	whole := append(append(head, '\n'), e.body...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(int64(len(whole))); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "new-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(whole))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.file(key))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// room removes the copies that were written longest ago until there is room for
// another of so many bytes, and what a process that died left half written.
func (s *Store) room(size int64) error {
	dir, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var files []os.FileInfo
	total, n := size, 1
	for _, d := range dir {
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if !strings.HasSuffix(info.Name(), suffix) {
			if time.Since(info.ModTime()) > time.Minute {
				_ = os.Remove(filepath.Join(s.dir, info.Name())) // the next one tries again
			}
			continue
		}
		files, total, n = append(files, info), total+info.Size(), n+1
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		if total <= s.maxBytes && n <= maxEntries {
			break
		}
		if err := os.Remove(filepath.Join(s.dir, f.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		total, n = total-f.Size(), n-1
	}
	return nil
}
