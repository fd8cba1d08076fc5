//go:build linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

func TestBudgetQuarantinesAndProbes(t *testing.T) {
	b := newBench(t, func(o *Options) { o.QuarantineProbe = time.Second })
	p := b.plugin("bad", "TESTPLUGIN_START=exit3")
	p.Budget = RestartBudget{Exits: 3, Window: time.Minute}
	b.add(p)
	s := b.await("bad", Quarantined)
	if s.Restarts != 3 || !strings.Contains(s.LastError, "can't read my settings") || s.NextAttempt.IsZero() {
		t.Errorf("%+v", s)
	}
	_, err := b.call("bad", "echo", `{}`)
	is(t, err, fault.PluginQuarantined, "failed too often and is quarantined")
	is(t, err, fault.PluginQuarantined, "bulkhead plugin restart bad")
	if f := fault.From(err); !f.Retryable || f.RetryAfter <= 0 {
		t.Errorf("no time of the next attempt: %+v", f)
	}
	testbin.Await(t, 10*time.Second, "it is probed", func() bool { return b.of("bad").Restarts > 3 })
	if s := b.await("bad", Quarantined); s.Restarts > 5 {
		t.Errorf("a probe has one try: %+v", s)
	}
	// With a cure, a manual restart clears it.
	if err := b.Swap(t.Context(), b.plugin("bad")); err != nil {
		t.Fatal(err)
	}
	b.works("bad")
	if s := b.of("bad"); s.State != Ready {
		t.Errorf("%+v", s)
	}
}

func TestHealthyTimeResetsTheBudget(t *testing.T) {
	b := newBench(t, func(o *Options) { o.HealthyReset = 50 * time.Millisecond })
	p := b.plugin("bad")
	p.Budget = RestartBudget{Exits: 2, Window: time.Hour}
	b.add(p)
	for range 4 {
		gen := b.of("bad").Generation
		healthy := time.Now().Add(300 * time.Millisecond)
		testbin.Await(t, 5*time.Second, "a healthy time", func() bool { return time.Now().After(healthy) })
		b.call("bad", "exit", `{}`)
		awaitNewer(b, gen)
	}
	if s := b.of("bad"); s.State != Ready || s.Restarts != 4 {
		t.Errorf("%+v", s)
	}
}

func TestWhatOnlyAPersonCanChangeIsNotTriedAgain(t *testing.T) {
	b := newBench(t, nil)
	refuse := b.plugin("refuse")
	refuse.Config = func(*pluginv1.ConfigBody) ([]byte, []sandbox.Path, error) { return []byte(`{"refuse":true}`), nil, nil }
	unread := b.plugin("unread")
	unread.Config = func(*pluginv1.ConfigBody) ([]byte, []sandbox.Path, error) {
		return nil, nil, errors.New("config.hcl:3,4: no such key")
	}
	gone := b.plugin("gone")
	gone.Binary = filepath.Join(b.dir, "nothing")
	text := b.plugin("text")
	text.Binary = filepath.Join(b.dir, "text")
	if err := os.WriteFile(text.Binary, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := b.plugin("path")
	path.Sandbox.Read = []string{"/nothing/here"}
	b.add(refuse, unread, gone, text, path, b.plugin("good"))
	for name, want := range map[string]struct {
		ref  fault.Ref
		says string
	}{
		"refuse": {fault.PluginConfig, "refuse is set"}, "unread": {fault.PluginConfig, "config.hcl:3,4"},
		"gone": {fault.PluginBinary, "no such file"}, "text": {fault.PluginBinary, "is no program"}, "path": {fault.PluginSandbox, "/nothing/here"},
	} {
		s := b.await(name, Quarantined)
		if s.Restarts != 1 || s.LastRef != string(want.ref) || !strings.Contains(s.LastError, want.says) {
			t.Errorf("%s: %+v", name, s)
		}
		_, err := b.call(name, "echo", `{}`)
		is(t, err, fault.PluginQuarantined, "can't start until somebody mends that")
	}
	b.works("good")
}

func TestCallsWaitForARestart(t *testing.T) {
	b := newBench(t, nil)
	b.add(b.plugin("bad"))
	syscall.Kill(b.of("bad").PID, syscall.SIGKILL)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			// In flight at the death it may be lost; sent after it, it waits.
			if _, err := b.call("bad", "echo", `{}`); err != nil {
				is(t, err, fault.PluginDied, "")
			}
		})
	}
	wait.Wait()
	testbin.Await(t, 20*time.Second, "the death is known", func() bool { return b.of("bad").Generation > 1 })
	b.works("bad")
}

func TestCallsDoNotWaitForEver(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.RestartWait, o.BackoffBase, o.BackoffMax = 100*time.Millisecond, time.Minute, time.Minute
	})
	b.add(b.plugin("bad", "TESTPLUGIN_START=exit3"))
	_, d, err := b.Invoke(t.Context(), "bad", false, &pluginv1.InvokeRequest{CallId: callID(), Name: "echo"}, nil)
	is(t, err, fault.PluginRestarting, "try again in")
	if f := fault.From(err); f.RetryAfter < 30*time.Second || d.Sent || d.Generation != 0 {
		t.Errorf("%+v %+v", f, d)
	}
	if _, _, err := b.Invoke(t.Context(), "nobody", false, &pluginv1.InvokeRequest{}, nil); fault.From(err).Ref != fault.UnknownPlugin {
		t.Errorf("%v", err)
	}
}

func TestStopAndStart(t *testing.T) {
	b := newBench(t, nil)
	b.add(b.plugin("p"))
	if err := b.Stop(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	_, err := b.call("p", "echo", `{}`)
	is(t, err, fault.PluginStopped, "stopped")
	if err := b.Start(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	b.works("p")
	if err := b.Remove(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if b.offers.tools("p") != "" || len(b.Status()) != 0 {
		t.Error("a removed plugin is still there")
	}
}

// A generation gets its first call when it is activated, and not before.
func TestSwapOverlapLosesNoCall(t *testing.T) { swapLosesNoCall(t, pluginv1.Swap_SWAP_OVERLAP) }

// The same with exclusive state.
func TestSwapHandoverLosesNoCall(t *testing.T) { swapLosesNoCall(t, pluginv1.Swap_SWAP_HANDOVER) }

func swapLosesNoCall(t *testing.T, swap pluginv1.Swap) {
	before := testbin.Count()
	b := newBench(t, func(o *Options) { o.DescribeCache = described{swap} })
	b.add(b.plugin("p"))
	var failed, done atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for ctx.Err() == nil {
				if _, err := b.call("p", "sleep", `{"ms":3}`); err != nil {
					failed.Add(1)
					t.Error(err)
				}
				done.Add(1)
			}
		})
	}
	// A long call outlives the swap, on the old process.
	long := make(chan error, 1)
	go func() {
		_, err := b.call("p", "sleep", `{"ms":1500}`)
		long <- err
	}()
	testbin.Await(t, 5*time.Second, "calls flow", func() bool { return done.Load() > 20 })
	for range 3 {
		if err := b.Restart(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		n := done.Load()
		testbin.Await(t, 5*time.Second, "calls flow again", func() bool { return done.Load() > n+20 })
	}
	cancel()
	wait.Wait()
	if err := <-long; err != nil {
		t.Errorf("the long call was lost: %v", err)
	}
	if text, err := b.call("p", "life", `{}`); err != nil || text != "configure,activate" {
		t.Errorf("%q %v", text, err)
	}
	if s := b.of("p"); s.Generation != 4 || s.Restarts != 0 {
		t.Errorf("%+v", s)
	}
	t.Logf("%d calls, %d failed", done.Load(), failed.Load())
	b.Close(t.Context())
	before.Back(t)
}

func TestHandoverKillsWhatDoesNotLetGo(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.DescribeCache = described{pluginv1.Swap_SWAP_HANDOVER}
		o.QuiesceTimeout = 300 * time.Millisecond
	})
	b.add(b.plugin("p", "TESTPLUGIN_HANG=drain"))
	old := b.of("p").PID
	if err := b.Swap(t.Context(), b.plugin("p")); err != nil {
		t.Fatal(err)
	}
	b.works("p")
	testbin.Await(t, 5*time.Second, "the old process is gone", func() bool { return syscall.Kill(old, 0) != nil })
}

// What can't start its work takes nothing down that worked: where the old one has
// let nothing go it goes on, and else what it was is started again.
func TestFailedActivateKeepsWhatWorks(t *testing.T) {
	for name, swap := range map[string]pluginv1.Swap{"overlap": pluginv1.Swap_SWAP_OVERLAP, "handover": pluginv1.Swap_SWAP_HANDOVER} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(o *Options) { o.DescribeCache = described{swap} })
			b.add(b.plugin("p"))
			before := b.of("p")
			ctx, stop := context.WithCancel(t.Context())
			var wait sync.WaitGroup
			for range 4 {
				wait.Go(func() {
					for ctx.Err() == nil {
						if text, err := b.call("p", "sleep", `{"ms":3}`); err != nil || strings.Contains(text, "BH") {
							t.Errorf("a call was lost: %q, %v", text, err)
						}
					}
				})
			}
			is(t, b.Swap(t.Context(), b.plugin("p", "TESTPLUGIN_ACTIVATE=fail")), fault.PluginStart, "can't start its work")
			stop()
			wait.Wait()
			b.works("p")
			now := b.of("p")
			if now.State != Ready || now.Restarts != 0 || !strings.Contains(now.Kept, "can't start its work") {
				t.Errorf("%+v", now)
			}
			if same := now.PID == before.PID; same != (swap == pluginv1.Swap_SWAP_OVERLAP) {
				t.Errorf("pid %d, before %d", now.PID, before.PID)
			}
			if text, err := b.call("p", "life", `{}`); err != nil || text != "configure,activate" {
				t.Errorf("%q %v", text, err)
			}
		})
	}
}

// A binary that replaced the only one there was is tried again until it works.
func TestFailedHandoverIsTriedAgain(t *testing.T) {
	b := newBench(t, func(o *Options) { o.DescribeCache = described{pluginv1.Swap_SWAP_HANDOVER} })
	b.add(b.plugin("p"))
	flag := filepath.Join(b.dataDir("p"), "fail-activate")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	is(t, b.Restart(t.Context(), "p"), fault.PluginStart, "can't start its work")
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	b.works("p")
	if s := b.await("p", Ready); s.Restarts == 0 || s.Kept != "" {
		t.Errorf("%+v", s)
	}
}

func TestUpdate(t *testing.T) {
	b := newBench(t, nil)
	p := b.plugin("p")
	b.add(p)
	config := func(text string) func(*pluginv1.ConfigBody) ([]byte, []sandbox.Path, error) {
		return func(*pluginv1.ConfigBody) ([]byte, []sandbox.Path, error) { return []byte(text), nil, nil }
	}
	for _, step := range []struct {
		config string
		gen    uint64
		ref    fault.Ref
	}{{`{"a":1}`, 1, ""}, {`{"refuse":true}`, 1, fault.PluginConfig}, {`{"restart":true}`, 2, ""}} {
		p.Config = config(step.config)
		err := b.Update(t.Context(), p)
		if step.ref != "" {
			is(t, err, step.ref, "refuse is set")
		} else if err != nil {
			t.Error(err)
		}
		if s := b.of("p"); s.Generation != step.gen || s.State != Ready {
			t.Errorf("%s: %+v", step.config, s)
		}
	}
	p.Env = map[string]string{"NEW": "1"} // acts on launch
	if err := b.Update(t.Context(), p); err != nil || b.of("p").Generation != 3 {
		t.Errorf("%v %+v", err, b.of("p"))
	}
	diags, err := b.Validate(t.Context(), p, []byte(`{"refuse":true}`))
	if err != nil || len(diags) != 1 || diags[0].GetPath()[0].GetAttribute() != "refuse" {
		t.Errorf("%v %v", diags, err)
	}
}

func TestOffersComeWholeAndAgain(t *testing.T) {
	b := newBench(t, nil)
	b.add(b.plugin("p"))
	if got := b.offers.tools("p"); got != "echo,sleep" {
		t.Errorf("offers: %s", got)
	}
	if _, err := b.call("p", "offer", `{}`); err != nil {
		t.Fatal(err)
	}
	testbin.Await(t, 5*time.Second, "the new snapshot", func() bool { return b.offers.published("p") == 2 })
	if got := b.offers.tools("p"); got != "echo,sleep" {
		t.Errorf("offers: %s", got)
	}
	// While it restarts its tools stay listed.
	b.call("p", "exit", `{}`)
	if got := b.offers.tools("p"); got != "echo,sleep" {
		t.Errorf("offers while it restarts: %s", got)
	}
}

func TestDegraded(t *testing.T) {
	b := newBench(t, func(o *Options) { o.HealthInterval = 20 * time.Millisecond })
	b.add(b.plugin("p"))
	b.call("p", "degrade", `{"text":"no network"}`)
	if s := b.await("p", Degraded); s.Detail != "no network" {
		t.Errorf("%+v", s)
	}
	b.works("p")
	b.call("p", "degrade", `{}`)
	b.await("p", Ready)
}

func TestDescribeIsAskedOncePerBinary(t *testing.T) {
	b := newBench(t, func(o *Options) { o.DescribeCache = nil })
	b.add(b.plugin("one"), b.plugin("two"))
	b.works("one")
	b.works("two")
	s := b.of("one")
	if s.Version != "1.0.0" || len(s.MissingGrants) != 1 || s.MissingGrants[0] != "tool:echo" {
		t.Errorf("%+v", s)
	}
	if n := b.runs.Load(); n != 3 {
		t.Errorf("%d processes were started for two plugins of one binary", n)
	}
}

// A plugin without a block gets the default walls and nothing it asks for.
func TestDroppedInPlugin(t *testing.T) {
	b := newBench(t, nil)
	p := Plugin{Name: "dropped", Binary: testbin.Build(t, fixture)}
	b.add(p)
	s := b.of("dropped")
	if s.State != Ready || s.Sandbox.Profile != sandbox.Strict || s.Sandbox.Network != sandbox.NetworkNone || s.Configured {
		t.Errorf("%+v", s)
	}
	text, err := b.call("dropped", "facts", `{}`)
	if err != nil || !strings.Contains(text, filepath.Join("shared", "plugins", "dropped")) {
		t.Errorf("%q %v", text, err)
	}
	needy := &pluginv1.DescribeResponse{Sandbox: &pluginv1.SandboxNeeds{Profile: sandbox.Launcher, Network: sandbox.NetworkAll}}
	if _, err := profileOf(p, needy, nil); fault.From(err).Ref != fault.PluginSandbox {
		t.Errorf("a dropped-in plugin got %v", err)
	}
	p.Configured = true
	if got, err := profileOf(p, needy, nil); err != nil || got.Name != sandbox.Launcher || got.Network != sandbox.NetworkAll || got.MustProfile {
		t.Errorf("%+v %v", got, err)
	}
	p.Sandbox = SandboxConfig{Profile: sandbox.Strict, Network: sandbox.NetworkNone, Read: []string{"/srv"}}
	if got, err := profileOf(p, needy, nil); err != nil || got.Name != sandbox.Strict || !got.MustProfile || !got.MustNetwork || !got.Paths[0].Must {
		t.Errorf("%+v %v", got, err)
	}
}

// One plugin's death is nothing to the callers of another.
func TestKillWhileOthersCall(t *testing.T) {
	b := newBench(t, nil)
	bad := b.plugin("bad")
	bad.Budget.Exits = 100
	b.add(b.plugin("good"), bad)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	var done atomic.Int64
	for i := range 32 {
		wait.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				want := fmt.Sprintf(`{"caller":%d,"n":%d}`, i, n)
				if text, err := b.call("good", "echo", want); err != nil || text != want {
					t.Errorf("%q %v", text, err)
					return
				}
				done.Add(1)
			}
		})
	}
	for range 5 {
		gen := b.of("bad").Generation
		if pid := b.of("bad").PID; pid > 0 {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		testbin.Await(t, 10*time.Second, "the next generation", func() bool { return b.of("bad").Generation > gen && b.of("bad").PID > 0 })
		n := done.Load()
		testbin.Await(t, 10*time.Second, "calls flow", func() bool { return done.Load() > n+100 })
	}
	cancel()
	wait.Wait()
	if s := b.of("good"); s.Restarts != 0 || s.Generation != 1 {
		t.Errorf("%+v", s)
	}
}

func TestKeeperMode(t *testing.T) {
	before := testbin.Count()
	b := newBench(t, func(o *Options) { o.NoNamespaces = true })
	b.add(b.plugin("bad"))
	b.works("bad")
	for _, args := range []string{`{"setsid":true,"stdio":true}`, `{}`} {
		if text, err := b.call("bad", "spawn", args); err != nil || strings.Contains(text, "error") {
			t.Fatal(text, err)
		}
	}
	if n := testbin.Count().Processes; n < before.Processes+4 {
		t.Errorf("%d processes run", n)
	}
	gen := b.of("bad").Generation
	_, err := b.call("bad", "exit", `{"code":5}`)
	is(t, err, fault.PluginDied, "exit status 5")
	awaitNewer(b, gen)
	if s := b.of("bad"); len(s.Sandbox.Missing) == 0 {
		t.Errorf("what is missing is not told: %+v", s.Sandbox)
	}
	b.Close(t.Context())
	before.Back(t)
}

func TestCloseWhileAllIsBusy(t *testing.T) {
	before := testbin.Count()
	b := newBench(t, nil)
	b.add(b.plugin("a"), b.plugin("b"), b.plugin("failing", "TESTPLUGIN_START=exit3"))
	slow := b.plugin("starting", "TESTPLUGIN_START=silence")
	if err := b.Add(slow); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.call("a", "sleep", `{"ms":60000}`)
		done <- err
	}()
	testbin.Await(t, 5*time.Second, "the call is in flight", func() bool { return b.of("a").InFlight == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	begun := time.Now()
	b.Close(ctx)
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("Close took %s", took)
	}
	is(t, <-done, fault.PluginDied, "")
	if err := b.Add(b.plugin("late")); fault.From(err).Ref != fault.HostStopping {
		t.Errorf("%v", err)
	}
	before.Back(t)
	if _, err := os.Stat(filepath.Join(b.dir, "data", "plugins", "a")); err != nil {
		t.Error("the data dir is the plugin's and stays")
	}
}
