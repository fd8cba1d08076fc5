package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// tmpfs mounts a small file system of its own.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("mounting a tmpfs is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := tmpfs(t, "size=2m")
	s := open(t, dir, nil)
	_, err := s.StatePut(ctx, "p", 1, "first", []byte("kept"), false)
	must(t, err)
	stored := 0
	for stored < 100 {
		if _, err = s.StatePut(ctx, "p", 1, fmt.Sprint(stored), bytes.Repeat([]byte("x"), 100_000), false); err != nil {
			break
		}
		stored++
	}
	wantRef(t, err, fault.StoreFull)
	if st := s.State(); len(st) == 0 || st[0].Ref != fault.StoreFull {
		t.Errorf("the state says nothing of a full disk: %v", st)
	}
	if v, err := s.StateGet(ctx, "p", "first"); err != nil || string(v.Value) != "kept" {
		t.Errorf("reading on a full disk: %v %v", v, err)
	}
	must(t, s.Close())
	s = open(t, dir, nil)
	if w := s.Warnings(); len(w) > 0 {
		t.Fatalf("warnings: %v", w)
	}
	entries, _, err := s.StateList(ctx, "p", "", "", 0)
	must(t, err)
	if len(entries) != stored+1 {
		t.Errorf("%d entries, %d were stored", len(entries), stored+1)
	}
	// With room again it goes on.
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"))
	_, err = s.StatePut(ctx, "p", 1, "more", bytes.Repeat([]byte("x"), 100_000), false)
	must(t, err)
	if st := s.State(); len(st) > 0 {
		t.Errorf("with room again: %v", st)
	}
}

// An audit trail that can't be written, and rows that are lost, show in the state.
func TestFullDiskAndAudit(t *testing.T) {
	dir := tmpfs(t, "size=2m")
	s := open(t, dir, nil)
	row := AuditRow{Tool: "t", Arguments: bytes.Repeat([]byte("x"), 500_000)}
	await := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not in time: %s; the state is %v", what, s.State())
			}
		}
	}
	says := func(word string) bool {
		for _, f := range s.State() {
			if strings.Contains(f.Message, word) && f.Ref == fault.StoreFull {
				return true
			}
		}
		return false
	}
	for range 8 {
		s.Audit(row)
	}
	await("the trail backs up", func() bool { return says("the audit trail can't be written") })
	row.Arguments = nil
	for s.AuditDropped() == 0 {
		s.Audit(row)
	}
	if !says("rows of the audit trail were lost") {
		t.Errorf("lost rows: %v", s.State())
	}
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
	await("it is written with room again", func() bool { return !says("the audit trail can't be written") })
	if !says("rows of the audit trail were lost") {
		t.Errorf("lost rows are forgotten: %v", s.State())
	}
}

func TestReadOnlyDisk(t *testing.T) {
	dir := tmpfs(t, "size=4m")
	s := open(t, dir, nil)
	_, err := s.StatePut(ctx, "p", 1, "k", []byte("v"), false)
	must(t, err)
	must(t, s.Close())
	before, err := os.ReadFile(filepath.Join(dir, FileName))
	must(t, err)
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	_, err = Open(ctx, Options{Dir: dir})
	wantRef(t, err, fault.StoreFull)
	after, err := os.ReadFile(filepath.Join(dir, FileName))
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the file changed")
	}
	fresh := filepath.Join(dir, "fresh")
	_, err = Open(ctx, Options{Dir: fresh})
	wantRef(t, err, fault.StoreFull)
}
