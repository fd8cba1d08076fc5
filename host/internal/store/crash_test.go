package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

const crashDir = "BULKHEAD_STORE_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		crashWriter(dir)
		return
	}
	os.Exit(m.Run())
}

// crashWriter writes without end, telling on stdout what is surely stored.
func crashWriter(dir string) {
	s, err := Open(context.Background(), Options{Dir: dir})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	g, err := s.NextGeneration(ctx, "p")
	for i := 0; err == nil; i++ {
		id := fmt.Sprintf("%d-%d", g, i)
		s.Audit(AuditRow{CallID: id, Tool: "t"})
		err = s.InsertFrozen(ctx, FrozenCall{ID: id, Arguments: []byte(id)}, []Question{{ID: id + "a"}, {ID: id + "b"}})
		if err == nil {
			_, err = s.StatePut(ctx, "p", g, "last", []byte(id), i%2 == 0)
		}
		if err == nil {
			fmt.Println("stored", g, i)
		}
	}
	fmt.Println("error", err)
	os.Exit(1)
}

func TestKilledWriterLeavesNothingHalf(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	must(t, err)
	for round := range 4 {
		limit, cancel := context.WithTimeout(ctx, time.Minute)
		cmd := exec.CommandContext(limit, exe)
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		stored := -1
		var generation uint64
		for lines.Scan() {
			f := strings.Fields(lines.Text())
			if len(f) != 3 || f[0] != "stored" {
				t.Fatalf("the writer said %q", lines.Text())
			}
			generation, err = strconv.ParseUint(f[1], 10, 64)
			must(t, err)
			stored, err = strconv.Atoi(f[2])
			must(t, err)
			if stored == 20+round*7 {
				must(t, cmd.Process.Kill()) // SIGKILL, in the middle of the next write
			}
		}
		_ = cmd.Wait() // it was killed
		cancel()

		s := open(t, dir, nil)
		if w := s.Warnings(); len(w) > 0 {
			t.Fatalf("warnings: %v", w)
		}
		if generation != uint64(round+1) {
			t.Errorf("generation %d in round %d", generation, round)
		}
		calls := count(t, s.read, `SELECT count(*) FROM frozen`)
		questions := count(t, s.read, `SELECT count(*) FROM questions`)
		odd := count(t, s.read, `SELECT count(*) FROM frozen f WHERE (SELECT count(*) FROM questions WHERE call_id = f.id) <> 2`)
		if questions != 2*calls || odd != 0 {
			t.Errorf("%d calls with %d questions, %d of them odd", calls, questions, odd)
		}
		for i := range stored + 1 {
			id := fmt.Sprintf("%d-%d", generation, i)
			c, found, err := s.GetFrozen(ctx, id)
			if err != nil || !found || string(c.Arguments) != id {
				t.Fatalf("%s was reported stored: %v %v", id, found, err)
			}
		}
		v, err := s.StateGet(ctx, "p", "last")
		must(t, err)
		_, last, _ := strings.Cut(string(v.Value), "-")
		if n, err := strconv.Atoi(last); err != nil || n < stored {
			t.Errorf("state is %q, %d was reported", v.Value, stored)
		}
		if r := verify(t, s); !r.OK {
			t.Errorf("audit: %+v", r)
		}
		must(t, s.Close())
	}
}
