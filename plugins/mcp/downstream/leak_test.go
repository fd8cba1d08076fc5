package downstream

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
)

// Fifty connects and disconnects, over each transport, leave no process, file
// descriptor or goroutine.
func TestNothingIsLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what is left is counted in /proc")
	}
	url := badtest.HTTP(t)
	home := t.TempDir()
	targets := map[string]Target{
		"stdio":                  {Name: "s", Command: []string{badtest.Bad(t), "grandchild=98765"}, Log: quietLog(), Walls: Walls{Home: home}, Known: Known{Stdio, Legacy}},
		"http":                   {Name: "h", URL: url, Log: quietLog()},
		"stdio by a worker":      {Name: "s", Command: []string{badtest.Bad(t), "grandchild=98765"}, Log: quietLog(), Walls: Walls{Home: home}, Known: Known{Stdio, Legacy}, Isolated: true},
		"http by a worker":       {Name: "h", URL: url, Log: quietLog(), Isolated: true},
		"no program by a worker": {Name: "n", Command: []string{badtest.Bad(t), "stderr=x"}, Log: quietLog(), Walls: Walls{Home: home}, Isolated: true},
		"refused":                {Name: "r", URL: "http://127.0.0.1:1/", Log: quietLog()},
		"no program":             {Name: "n", Command: []string{badtest.Bad(t), "stderr=x"}, Log: quietLog(), Walls: Walls{Home: home}},
	}
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			cycle := func() {
				c, err := Connect(badtest.Within(t, 30*time.Second), target, Events{})
				if err != nil {
					return
				}
				if _, err := call(badtest.Within(t, 10*time.Second), c, "echo", "{}"); err != nil {
					t.Error(err)
				}
				c.Close()
			}
			cycle() // what is made once is made now
			children, files, routines := count(t)
			for range 50 {
				cycle()
			}
			deadline := time.Now().Add(20 * time.Second)
			for {
				c, f, r := count(t)
				if c <= children && f <= files+2 && r <= routines+2 {
					return
				}
				if time.Now().After(deadline) {
					buf := make([]byte, 1<<16)
					t.Fatalf("children %d, then %d; files %d, then %d; goroutines %d, then %d\n%s", children, c, files, f, routines, r, buf[:runtime.Stack(buf, true)])
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
}

// count gives the children of this process, its open files and its goroutines.
func count(t *testing.T) (children, files, routines int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		raw, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err == nil {
			for _, b := range raw {
				if b == ' ' {
					children++
				}
			}
		}
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return children, len(fds), runtime.NumGoroutine()
}
