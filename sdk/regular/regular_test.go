//go:build unix

package regular

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A FIFO, a folder, a socket and a device are refused at once; files and links to
// them are read.
func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	fifo, file, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(file, []byte("text"), 0o600), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, p := range []string{fifo, dir, os.DevNull} {
			if f, err := Open(p); !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s: %v %v", p, f, err)
			}
		}
		if f, err := OpenIn(root, "fifo"); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%v %v", f, err)
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("opening a FIFO waits for a writer")
	}
	for _, p := range []string{file, link} {
		if raw, err := Read(p, 4); err != nil || string(raw) != "text" {
			t.Errorf("%s: %v %q", p, err, raw)
		}
	}
	if _, err := Read(file, 3); !errors.Is(err, ErrTooLong) {
		t.Errorf("%v", err)
	}
}
