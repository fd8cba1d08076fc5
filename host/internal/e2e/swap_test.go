package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// replacer puts a new binary, with bytes of its own, in a plugin's place.
func (w *world) replacer(name string) func(round int) {
	w.t.Helper()
	path := filepath.Join(w.dir, "plugins", "bulkhead-plugin-"+name)
	raw, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return func(round int) {
		w.t.Helper()
		next := filepath.Join(w.dir, "next")
		err := os.WriteFile(next, append(raw[:len(raw):len(raw)], byte(round), byte(round>>8)), 0o755)
		if err == nil {
			err = os.Rename(next, path)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// load calls a tool from 32 callers until the returned function is called, which
// tells how many calls were done; a lost one fails the test.
func (w *world) load(tool string) (stop func() int64) {
	t := w.t
	call := w.caller()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	var done atomic.Int64
	end := make(chan struct{})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				r, err := call(ctx, tool, `{}`)
				if err != nil || r.IsError {
					t.Errorf("a call was lost: %v %+v", err, r.Error)
					return
				}
				done.Add(1)
			}
		})
	}
	return func() int64 {
		close(end)
		wg.Wait()
		cancel()
		return done.Load()
	}
}

// swaps replaces a plugin's binary again and again under 32 callers.
func swaps(t *testing.T, w *world, plugin, binary, tool string, rounds int) {
	t.Helper()
	stop := w.load(tool)
	replace := w.replacer(binary)
	for round := range rounds {
		before := w.plugin(plugin).Generation
		replace(round)
		testbin.Await(t, 30*time.Second, "the next generation", func() bool {
			p := w.plugin(plugin)
			return p.Generation > before && p.State == "ready"
		})
	}
	done := stop()
	p := w.plugin(plugin)
	t.Logf("%d swaps under %d calls, none lost; generation %d, %d restarts", rounds, done, p.Generation, p.Restarts)
	if done < int64(rounds) || p.Restarts != 0 {
		t.Errorf("%d calls, %+v", done, p)
	}
}

func TestSwapLosesNoCall(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	swaps(t, w, "fx", "fixture", "fx_echo", 50)
}

// A plugin with exclusive state hands it over: no tick is lost or doubled, and
// what an old generation still writes is refused.
func TestHandoverLosesNoTick(t *testing.T) {
	w := newWorld(t, "plugin \"ticker\" {\n}\n", "ticker")
	w.serve()
	refused := make(chan string, 1)
	go func() {
		out, errOut, _ := w.runQuiet("call", "--timeout", "60s", "tick_outlive")
		refused <- out + errOut
	}()
	testbin.Await(t, 10*time.Second, "the call to run", func() bool { return w.plugin("ticker").InFlight == 1 })
	swaps(t, w, "ticker", "ticker", "tick_echo", 50)
	if got := <-refused; !strings.Contains(got, "fenced") {
		t.Errorf("the old generation's write: %s", got)
	}
	report := w.ok("call", "ticks")
	t.Log(strings.TrimSpace(report))
	if !strings.Contains(report, "lost=0 doubled=0") || strings.Contains(report, "ticks=0") {
		t.Errorf("after the swaps: %s", report)
	}
	testbin.Await(t, 10*time.Second, "more ticks", func() bool { return w.ok("call", "ticks") != report })
}

// Activation changes the list of its own session in the session era, and no list
// of 2026-07-28.
func TestActivation(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	listed := func(s *mcp.ClientSession) bool {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		list, err := s.ListTools(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list.Tools {
			if x.Name == "fx_rare" {
				return true
			}
		}
		return false
	}
	for _, door := range []string{"stdio", "http"} {
		t.Run(door, func(t *testing.T) {
			var changed atomic.Int64
			open := func(version string, opts *mcp.ClientOptions) *mcp.ClientSession {
				if door == "stdio" {
					return connect(t, w, version, opts)
				}
				return connectHTTP(t, w.url()+"/mcp", version, opts)
			}
			hear := &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed.Add(1) }}
			old, other, modern := open("2025-11-25", hear), open("2025-11-25", nil), open("2026-07-28", nil)
			if listed(old) || listed(modern) {
				t.Fatal("a tool on demand is listed from the start")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, s := range []*mcp.ClientSession{old, modern} {
				r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "fx_activate"})
				if err != nil || r.IsError || !strings.Contains(text(t, r), "call_tool") {
					t.Fatalf("activate: %v %v", r, err)
				}
			}
			testbin.Await(t, 10*time.Second, "the news of the change", func() bool { return changed.Load() > 0 })
			if !listed(old) {
				t.Error("the session's own list did not change")
			}
			if listed(other) {
				t.Error("the list of another session changed")
			}
			if listed(modern) {
				t.Error("a list of 2026-07-28 changed by its session")
			}
			r, err := modern.CallTool(ctx, &mcp.CallToolParams{Name: "call_tool", Arguments: map[string]any{"name": "fx_rare"}})
			if err != nil || text(t, r) != "rare" {
				t.Errorf("by call_tool: %v %v", r, err)
			}
		})
	}
}

// A bad edit of the config under load changes nothing and is told with its places.
func TestBadEditUnderLoad(t *testing.T) {
	w := newWorld(t, "", "fixture")
	good := hostBlocks + instance("fx", "")
	w.write("config.hcl", good)
	w.serve()
	before := w.plugin("fx")
	stop := w.load("fx_echo")
	for range 5 {
		w.write("config.hcl", good+"plugin \"fx\" {\n}\nagent \"x\" {\n  grups = [\"a\"]\n}\n")
		w.fails(1, []string{"config.hcl:13,1", "config.hcl:16,3", "groups"}, "reload")
		w.write("config.hcl", good)
		w.ok("reload")
	}
	if done := stop(); done < 50 {
		t.Errorf("%d calls under the edits", done)
	}
	if p := w.plugin("fx"); p.PID != before.PID || p.Generation != before.Generation {
		t.Errorf("the plugin changed: %+v", p)
	}
}
