package analyze

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// Copies that a killed process left go at the next start, and nothing else does.
func TestOldCopiesAreRemoved(t *testing.T) {
	s := sdktest.Start(t, Plugin(), sdktest.Unconfigured(), sdktest.Granted("shared"))
	dir := filepath.Join(s.SharedDir, ".analyze")
	if err := os.MkdirAll(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(s.SharedDir, "outside.png")
	for _, name := range []string{outside, filepath.Join(dir, "old-0.png"), filepath.Join(dir, "young-0.png")} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * copyLife)
	if err := os.Chtimes(filepath.Join(dir, "old-0.png"), old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s.Configure(`{"ocr":false}`)
	s.Activate()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "old-0.png")); errors.Is(err, fs.ErrNotExist) {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the old copy is still there")
		}
	}
	for _, name := range []string{outside, filepath.Join(dir, "young-0.png"), filepath.Join(dir, "folder")} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}
