//go:build unix

package local

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// lookEvery is how often the memory of a run is added up. What its processes can take
// in between is bounded by how fast memory is given: some tens of megabytes.
const lookEvery = 25 * time.Millisecond

type memoryWatch struct {
	quit chan struct{}
	peak chan int64
}

// watchMemory adds up the private memory of all processes below pid, and calls over
// once when it is more than limit.
func watchMemory(pid int, limit int64, over func()) *memoryWatch {
	w := &memoryWatch{quit: make(chan struct{}), peak: make(chan int64, 1)}
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		peak, told := int64(0), false
		for {
			select {
			case <-w.quit:
				w.peak <- peak
				return
			case <-tick.C:
			}
			used := treeMemory(pid, 0)
			peak = max(peak, used)
			if limit > 0 && used > limit && !told {
				told = true
				over()
			}
		}
	}()
	return w
}

// end stops the watch and gives the most it has seen.
func (w *memoryWatch) end() int64 {
	close(w.quit)
	return <-w.peak
}

// treeMemory is the memory, in bytes, that the processes below pid share with no file.
// The two at the top, the init and the keeper, are not the script's.
func treeMemory(pid, level int) (sum int64) {
	if level >= 2 {
		sum = private(pid)
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil || level > 1000 {
		return sum
	}
	for _, t := range tasks {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue
		}
		for field := range bytes.FieldsSeq(raw) {
			if c, err := strconv.Atoi(string(field)); err == nil {
				sum += treeMemory(c, level+1)
			}
		}
	}
	return sum
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
