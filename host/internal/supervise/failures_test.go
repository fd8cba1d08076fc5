//go:build linux

package supervise

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// TestFailures plays what plugins have done to hosts, the rows that kill or hang
// a host built the ordinary way first. In each a good plugin runs beside the bad
// one and must work before, while and after; nothing may be left at the end.
func TestFailures(t *testing.T) {
	// The library under the host starts a few helpers once; they are not the row's.
	warm := newBench(t, nil)
	warm.add(warm.plugin("warm"))
	warm.Close(t.Context())

	rows := []struct {
		name   string
		change func(*Options)
		env    []string
		limits Limits
		failed bool // the bad plugin never starts
		play   func(t *testing.T, b *bench)
	}{
		{name: "JSON of wrong types on stderr", env: []string{"TESTPLUGIN_START=stderrjson"}, play: func(t *testing.T, b *bench) {
			if text, err := b.call("bad", "stderr_json", `{}`); err != nil || text != "written" {
				t.Errorf("%q %v", text, err)
			}
			b.works("bad")
		}},
		{name: "handshake, then never serves", env: []string{"TESTPLUGIN_START=neverserve"}, failed: true,
			change: func(o *Options) { o.StartTimeout = time.Second },
			play: func(t *testing.T, b *bench) {
				is(t, lastError(b), fault.PluginStart, "it answered nothing within 1s")
			}},
		{name: "stopped process", change: func(o *Options) {
			o.HealthInterval, o.HealthTimeout = 50*time.Millisecond, 100*time.Millisecond
		}, play: func(t *testing.T, b *bench) {
			gen := b.of("bad").Generation
			syscall.Kill(b.of("bad").PID, syscall.SIGSTOP)
			_, err := b.call("bad", "sleep", `{"ms":60000}`)
			is(t, err, fault.PluginDied, `plugin "bad"`)
			awaitNewer(b, gen)
			b.works("bad")
		}},
		{name: "stop of a stopped process", play: func(t *testing.T, b *bench) {
			syscall.Kill(b.of("bad").PID, syscall.SIGSTOP)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := b.Stop(ctx, "bad"); err != nil {
				t.Error(err)
			}
			if s := b.of("bad"); s.State != Stopped || s.PID != 0 {
				t.Errorf("%+v", s)
			}
		}},
		{name: "grandchild keeps the pipes", play: func(t *testing.T, b *bench) {
			for _, args := range []string{`{"stdio":true,"setsid":true}`, `{"stdio":true}`} {
				if text, err := b.call("bad", "spawn", args); err != nil || strings.Contains(text, "error") {
					t.Fatalf("%q %v", text, err)
				}
			}
			gen := b.of("bad").Generation
			_, err := b.call("bad", "exit", `{"code":9}`)
			is(t, err, fault.PluginDied, "exit status 9")
			awaitNewer(b, gen)
		}},
		{name: "endless broker knocks", play: func(t *testing.T, b *bench) {
			b.call("bad", "knock", `{"n":20000}`)
			before := heap()
			b.call("bad", "knock", `{"n":20000}`)
			if grown := heap() - before; grown > 8<<20 {
				t.Errorf("the host grew by %d bytes", grown)
			}
			b.works("bad")
		}},
		{name: "panic in a handler", play: func(t *testing.T, b *bench) { dies(t, b, "panic", `{}`, "panic: the handler's own panic") }},
		{name: "panic in a goroutine", play: func(t *testing.T, b *bench) { dies(t, b, "gopanic", `{}`, "panic: a goroutine's panic") }},
		{name: "exit in a call", play: func(t *testing.T, b *bench) { dies(t, b, "exit", `{"code":3}`, "") }},
		{name: "SIGKILL", play: func(t *testing.T, b *bench) { signalled(t, b, syscall.SIGKILL) }},
		{name: "SIGTERM", play: func(t *testing.T, b *bench) { signalled(t, b, syscall.SIGTERM) }},
		{name: "blocked handlers", limits: Limits{Calls: 8}, change: func(o *Options) { o.AbandonAfter = 3 * time.Second }, play: func(t *testing.T, b *bench) {
			gen := b.of("bad").Generation
			for i := range maxAbandoned {
				ctx, cancel := context.WithCancel(t.Context())
				_, _, err := b.Invoke(ctx, "bad", false, &pluginv1.InvokeRequest{CallId: callID(), Name: "sleep", Arguments: []byte(`{"ms":600000,"deaf":true}`)},
					func(*pluginv1.InvokeEvent) { cancel() })
				cancel()
				is(t, err, fault.CallCancelled, "")
				if n := b.of("bad").InFlight; n != i+1 {
					t.Errorf("%d slots are taken by %d handlers that run", n, i+1)
				}
			}
			b.works("bad")
			awaitNewer(b, gen) // recycled
			b.works("bad")
			if s := b.of("bad"); s.Restarts != 0 || s.InFlight != 0 {
				t.Errorf("a swap is no unplanned exit and frees the slots: %+v", s)
			}
		}},
		{name: "busy loop", play: func(t *testing.T, b *bench) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := b.callIn(ctx, "bad", "spin", `{}`)
			is(t, err, fault.CallTimeout, "")
			testbin.Await(t, 5*time.Second, "the slot is free", func() bool { return b.of("bad").InFlight == 0 })
			b.works("bad")
		}},
		{name: "memory hog", limits: Limits{Memory: 256 << 20}, play: func(t *testing.T, b *bench) {
			dies(t, b, "hog", `{"mb":2048}`, "")
		}},
		{name: "garbage before the handshake", env: []string{"TESTPLUGIN_START=garbage"}, failed: true, play: func(t *testing.T, b *bench) {
			is(t, lastError(b), fault.PluginHandshake, "hello, I am a plugin")
		}},
		{name: "1 MiB line before the handshake", env: []string{"TESTPLUGIN_START=longline"}, failed: true, play: func(t *testing.T, b *bench) {
			is(t, lastError(b), fault.PluginHandshake, "where its handshake belongs")
		}},
		{name: "endless stdout before the handshake", env: []string{"TESTPLUGIN_START=endless"}, failed: true, play: func(t *testing.T, b *bench) {
			is(t, lastError(b), fault.PluginHandshake, "where its handshake belongs")
		}},
		{name: "partial handshake", env: []string{"TESTPLUGIN_START=partial"}, failed: true,
			change: func(o *Options) { o.StartTimeout = 500 * time.Millisecond },
			play: func(t *testing.T, b *bench) {
				is(t, lastError(b), fault.PluginStart, "it printed no handshake within 500ms")
			}},
		{name: "silence", env: []string{"TESTPLUGIN_START=silence"}, failed: true,
			change: func(o *Options) { o.StartTimeout = 500 * time.Millisecond },
			play: func(t *testing.T, b *bench) {
				is(t, lastError(b), fault.PluginStart, "it printed no handshake within 500ms")
			}},
		{name: "handshake without a socket", env: []string{"TESTPLUGIN_START=nosocket"}, failed: true, play: func(t *testing.T, b *bench) {
			is(t, lastError(b), fault.PluginHandshake, "not a socket in its own run folder")
		}},
		{name: "handshake that leads elsewhere", env: []string{"TESTPLUGIN_START=tcp"}, failed: true, play: func(t *testing.T, b *bench) {
			is(t, lastError(b), fault.PluginHandshake, "10.0.0.1:80")
		}},
		{name: "exit before the handshake", env: []string{"TESTPLUGIN_START=exit0"}, failed: true, play: func(t *testing.T, b *bench) {
			is(t, lastError(b), fault.PluginStart, "exit status 0")
		}},
		{name: "1 GiB of stderr without a line's end", play: func(t *testing.T, b *bench) {
			if text, err := b.call("bad", "stderr", `{"mb":1024}`); err != nil || text != "written" {
				t.Errorf("%q %v", text, err)
			}
			if n := len(b.log.String()); n > 4<<20 {
				t.Errorf("%d bytes were logged", n)
			}
		}},
		{name: "10 MiB of raw stdout", play: func(t *testing.T, b *bench) {
			if text, err := b.call("bad", "stdout", `{"mb":10}`); err != nil || text != "written" {
				t.Errorf("%q %v", text, err)
			}
		}},
		{name: "64 MiB response", play: func(t *testing.T, b *bench) {
			before := heap()
			_, err := b.call("bad", "big", `{"mb":64}`)
			is(t, err, fault.PluginMessageSize, "/shared")
			if grown := heap() - before; grown > 32<<20 {
				t.Errorf("the host grew by %d bytes", grown)
			}
			b.works("bad")
		}},
		{name: "512 MiB response", play: func(t *testing.T, b *bench) {
			_, err := b.call("bad", "big", `{"mb":512}`)
			is(t, err, fault.PluginMessageSize, "/shared")
			b.works("bad")
		}},
		{name: "kill -9 of the host", play: func(t *testing.T, b *bench) { killHost(t, b) }},
		{name: "threads of the host end", play: func(t *testing.T, b *bench) {
			pid := b.of("bad").PID
			var wait sync.WaitGroup
			for range 50 {
				wait.Go(func() { runtime.LockOSThread() }) // ends its thread
			}
			wait.Wait()
			b.works("bad")
			if now := b.of("bad"); now.PID != pid || now.Restarts != 0 {
				t.Errorf("the plugin died with a thread: %+v", now)
			}
		}},
		{name: "binary replaced while it runs", play: func(t *testing.T, b *bench) { replaceBinary(t, b) }},
		{name: "churn", play: func(t *testing.T, b *bench) {
			for range 50 {
				if err := b.Restart(t.Context(), "bad"); err != nil {
					t.Fatal(err)
				}
			}
			b.works("bad")
			if s := b.of("bad"); s.Restarts != 0 || s.Generation != 51 {
				t.Errorf("%+v", s)
			}
		}},
		{name: "stream without a result", play: func(t *testing.T, b *bench) {
			_, err := b.call("bad", "noresult", `{}`)
			is(t, err, fault.PluginProtocol, "without a result")
		}},
		{name: "results after the result", play: func(t *testing.T, b *bench) {
			if text, err := b.call("bad", "twice", `{}`); err != nil || text != "result 0" {
				t.Errorf("%q %v", text, err)
			}
			testbin.Await(t, 5*time.Second, "the slot is free", func() bool { return b.of("bad").InFlight == 0 })
		}},
		{name: "text that is not UTF-8", play: func(t *testing.T, b *bench) {
			_, err := b.call("bad", "badutf8", `{}`)
			is(t, err, fault.PluginProtocol, `plugin "bad"`)
		}},
		{name: "JSON that is not JSON", play: func(t *testing.T, b *bench) {
			_, err := b.call("bad", "badjson", `{}`)
			is(t, err, fault.PluginProtocol, "not JSON")
		}},
		{name: "question with too much state", play: func(t *testing.T, b *bench) {
			_, err := b.call("bad", "needs_input", `{"n":65537}`)
			is(t, err, fault.PluginProtocol, "65536 are allowed")
		}},
		{name: "flood of events", play: func(t *testing.T, b *bench) {
			if text, err := b.call("bad", "events", `{"n":20000}`); err != nil || text != "sent" {
				t.Errorf("%q %v", text, err)
			}
		}},
		{name: "host service that panics", play: func(t *testing.T, b *bench) {
			if text, err := b.call("bad", "nested", `{"tool":"good/panic"}`); err != nil || !strings.Contains(text, "the host failed at this call") {
				t.Errorf("%q %v", text, err)
			}
		}},
		{name: "Configure never answers", env: []string{"TESTPLUGIN_HANG=configure"}, failed: true,
			change: func(o *Options) { o.ConfigTimeout = 500 * time.Millisecond },
			play:   func(t *testing.T, b *bench) { is(t, lastError(b), fault.PluginStart, "Configure in time") }},
		{name: "no offers", env: []string{"TESTPLUGIN_HANG=offers"}, failed: true,
			change: func(o *Options) { o.ConfigTimeout = 500 * time.Millisecond },
			play:   func(t *testing.T, b *bench) { is(t, lastError(b), fault.PluginStart, "no offers within") }},
		{name: "endless offers", env: []string{"TESTPLUGIN_HANG=offerflood"}, failed: true, play: func(t *testing.T, b *bench) {
			is(t, lastError(b), fault.BadOffer, "too much")
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			before := testbin.Count()
			b := newBench(t, row.change)
			bad := b.plugin("bad", row.env...)
			bad.Limits = row.limits
			b.add(b.plugin("good"), bad)
			b.works("good")
			if row.failed {
				if s := b.of("bad"); s.Restarts == 0 || s.LastError == "" {
					t.Errorf("it did not fail: %+v", s)
				}
			} else {
				b.works("bad")
			}
			row.play(t, b)
			b.works("good")
			if s := b.of("good"); s.Restarts != 0 || s.Generation != 1 {
				t.Errorf("the good plugin suffered: %+v", s)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			b.Close(ctx)
			before.Back(t)
			if left, _ := os.ReadDir(filepath.Join(b.dir, "r")); len(left) > 0 {
				t.Errorf("left in the run dir: %v", left)
			}
			if left, _ := os.ReadDir(filepath.Join(b.dir, "data", "tmp")); len(left) > 0 {
				t.Errorf("left in tmp: %v", left)
			}
		})
	}
}

func lastError(b *bench) error {
	s := b.of("bad")
	return fault.New(fault.Ref(s.LastRef), "%s", s.LastError)
}

func awaitNewer(b *bench, gen uint64) {
	b.t.Helper()
	testbin.Await(b.t, 20*time.Second, "a new generation serves", func() bool {
		s := b.of("bad")
		return s.Generation > gen && s.State == Ready
	})
}

// dies plays a call that ends the process, and waits for the next generation.
func dies(t *testing.T, b *bench, tool, args, trace string) {
	t.Helper()
	gen := b.of("bad").Generation
	_, err := b.call("bad", tool, args)
	is(t, err, fault.PluginDied, `plugin "bad"`)
	awaitNewer(b, gen)
	b.works("bad")
	s := b.of("bad")
	if s.Restarts != 1 || !strings.Contains(strings.Join(s.Tail, "\n"), trace) {
		t.Errorf("restarts %d, tail %q", s.Restarts, s.Tail)
	}
}

func signalled(t *testing.T, b *bench, sig syscall.Signal) {
	t.Helper()
	s := b.of("bad")
	done := make(chan error, 1)
	go func() {
		_, err := b.call("bad", "sleep", `{"ms":60000}`)
		done <- err
	}()
	testbin.Await(t, 5*time.Second, "the call is in flight", func() bool { return b.of("bad").InFlight == 1 })
	if err := syscall.Kill(s.PID, sig); err != nil {
		t.Fatal(err)
	}
	is(t, <-done, fault.PluginDied, `plugin "bad"`)
	awaitNewer(b, s.Generation)
	b.works("bad")
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// replaceBinary renames a new file over the running one: nothing changes until
// the next start, which runs the new file.
func replaceBinary(t *testing.T, b *bench) {
	code, err := os.ReadFile(testbin.Build(t, fixture))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(b.dir, "plugins", "replaced")
	os.Mkdir(filepath.Dir(path), 0o755)
	put := func(code []byte) {
		if err := os.WriteFile(path+".new", code, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	put(code)
	p := b.plugin("replaced")
	p.Binary = path
	b.add(p)
	b.works("replaced")
	put([]byte("#!/bin/sh\nexit 7\n"))
	b.works("replaced")
	if err := b.Swap(t.Context(), p); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("a swap to a broken binary: %v", err)
	}
	b.works("replaced") // the old one goes on
	put(code)
	if err := b.Swap(t.Context(), p); err != nil {
		t.Error(err)
	}
	b.works("replaced")
}

// hostToKill is a host with two plugins that waits to be killed.
func hostToKill() {
	var dir, binary, mark string
	fmt.Sscan(os.Getenv("TESTHOST"), &dir, &binary, &mark)
	s := New(Options{DataDir: filepath.Join(dir, "data"), RunDir: filepath.Join(dir, "r"), Offers: &registry{}})
	for _, profile := range []string{sandbox.Strict, sandbox.Launcher, sandbox.None} {
		s.Add(Plugin{Name: profile, Binary: binary, Configured: true, Sandbox: SandboxConfig{Profile: profile}, Env: map[string]string{"TESTPLUGIN_MARK": mark}})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Settled(ctx); err != nil {
		fmt.Println("error", err)
		return
	}
	b := &bench{Supervisor: s}
	for _, profile := range []string{sandbox.Strict, sandbox.Launcher, sandbox.None} {
		if text, err := b.call(profile, "spawn", `{"setsid":true}`); err != nil {
			fmt.Println("error", text, err)
			return
		}
	}
	fmt.Println("ready")
	select {}
}

func killHost(t *testing.T, b *bench) {
	host := exec.Command("/proc/self/exe")
	mark := filepath.Base(b.dir)
	dir := filepath.Join(b.dir, "h")
	host.Env = append(os.Environ(), fmt.Sprintf("TESTHOST=%s %s %s", dir, testbin.Build(t, fixture), mark))
	pipe, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(pipe).ReadString('\n')
	if line != "ready\n" {
		host.Process.Kill()
		host.Wait()
		t.Fatalf("the host says %q", line)
	}
	marked := func() (n int) {
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, f := range files {
			if env, err := os.ReadFile(f); err == nil && strings.Contains(string(env), "TESTPLUGIN_MARK="+mark) {
				n++
			}
		}
		return n
	}
	if n := marked(); n < 6 {
		t.Errorf("only %d processes run", n)
	}
	host.Process.Kill()
	host.Wait()
	testbin.Await(t, 5*time.Second, "nothing of the killed host is left", func() bool { return marked() == 0 })
}
