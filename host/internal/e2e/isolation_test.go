package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// caller posts calls to the control socket from this process.
func (w *world) caller() func(ctx context.Context, tool, args string) (api.CallResult, error) {
	socket := filepath.Join(w.dir, "data", "run", "host.sock")
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	w.t.Cleanup(c.CloseIdleConnections)
	return func(ctx context.Context, tool, args string) (api.CallResult, error) {
		var out api.CallResult
		body, err := json.Marshal(api.CallRequest{Arguments: json.RawMessage(args)})
		if err != nil {
			return out, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host/v1/tools/"+tool+"/call", bytes.NewReader(body))
		if err != nil {
			return out, err
		}
		resp, err := c.Do(req)
		if err != nil {
			return out, err
		}
		defer resp.Body.Close()
		return out, json.NewDecoder(resp.Body).Decode(&out)
	}
}

// A plugin killed with -9 costs its own callers one call and nobody else
// anything; it answers again within two seconds.
func TestKillOnePluginOfTwo(t *testing.T) {
	w := newWorld(t, instance("good", "")+instance("bad", ""), "fixture")
	w.serve()
	call := w.caller()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	stop := make(chan struct{})
	var done, hurt atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := call(ctx, "good_echo", `{"x":1}`)
				if err != nil || r.IsError {
					hurt.Add(1)
					t.Errorf("a caller of the other plugin: %v %+v", err, r.Error)
					return
				}
				done.Add(1)
			}
		})
	}
	for round := range 3 {
		lost := make(chan api.CallResult, 1)
		go func() {
			r, err := call(ctx, "bad_slow", `{"ms":30000}`)
			if err != nil {
				t.Error(err)
			}
			lost <- r
		}()
		testbin.Await(t, 10*time.Second, "the slow call to run", func() bool { return w.plugin("bad").InFlight == 1 })
		before := w.plugin("bad")
		if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		r := <-lost
		if !r.IsError || r.Error == nil || r.Error.Ref != "BH2001" || !strings.Contains(r.Error.Message, `"bad"`) {
			t.Errorf("round %d: its own caller got %+v", round, r.Error)
		}
		testbin.Await(t, 10*time.Second, "an answer after the kill", func() bool {
			r, err := call(ctx, "bad_echo", `{}`)
			return err == nil && !r.IsError
		})
		t.Logf("round %d: answered again %s after the kill", round, time.Since(killed).Round(time.Millisecond))
		if took := time.Since(killed); took > 10*time.Second {
			t.Errorf("round %d: back after %s", round, took)
		}
	}
	close(stop)
	wg.Wait()
	if hurt.Load() > 0 || done.Load() < 100 {
		t.Errorf("%d calls of the other plugin, %d failed", done.Load(), hurt.Load())
	}
}

// However the host ends, nothing of any plugin is left, grandchildren in sessions
// of their own included.
func TestNoOrphans(t *testing.T) {
	for name, end := range map[string]func(*world){"kill -9": (*world).kill, "SIGTERM": (*world).stop} {
		t.Run(name, func(t *testing.T) {
			hcl := instance("strict", "") + instance("launcher", "  sandbox {\n    profile = \"launcher\"\n  }\n") + instance("none", "  sandbox {\n    profile = \"none\"\n  }\n")
			w := newWorld(t, hcl, "fixture")
			w.serve()
			for _, p := range []string{"strict", "launcher", "none"} {
				w.ok("call", p+"_spawn")
				w.ok("call", p+"_spawn")
			}
			pids := testbin.Below(w.host.Process.Pid)
			if len(pids) < 9 {
				t.Fatalf("below the host: %v", pids)
			}
			end(w)
			testbin.Await(t, time.Second+3*time.Second, "no process to be left", func() bool { return alive(pids) == "" })
		})
	}
}

// alive lists those of "PID NAME STATE" that still run.
func alive(procs []string) string {
	var left []string
	for _, p := range procs {
		var pid int
		if _, err := fmt.Sscan(p, &pid); err == nil && syscall.Kill(pid, 0) == nil {
			left = append(left, p)
		}
	}
	return strings.Join(left, ", ")
}

// A plugin that dies at every call is put into quarantine, says why, and a
// restart by hand clears it; the other one never notices.
func TestQuarantine(t *testing.T) {
	w := newWorld(t, instance("fx", "  restart_budget {\n    exits  = 2\n    window = \"10m\"\n  }\n")+instance("good", ""), "fixture")
	w.serve()
	testbin.Await(t, 60*time.Second, "quarantine", func() bool {
		w.run("call", "--timeout", "5s", "fx_die")
		return w.plugin("fx").State == "quarantined"
	})
	w.fails(1, []string{"BH2003", "quarantined", "plugin restart"}, "call", "fx_echo", "{}")
	if p := w.plugin("fx"); !strings.Contains(strings.Join(p.Tail, "\n"), "dying as asked") {
		t.Errorf("its last words are lost: %+v", p)
	}
	w.ok("call", "good_echo", "{}")
	w.ok("plugin", "restart", "fx")
	w.ok("call", "fx_echo", "{}")
}

// What a plugin prints comes to the host, which bounds it, and never holds it up.
func TestPrinting(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	w.ok("call", "--timeout", "30s", "fx_print")
	w.ok("call", "fx_echo", "{}")
	w.stop()
	if !strings.Contains(w.log.String(), "writes more to stderr than is logged") {
		t.Errorf("the host did not hear what was printed:\n%s", clip(w.log.String()))
	}
}
