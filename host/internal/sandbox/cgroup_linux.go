package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

// Where a cgroup that limits processes may be made: version 1's own hierarchy,
// else version 2's root. The kernel exempts root from RLIMIT_NPROC, so a host
// that runs as root limits by cgroup, and can.
var groupRoots = []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"}

var groups atomic.Uint64

// makeGroup makes a cgroup for one start; empty when none is needed or possible.
func makeGroup(p Profile) string {
	if p.Processes <= 0 || os.Geteuid() != 0 {
		return ""
	}
	for _, root := range groupRoots {
		dir := filepath.Join(root, fmt.Sprintf("bulkhead-%d-%d", os.Getpid(), groups.Add(1)))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		err := os.WriteFile(filepath.Join(dir, "pids.max"), []byte(strconv.Itoa(p.Processes)), 0)
		if err == nil {
			sweepGroups(root)
			return dir
		}
		os.Remove(dir)
	}
	return ""
}

// joinGroup moves this process in; its children follow.
func joinGroup(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
}

// removeGroup removes a cgroup whose last process is just ending.
func removeGroup(dir string) {
	for range 50 {
		if err := os.Remove(dir); err == nil || os.IsNotExist(err) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// sweepGroups removes what hosts that were killed have left.
func sweepGroups(root string) {
	dirs, _ := filepath.Glob(filepath.Join(root, "bulkhead-*-*"))
	for _, dir := range dirs {
		var pid, n int
		if _, err := fmt.Sscanf(filepath.Base(dir), "bulkhead-%d-%d", &pid, &n); err != nil || pid == os.Getpid() {
			continue
		}
		if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); os.IsNotExist(err) {
			os.Remove(dir) // refused while a process is in it
		}
	}
}
