//go:build unix

package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func newTree(t *testing.T) (*Tree, string) {
	base := t.TempDir()
	dir := filepath.Join(base, "work")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tr, err := Open(dir, filepath.Join(t.TempDir(), "writes"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr, dir
}

func put(raw string) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) { return []byte(raw), nil }
}

func TestAChangeIsWholeAndKeepsTheMode(t *testing.T) {
	tr, dir := newTree(t)
	if err := tr.Change("a/b/run.sh", put("one")); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(dir, "a/b/run.sh")
	if err := os.Chmod(full, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := tr.Change("a/b/run.sh", func(old []byte) ([]byte, error) { return append(old, " two"...), nil }); err != nil {
		t.Fatal(err)
	}
	raw, err := tr.Read("a/b/run.sh")
	info, serr := os.Stat(full)
	if err != nil || serr != nil || string(raw) != "one two" || info.Mode().Perm() != 0o750 {
		t.Errorf("%q, %v, %v", raw, info.Mode(), err)
	}
	failed := errors.New("no")
	if err := tr.Change("a/b/run.sh", func([]byte) ([]byte, error) { return nil, failed }); err != failed {
		t.Errorf("%v", err)
	}
	all, err := os.ReadDir(filepath.Join(dir, "a/b"))
	if err != nil || len(all) != 1 {
		t.Errorf("%v is left, %v", all, err)
	}
}

// What lies outside is never reached, whatever is tried.
func TestNothingOutsideIsReached(t *testing.T) {
	tr, dir := newTree(t)
	secret := filepath.Join(filepath.Dir(dir), "secret")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(secret, []byte("secret"), 0o644))
	must(os.WriteFile(dir+"-sibling", []byte("secret"), 0o644))
	must(os.Symlink(secret, filepath.Join(dir, "link")))
	must(os.Symlink("../secret", filepath.Join(dir, "relative")))
	must(os.Symlink("..", filepath.Join(dir, "up")))
	must(os.Symlink("/proc/self", filepath.Join(dir, "proc")))
	must(os.Link(secret, filepath.Join(dir, "hard")))
	must(syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	must(os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	must(os.Symlink("/dev/zero", filepath.Join(dir, "zero")))
	names := []string{"link", "relative", "up/secret", "proc/environ", "hard", "fifo", "zero", "folder", "../secret", "../work-sibling", "a/../../secret", secret, "/proc/self/environ", "x\x00y", "\xff", strings.Repeat("a/", 3000), "no/such"}
	for _, name := range names {
		clean, err := Clean(name)
		if err == nil {
			_, err = tr.Read(clean)
		}
		if err == nil {
			t.Errorf("%.40q was read", name)
		}
		if err == nil || strings.Contains(err.Error(), filepath.Dir(dir)) {
			t.Errorf("%.40q: the error tells where the workspace is: %v", name, err)
		}
		if name == "no/such" {
			continue
		}
		clean, err = Clean(name)
		if err == nil {
			err = tr.Change(clean, put("overwritten"))
		}
		if err == nil {
			t.Errorf("%.40q was written", name)
		}
		if clean, err = Clean(name); err == nil {
			err = tr.Remove(clean, func([]byte) error { return nil })
		}
		if err == nil {
			t.Errorf("%.40q was removed", name)
		}
	}
	if raw, err := os.ReadFile(secret); err != nil || string(raw) != "secret" {
		t.Errorf("outside: %q, %v", raw, err)
	}
}

// A folder that is swapped for a link while files in it are read and written leads
// nowhere.
func TestASwappedFolderLeadsNowhere(t *testing.T) {
	tr, dir := newTree(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	for _, d := range []string{outside, filepath.Join(dir, "real")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{filepath.Join(outside, "f"): "secret", filepath.Join(dir, "real/f"): "inside"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		at := filepath.Join(dir, "d")
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.RemoveAll(at) // a change may have made a folder of it
			target := "real"
			if i%2 == 0 {
				target = outside
			}
			if err := os.Symlink(target, at); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Error(err)
				return
			}
		}
	})
	for range 3000 {
		if raw, err := tr.Read("d/f"); err == nil && !bytes.HasPrefix(raw, []byte("inside")) {
			t.Fatalf("%q was read", raw)
		}
		_ = tr.Change("d/f", put("inside again")) // refused or done, inside
	}
	close(stop)
	swapper.Wait()
	all, err := os.ReadDir(outside)
	raw, rerr := os.ReadFile(filepath.Join(outside, "f"))
	if err != nil || rerr != nil || len(all) != 1 || string(raw) != "secret" {
		t.Errorf("outside: %v, %q", all, raw)
	}
}

func TestConcurrentChangesLoseNone(t *testing.T) {
	tr, dir := newTree(t)
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "also")); err != nil {
		t.Fatal(err)
	}
	const each = 500
	var all sync.WaitGroup
	for i, name := range []string{"real/f", "also/f"} { // one file by two paths
		for n := range each {
			all.Go(func() {
				for {
					err := tr.Change(name, func(old []byte) ([]byte, error) { return fmt.Appendf(old, "%d.%d\n", i, n), nil })
					if !errors.Is(err, ErrChanged) {
						if err != nil {
							t.Error(err)
						}
						return
					}
				}
			})
		}
	}
	all.Wait()
	raw, err := tr.Read("real/f")
	seen := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		seen[line] = true
	}
	if err != nil || len(seen) != 2*each {
		t.Errorf("%d of %d changes are there, %v", len(seen), 2*each, err)
	}
}

func TestAFileChangedByOthersMeanwhileStays(t *testing.T) {
	tr, dir := newTree(t)
	full := filepath.Join(dir, "f")
	for name, meanwhile := range map[string]func() error{
		"written": func() error { return os.WriteFile(full, []byte("theirs, longer"), 0o644) },
		"replaced": func() error {
			return errors.Join(os.WriteFile(full+"2", []byte("theirs"), 0o644), os.Rename(full+"2", full))
		},
		"removed": func() error { return os.Remove(full) },
	} {
		if err := os.WriteFile(full, []byte("ours"), 0o644); err != nil {
			t.Fatal(err)
		}
		err := tr.Change("f", func([]byte) ([]byte, error) { return []byte("new"), meanwhile() })
		if !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
		if raw, err := os.ReadFile(full); err == nil && string(raw) == "new" {
			t.Errorf("%s: it was overwritten", name)
		}
	}
	if err := tr.Change("fresh", func([]byte) ([]byte, error) { return nil, os.WriteFile(filepath.Join(dir, "fresh"), nil, 0o644) }); !errors.Is(err, ErrChanged) {
		t.Errorf("made meanwhile: %v", err)
	}
}

func TestLimits(t *testing.T) {
	tr, dir := newTree(t)
	tr.MaxFile = 10
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("eleven bytes"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Read("f"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	if err := tr.Change("g", put("eleven bytes")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	tr.ReadOnly = true
	if err := tr.Change("g", put("x")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("%v", err)
	}
	if err := tr.Remove("f", func([]byte) error { return nil }); !errors.Is(err, ErrReadOnly) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "g")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("g is there")
	}
}

// What a killed process left half written goes at the next start, and only that.
func TestWhatIsHalfWrittenIsRemoved(t *testing.T) {
	dir, writes := t.TempDir(), filepath.Join(t.TempDir(), "writes")
	open := func() *Tree {
		t.Helper()
		tr, err := Open(dir, writes)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	tr := open()
	if err := tr.folderFor("a/b/f"); err != nil {
		t.Fatal(err)
	}
	left, _, err := tr.temporary("a/b/f", []byte("half"), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	theirs := TempPrefix + "0123456789ab"
	if err := os.WriteFile(filepath.Join(dir, theirs), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := tr.Change("whole", put("whole")); err != nil {
		t.Fatal(err)
	}
	if notes, err := os.ReadDir(writes); err != nil || len(notes) != 1 {
		t.Errorf("%v, %v", notes, err)
	}
	if err := open().Sweep(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{left: false, theirs: true, "whole": true, "a/b": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if notes, err := os.ReadDir(writes); err != nil || len(notes) != 0 {
		t.Errorf("%v, %v", notes, err)
	}
}
