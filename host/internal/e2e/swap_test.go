package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
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

// doors is a way to call a tool through each of them: the control socket, the HTTP
// API, and MCP over HTTP in both eras.
func (w *world) doors() []func(ctx context.Context, tool, args string) error {
	t := w.t
	socket, client := w.caller(), &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(client.CloseIdleConnections)
	url := w.url()
	overMCP := func(version string) func(context.Context, string, string) error {
		session := connectHTTP(t, url+"/mcp", version, nil)
		return func(ctx context.Context, tool, args string) error {
			r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
			if err == nil && r.IsError {
				raw, _ := json.Marshal(r.Content) // shown, not decided by
				err = fmt.Errorf("MCP %s: %s", version, raw)
			}
			return err
		}
	}
	return []func(context.Context, string, string) error{
		func(ctx context.Context, tool, args string) error {
			r, err := socket(ctx, tool, args)
			if err == nil && r.IsError {
				err = fmt.Errorf("the control socket: %+v", r.Error)
			}
			return err
		},
		func(ctx context.Context, tool, args string) error {
			req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/tools/"+tool+"/call", strings.NewReader(`{"arguments":`+args+`}`))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			var r api.CallResult
			if err := json.NewDecoder(resp.Body).Decode(&r); err != nil || resp.StatusCode != 200 || r.IsError {
				return fmt.Errorf("the HTTP API: %d %+v %w", resp.StatusCode, r.Error, err)
			}
			return nil
		},
		overMCP("2025-11-25"), overMCP("2026-07-28"),
	}
}

// load calls a tool from 32 callers, eight at each door, until the returned function
// is called, which tells how many calls were done at all doors and at the one with
// fewest; a lost one fails the test.
func (w *world) load(tool, args string) (stop func() (all, fewest int64)) {
	t := w.t
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	doors := w.doors()
	done := make([]atomic.Int64, len(doors))
	end := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 32 {
		door := i % len(doors)
		wg.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if err := doors[door](ctx, tool, args); err != nil {
					t.Errorf("a call was lost: %v", err)
					return
				}
				done[door].Add(1)
			}
		})
	}
	return func() (all, fewest int64) {
		close(end)
		wg.Wait()
		cancel()
		fewest = done[0].Load()
		for i := range done {
			all, fewest = all+done[i].Load(), min(fewest, done[i].Load())
		}
		return all, fewest
	}
}

// swaps replaces a plugin's binary again and again under 32 callers.
func swaps(t *testing.T, w *world, plugin, binary, tool, args string, rounds int) {
	t.Helper()
	stop := w.load(tool, args)
	replace := w.replacer(binary)
	for round := range rounds {
		before := w.plugin(plugin).Generation
		replace(round)
		testbin.Await(t, 30*time.Second, "the next generation", func() bool {
			p := w.plugin(plugin)
			return p.Generation > before && p.State == "ready"
		})
	}
	done, fewest := stop()
	p := w.plugin(plugin)
	t.Logf("%d swaps under %d calls, %d at least at each door, none lost; generation %d, %d restarts", rounds, done, fewest, p.Generation, p.Restarts)
	if fewest < int64(rounds) || p.Restarts != 0 {
		t.Errorf("%d calls, %+v", done, p)
	}
}

func TestSwapLosesNoCall(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	swaps(t, w, "fx", "fixture", "fx_echo", `{}`, 50)
}

// A plugin of ours, whose state is a folder and a ledger on disk, is swapped as one of
// the tests' own is.
func TestSwapOfWorkspaceLosesNoCall(t *testing.T) {
	w := newWorld(t, "plugin \"workspace\" {\n  config {\n    workspace \"main\" {\n      path = \"work\"\n    }\n  }\n}\n", "workspace")
	w.mkdir("work")
	w.write("work/a.txt", "one\ntwo\n")
	w.serve()
	swaps(t, w, "workspace", "workspace", "read_file", `{"path":"a.txt"}`, 12)
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
	swaps(t, w, "ticker", "ticker", "tick_echo", `{}`, 50)
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
	stop := w.load("fx_echo", `{}`)
	for range 5 {
		w.write("config.hcl", good+"plugin \"fx\" {\n}\nagent \"x\" {\n  grups = [\"a\"]\n}\n")
		w.fails(1, []string{"config.hcl:13,1", "config.hcl:16,3", "groups"}, "reload")
		w.write("config.hcl", good)
		w.ok("reload")
	}
	if done, fewest := stop(); fewest < 5 {
		t.Errorf("%d calls under the edits, %d at one door", done, fewest)
	}
	if p := w.plugin("fx"); p.PID != before.PID || p.Generation != before.Generation {
		t.Errorf("the plugin changed: %+v", p)
	}
}
