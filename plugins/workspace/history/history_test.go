package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersionsComeBack(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, 3, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i, raw := range [][]byte{nil, {}, []byte("one\n\x00{"), []byte("two")} {
		if v, err := s.Save("a/b", "edit", raw); err != nil || v.N != i+1 {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	s.Close()
	if s, err = Open(dir, 3, 1<<20); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if all := s.List("a/b"); len(all) != 3 || all[0].N != 4 || all[2].N != 2 {
		t.Errorf("%+v", all)
	}
	for n, want := range map[int]string{0: "two", 2: "", 3: "one\n\x00{", 4: "two"} {
		if _, raw, err := s.Get("a/b", n); err != nil || string(raw) != want || raw == nil {
			t.Errorf("%d: %q, %v", n, raw, err)
		}
	}
	for _, n := range []int{1, 5, -1} {
		if _, _, err := s.Get("a/b", n); !errors.Is(err, ErrNone) {
			t.Errorf("%d: %v", n, err)
		}
	}
	if v, err := s.Save("a/b", "write", []byte("three")); err != nil || v.N != 5 {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := s.Save("new", "write", nil); err != nil || !v.Absent || !strings.Contains(v.Describe(), "no file") {
		t.Errorf("%+v, %v", v, err)
	}
	if v, raw, err := s.Get("new", 0); err != nil || !v.Absent || raw != nil {
		t.Errorf("%+v, %q, %v", v, raw, err)
	}
}

func TestAllIsBounded(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, 100, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 200 {
		if _, err := s.Save(fmt.Sprint("f", i%7), "edit", []byte(strings.Repeat("x", 500))); err != nil {
			t.Fatal(err)
		}
	}
	var size int64
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if info, ierr := d.Info(); err == nil && ierr == nil && !d.IsDir() {
			size += info.Size()
		}
		return err
	})
	if err != nil || size > 10_000 || size < 5_000 || size != s.size {
		t.Errorf("%d bytes are kept, counted %d, %v", size, s.size, err)
	}
	if _, raw, err := s.Get("f3", 0); err != nil || len(raw) != 500 {
		t.Errorf("the newest: %d bytes, %v", len(raw), err)
	}
}

func TestDamageIsTold(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, 10, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{"one", "two", "three"} {
		if _, err := s.Save("f", "edit", []byte(raw)); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	at := filepath.Join(dir, folder("f"))
	for name, raw := range map[string]string{"2": "{", ".part": "half"} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = Open(dir, 10, 1<<20); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, err := s.Get("f", 2); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
	if all := s.List("f"); len(all) != 2 {
		t.Errorf("%+v", all)
	}
	if _, err := os.Stat(filepath.Join(at, ".part")); err == nil {
		t.Error("what a crash left is there")
	}
}
