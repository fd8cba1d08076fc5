package task

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Without a time-zone database on the machine all zones are known, and the clocks of
// a machine without a zone are UTC's.
func TestNoZoneDatabase(t *testing.T) {
	if os.Getenv("BULKHEAD_NO_ZONES") != "" {
		if _, err := os.Stat("/usr/share/zoneinfo"); err == nil {
			t.Fatal("there is a database")
		}
		zone, err := Zone("Europe/Vienna")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("SHOWN", time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).In(zone).Format(time.RFC3339), time.Date(2026, 7, 1, 12, 0, 0, 0, time.Local).Format(time.RFC3339))
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root may hide the machine's database by a chroot")
	}
	dir := t.TempDir()
	build := exec.Command("go", "test", "-c", "-o", filepath.Join(dir, "x"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command("/x", "-test.run=^TestNoZoneDatabase$")
	cmd.Dir, cmd.Env = "/", []string{"BULKHEAD_NO_ZONES=1", "ZONEINFO=/nowhere"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "SHOWN 2026-07-01T14:00:00+02:00 2026-07-01T12:00:00Z") {
		t.Errorf("%v: %s", err, out)
	}
}
