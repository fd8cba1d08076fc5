//go:build unix

package bridge

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// workers gives the processes of workers below this one.
func workers(t *testing.T) (pids []int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("workers are looked for in /proc")
	}
	all, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		raw, err := os.ReadFile("/proc/" + p.Name() + "/cmdline")
		var pid int
		if err == nil && strings.HasPrefix(string(raw), "bulkhead-mcp-worker\x00") {
			if _, err := fmt.Sscan(p.Name(), &pid); err == nil && below(pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// below reports whether a process descends from this one.
func below(pid int) bool {
	for pid > 1 {
		if pid == os.Getpid() {
			return true
		}
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		f := strings.Fields(rest)
		if len(f) < 2 {
			return false
		}
		if _, err := fmt.Sscan(f[1], &pid); err != nil {
			return false
		}
	}
	return false
}

func isolatedPair(t *testing.T) *sdktest.Session {
	t.Helper()
	stdio := bad(t, "p", "banner")
	stdio["isolation"] = "server"
	s := start(t, nil, stdio, conf{"name": "h", "url": badtest.HTTP(t), "isolation": "server"}, bad(t, "other"))
	awaitTool(t, s, "p__echo")
	awaitTool(t, s, "h__echo")
	awaitTool(t, s, "other__echo")
	return s
}

// By way of a worker all is as without one, byte for byte.
func TestAWorkerChangesNothing(t *testing.T) {
	s := isolatedPair(t)
	if n := len(workers(t)); n != 2 {
		t.Errorf("%d workers", n)
	}
	for _, name := range []string{"p", "h"} {
		sent := `{"id":9223372036854775807,"z":{"b":1,"a":2.50},"u":null}`
		r := s.Call(name+"__echo", sent)
		r.WantText("echo " + sent)
		if got := string(r.Structured); got != `{"id":1915883588174806058,"got":`+sent+`}` {
			t.Errorf("structured: %s", got)
		}
		s.Call("mcp_get_service_details", `{"server_name":"`+name+`","tool_name":"rich"}`).WantText(`"x-vendor":{"b":1,"a":[2]}`)
		s.Call("mcp_get_service_details", `{"server_name":"`+name+`"}`).WantText(`"instructions":"be careful"`)
		s.Call(name+"__plan-prompt", `{"topic":"ships"}`).WantText("ships")
		s.Call("mcp_read_resource", `{"server_name":"`+name+`","uri":"bad://note"}`).WantText("read bad://note")
		s.Call("mcp_invoke_tool", `{"server_name":"`+name+`","tool_name":"nosuch","arguments":{}}`).WantError("tool_not_found", "echo")
		if r := s.Call(name+"__big", `{"n":2000000}`); r.IsError || len(r.Text) < 1_900_000 {
			t.Errorf("%s: %d bytes", name, len(r.Text))
		}
	}
	if n := services(t, s)["p"]; !strings.Contains(n.Note, "🚢") {
		t.Errorf("stray lines are not told: %+v", n)
	}
	s.Call("p__grow", "{}").WantText("grown")
	awaitTool(t, s, "p__grown")
	s.Call("p__die", "{}").WantError("execution_failed", "exit code 7")
	s.Call("p__echo", `{}`).WantText("echo {}")
	s.Call("h__forget", "{}").WantText("forgotten")
	s.Call("h__echo", `{}`).WantText("echo {}")
}

// A worker that is killed in the middle of calls costs these: each gets one clear
// error, the next call is answered, and other servers notice nothing.
func TestAWorkerKilled(t *testing.T) {
	s := isolatedPair(t)
	for _, name := range []string{"p", "h"} {
		before := workers(t)
		if len(before) != 2 {
			t.Fatalf("workers: %v", before)
		}
		var wg sync.WaitGroup
		lost := make(chan *sdktest.Reply, 2)
		other := make(chan *sdktest.Reply, 1)
		if name == "p" { // the HTTP server answers one after the other
			wg.Go(func() { lost <- s.Call("p__sleep", `{"ms":15000}`) })
			wg.Go(func() { lost <- s.Call("p__sleep", `{"ms":15000}`) })
			wg.Go(func() { other <- s.Call("other__sleep", `{"ms":1500}`) })
			badtest.Await(t, "the calls to run", func() bool { return strings.Count(s.Call("p__log", "{}").Text, "bulkhead-") >= 3 })
		}
		for _, pid := range before {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if name == "p" {
			wg.Wait()
			for range 2 {
				r := <-lost
				r.WantError("execution_failed", "worker")
				if !strings.Contains(r.Message, `"p"`) || !strings.Contains(r.Message, "signal 9") {
					t.Errorf("%s", r.Message)
				}
			}
			(<-other).WantText("slept")
		}
		begin := time.Now()
		r := s.Call(name+"__echo", `{"n":1}`)
		if name == "h" && r.IsError && strings.Contains(r.Message, "signal 9") {
			r = s.Call("h__echo", `{"n":1}`) // that one was on its way when the worker died
		}
		r.WantText(`echo {"n":1}`)
		if d := time.Since(begin); d > 20*time.Second {
			t.Errorf("the next call took %s", d)
		}
		s.Call("other__log", "{}").WantText("pid")
		badtest.Await(t, "both workers", func() bool { return len(workers(t)) == 2 })
	}
	if got := s.Configure(conf{"server": []conf{bad(t, "other")}}.String()); got != "reconfigured" {
		t.Fatal(got)
	}
	badtest.Await(t, "the end of the workers", func() bool { return len(workers(t)) == 0 })
}
