//go:build linux

package local

import (
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/attacks"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

func TestAttacks(t *testing.T) {
	ends := map[string]string{}
	if os.Getenv(asNobody) == Bubblewrap {
		ends["files without end"] = run.Disk
	}
	attacks.Run(t, attacks.Runner{Runner: runner(t, nil),
		NotThere: []string{"/etc/shadow", "/etc/hostname", "/root", "/home", "/work", "/var", "/sys", "/boot", "/srv", "/mnt", "/proc/1/root/etc/shadow"},
		Ends:     ends})
}

func TestACallerThatLeaves(t *testing.T) { attacks.Leave(t, runner(t, nil)) }

// Five hundred runs, eight at a time: none is lost, and nothing is left of them.
func TestManyRuns(t *testing.T) {
	r := runner(t, func(o *Options) { o.Warm = 2 })
	before := descendants(t)
	attacks.Many(t, r, 500, 8)
	r.Close()
	if after := descendants(t); after > before {
		t.Errorf("%d processes, %d before", after, before)
	}
}

// descendants counts the processes below this one.
func descendants(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, task := range tasks {
		raw, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err == nil {
			n += len(strings.Fields(string(raw)))
		}
	}
	return n
}
