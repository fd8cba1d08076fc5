package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// hostBlocks is how every config of these tests begins.
const hostBlocks = head + "frontend \"http\" {\n  address = \"127.0.0.1:0\"\n}\n"

// A binary dropped into the folder runs by itself, one taken out ends.
func TestDropIn(t *testing.T) {
	w := newWorld(t, "")
	w.serve()
	w.fails(1, []string{"BH1001"}, "call", "fx_echo")
	path := w.install("fixture")
	testbin.Await(t, 20*time.Second, "the dropped plugin", func() bool { return strings.Contains(w.ok("tools"), "fx_echo") })
	w.answers()
	if p := w.plugin("fixture"); p.Sandbox == nil || p.Sandbox.Profile != "strict" || p.Sandbox.Network != "none" {
		t.Errorf("sandbox: %+v", p.Sandbox)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	testbin.Await(t, 20*time.Second, "the plugin to be gone", func() bool { return len(w.status().Plugins) == 0 })
	w.fails(1, []string{"BH1001"}, "call", "fx_echo")
}

// A replaced binary is swapped without a lost call; a broken one changes nothing.
func TestReplacedBinary(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	before := w.plugin("fx")
	binary := filepath.Join(w.dir, "plugins", "bulkhead-plugin-fixture")
	raw, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(w.dir, "new"), content, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(w.dir, "new"), binary); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	done := make(chan int)
	for range 2 {
		go func() {
			calls := 0
			defer func() { done <- calls }()
			for !stop.Load() {
				if out, errOut, code := w.runQuiet("call", "fx_slow", "ms=50"); code != 0 {
					t.Errorf("a call failed during the swap: %s%s", out, errOut)
					return
				}
				calls++
			}
		}()
	}
	replace(raw)
	testbin.Await(t, 20*time.Second, "the new generation", func() bool {
		p := w.plugin("fx")
		return p.Generation > before.Generation && p.PID != before.PID && p.State == "ready"
	})
	stop.Store(true)
	if calls := <-done + <-done; calls == 0 {
		t.Error("no call was made during the swap")
	}
	swapped := w.plugin("fx")
	if swapped.Restarts != 0 {
		t.Errorf("a swap counts as a restart: %+v", swapped)
	}
	replace([]byte("#!/bin/sh\nexit 3\n"))
	testbin.Await(t, 20*time.Second, "the refusal in the log", func() bool { return strings.Contains(w.log.String(), "the old one goes on") })
	w.answers()
	if p := w.plugin("fx"); p.PID != swapped.PID {
		t.Errorf("another process: %+v", p)
	}
}

func TestReload(t *testing.T) {
	reader := "agent \"reader\" {\n  tools = [\"%s\"]\n}\n"
	block := func(config, tools string) string {
		return hostBlocks + instance("fx", "  config {\n    "+config+"\n  }\n") + strings.Replace(reader, "%s", tools, 1) + instance("calm", "")
	}
	w := newWorld(t, "", "fixture")
	w.write("config.hcl", block(`greeting = "hello"`, "fx_echo"))
	w.serve()
	before, calm := w.plugin("fx"), w.plugin("calm")
	ask := func(session string) string {
		t.Helper()
		w.fails(1, []string{"BH1016"}, "call", "--session", session, "fx_ask")
		w.ok("answer", w.openQuestions()[0].ID, "name=Ada")
		return w.ok("call", "--session", session, "fx_ask")
	}
	says(t, ask("one"), "hello Ada")
	w.fails(1, []string{"BH5001"}, "call", "--agent", "reader", "fx_long", "chars=1")

	t.Run("on a signal", func(t *testing.T) {
		w.write("config.hcl", block(`greeting = "good day"`, "fx_*"))
		if err := w.host.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		testbin.Await(t, 20*time.Second, "the reload", func() bool {
			_, _, code := w.run("call", "--agent", "reader", "fx_long", "chars=1")
			return code == 0
		})
		w.ok("reload")
		says(t, ask("two"), "good day Ada")
		if p := w.plugin("fx"); p.Restarts != 0 {
			t.Errorf("a new config counts as a restart: %+v", p)
		}
		if p := w.plugin("calm"); p.PID != calm.PID {
			t.Errorf("a plugin whose block did not change has a new process: %+v", p)
		}
	})
	t.Run("a fault changes nothing", func(t *testing.T) {
		for _, c := range []struct{ config, word string }{
			{`greting = "x"`, `config.hcl:13,5: unknown key "greting"`}, {"fail = true", "config.hcl:13,12: This config is refused"},
		} {
			w.write("config.hcl", block(c.config, "fx_echo"))
			w.fails(1, []string{c.word}, "reload")
			w.ok("call", "--agent", "reader", "fx_long", "chars=1")
			says(t, ask(c.word[11:13]+"-"+c.config[:4]), "good day Ada")
		}
	})
	t.Run("a pin that is wrong stops all", func(t *testing.T) {
		running := w.plugin("fx")
		w.write("config.hcl", strings.Replace(block(`greeting = "pinned"`, "fx_echo"), "  config {", "  sha256 = \""+strings.Repeat("0", 64)+"\"\n  config {", 1))
		w.fails(1, []string{"sha256"}, "reload")
		w.ok("call", "--agent", "reader", "fx_long", "chars=1")
		if p := w.plugin("fx"); p.PID != running.PID {
			t.Errorf("a new process: %+v", p)
		}
	})
	t.Run("an emptied file waits for its text", func(t *testing.T) {
		running := w.plugin("fx")
		w.write("config.hcl", "")
		testbin.Await(t, 20*time.Second, "the host to see it", func() bool { return strings.Contains(w.log.String(), "the config file is empty") })
		w.ok("call", "--agent", "reader", "fx_long", "chars=1")
		if p := w.plugin("fx"); p.PID != running.PID {
			t.Errorf("a new process: %+v", p)
		}
	})
	t.Run("by itself, with a new process where the launch changes", func(t *testing.T) {
		w.write("config.hcl", block(`greeting = "hi"`, "fx_echo")+instance("second", ""))
		testbin.Await(t, 20*time.Second, "the second plugin", func() bool { return strings.Contains(w.ok("tools"), "second_echo") })
		w.write("config.hcl", hostBlocks+instance("fx", "  grants = [\"shared\"]\n"))
		testbin.Await(t, 20*time.Second, "a new process", func() bool {
			s := w.status()
			return len(s.Plugins) == 1 && s.Plugins[0].PID != before.PID && s.Plugins[0].State == "ready"
		})
		w.fails(1, []string{"BH5010"}, "call", "--agent", "reader", "fx_echo")
		w.answers()
	})
}
