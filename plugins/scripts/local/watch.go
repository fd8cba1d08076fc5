//go:build unix

package local

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

// lookEvery is how often the memory of a run is added up. What its processes can take
// in between is bounded by how fast memory is given: some tens of megabytes.
const lookEvery = 25 * time.Millisecond

type watch struct {
	quit chan struct{}
	peak chan int64
}

// mostFiles is how many files a sandbox's file systems have each, where the walls don't
// bound them.
const mostFiles = 4096

// look adds up the private memory of all processes of a script below pid, and calls over
// once when it is more than limit, or when there are more files than there may be.
func (w walls) look(pid int, limit int64, over func(cause string)) *watch {
	out := &watch{quit: make(chan struct{}), peak: make(chan int64, 1)}
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		peak, told := int64(0), false
		for {
			select {
			case <-out.quit:
				out.peak <- peak
				return
			case <-tick.C:
			}
			keeper, script := below(pid, w.depth)
			used := int64(0)
			for _, p := range script {
				used += private(p)
			}
			peak = max(peak, used)
			switch {
			case told:
			case limit > 0 && used > limit:
				told = true
				over(run.Memory)
			case w.files && tooManyFiles(keeper):
				told = true
				over(run.Disk)
			}
		}
	}()
	return out
}

// end stops the watch and gives the most it has seen.
func (w *watch) end() int64 {
	close(w.quit)
	return <-w.peak
}

// tooManyFiles says whether one of the file systems that a keeper sees holds more files
// than it may.
func tooManyFiles(keeper int) bool {
	for _, dir := range []string{"tmp", "out", "in", "dev/shm"} {
		var s unix.Statfs_t
		if unix.Statfs(fmt.Sprintf("/proc/%d/root/%s", keeper, dir), &s) == nil && s.Files-s.Ffree > mostFiles {
			return true
		}
	}
	return false
}

func children(pid int) (all []int) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil // it has ended
	}
	for _, t := range tasks {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue
		}
		for field := range bytes.FieldsSeq(raw) {
			if c, err := strconv.Atoi(string(field)); err == nil {
				all = append(all, c)
			}
		}
	}
	return all
}

// private is a process's resident memory without pages of files.
func private(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0 // it has ended
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(raw), &size, &resident, &shared); err != nil {
		return 0
	}
	return max(resident-shared, 0) * int64(os.Getpagesize())
}
