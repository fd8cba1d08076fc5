package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// put writes a new file in the place of a plugin's binary.
func (w *world) put(plugin string, content []byte) {
	w.t.Helper()
	next := filepath.Join(w.dir, "next")
	err := os.WriteFile(next, content, 0o755)
	if err == nil {
		err = os.Rename(next, filepath.Join(w.dir, "plugins", "bulkhead-plugin-"+plugin))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func binary(t *testing.T, pkg string) []byte {
	t.Helper()
	raw, err := os.ReadFile(testbin.Build(t, module+pkg))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// warned looks for a warning with all of words.
func warned(s api.Status, words ...string) bool {
	for _, line := range s.Warnings {
		found := true
		for _, word := range words {
			found = found && strings.Contains(line, word)
		}
		if found {
			return true
		}
	}
	return false
}

// A replacement that is refused shows in the status until one is taken; what
// served before goes on.
func TestRefusedReplacementShows(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	good := binary(t, "host/internal/e2e/fixture")
	before := w.plugin("fx")
	for name, c := range map[string]struct {
		content []byte
		ref     string
	}{
		"a broken one":      {[]byte("#!/bin/sh\nexit 3\n"), "BH20"},
		"another plugin's":  {binary(t, "host/internal/e2e/ticker"), "BH2019"},
		"without its tools": {binary(t, "host/internal/e2e/bare"), "BH2019"},
	} {
		w.put("fixture", c.content)
		testbin.Await(t, 20*time.Second, name+" to be warned of", func() bool { return warned(w.status(), `plugin "fx"`, "goes on", c.ref) })
		p := w.plugin("fx")
		if p.PID != before.PID || p.State != "ready" || p.Kept == nil || !strings.HasPrefix(p.Kept.Ref, c.ref) || time.Since(p.Kept.Since) > time.Minute {
			t.Errorf("%s: %+v", name, p)
		}
		says(t, w.ok("status"), "warning: plugin \"fx\" was not replaced at", c.ref)
		w.ok("call", "fx_echo", "{}")
		w.put("fixture", append(good[:len(good):len(good)], name...))
		testbin.Await(t, 20*time.Second, "the right one", func() bool { return w.plugin("fx").PID != before.PID })
		testbin.Await(t, 20*time.Second, "the warning to go", func() bool { return w.plugin("fx").Kept == nil && !warned(w.status(), "fx") })
		before = w.plugin("fx")
	}
	// Where the block changes too it was meant.
	w.put("fixture", binary(t, "host/internal/e2e/ticker"))
	testbin.Await(t, 20*time.Second, "the refusal", func() bool { return w.plugin("fx").Kept != nil })
	w.write("config.hcl", hostBlocks+strings.Replace(instance("fx", ""), "FIXTURE_PREFIX", "ANOTHER", 1))
	w.ok("reload")
	testbin.Await(t, 20*time.Second, "the other plugin", func() bool { return strings.Contains(w.ok("tools"), "tick_echo") })
}

// A plugin whose binary is gone runs on, and the status says what that means.
func TestDeletedBinaryShows(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	if err := os.Remove(filepath.Join(w.dir, "plugins", "bulkhead-plugin-fixture")); err != nil {
		t.Fatal(err)
	}
	testbin.Await(t, 10*time.Second, "the warning", func() bool { return warned(w.status(), `plugin "fx"`, "bulkhead-plugin-fixture is gone") })
	w.ok("call", "fx_echo", "{}")
	w.install("fixture")
	testbin.Await(t, 10*time.Second, "the warning to go", func() bool { return !warned(w.status(), "is gone") })
}

// An error of the past says when it was.
func TestLastErrorHasItsTime(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	begin := time.Now().Add(-time.Second)
	p := w.plugin("fx")
	proc, err := os.FindProcess(p.PID)
	if err == nil {
		err = proc.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	testbin.Await(t, 20*time.Second, "the plugin to be back", func() bool { now := w.plugin("fx"); return now.State == "ready" && now.PID != p.PID })
	p = w.plugin("fx")
	if p.LastError == "" || p.LastErrorAt == nil || p.LastErrorAt.Before(begin) || p.LastErrorAt.After(time.Now()) {
		t.Errorf("%+v", p)
	}
	says(t, w.ok("status"), "last error at "+p.LastErrorAt.Local().Format(time.DateTime)+": ")
}

// A reload says what of the file waits for the next start, and does none of it.
func TestReloadNotes(t *testing.T) {
	w := newWorld(t, "", "fixture") // found in the folder, so named after it
	w.write("config.hcl", hostBlocks)
	w.serve()
	if out := w.ok("reload"); strings.TrimSpace(out) != "reloaded" {
		t.Errorf("without a change: %s", out)
	}
	w.mkdir("others")
	w.write("config.hcl", strings.NewReplacer(`"127.0.0.1:0"`, `"127.0.0.1:1"`, `plugins  = "plugins"`, `plugins  = "others"`).Replace(hostBlocks)+"session {\n  list_budget = 7\n}\n")
	out := w.ok("reload")
	says(t, out, "reloaded", `host: plugins waits for the next start (`, "config.hcl:3,14-22)", `frontend "http": address waits for the next start`, `session: list_budget waits for the next start`)
	if n := strings.Count(out, "waits"); n != 3 {
		t.Errorf("%d notes:\n%s", n, out)
	}
	w.ok("call", "fx_echo", "{}") // its folder is the one that was
	var told api.Reloaded
	if err := json.Unmarshal([]byte(w.ok("reload", "--json")), &told); err != nil || len(told.Notes) != 3 || len(told.Plugins) != 1 {
		t.Errorf("as JSON: %v %+v", err, told)
	}
	w.write("config.hcl", hostBlocks)
	if out := w.ok("reload"); strings.TrimSpace(out) != "reloaded" {
		t.Errorf("after the change was taken back: %s", out)
	}
}

// A host leaves no folder of sockets behind, and clears away what one that was
// killed has left; what is nobody's of its own stays.
func TestNothingIsLeftBehind(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	long := "data-" + strings.Repeat("x", 80)
	w.write("config.hcl", strings.Replace(hostBlocks, `"data"`, `"`+long+`"`, 1)+instance("fx", ""))
	runtime, err := os.MkdirTemp("", "rt") // the test's own folder has too long a name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	w.env = append(os.Environ(), "XDG_RUNTIME_DIR="+runtime)
	w.serve()
	dirs, err := filepath.Glob(filepath.Join(runtime, "bulkhead-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v %v", dirs, err)
	}
	w.kill()
	left := []string{filepath.Join(dirs[0], "pzz9"), filepath.Join(w.dir, long, "tmp", "child-root-1")}
	for _, dir := range left {
		if err := os.MkdirAll(filepath.Join(dir, "more"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.serve()
	for _, dir := range left {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
	w.ok("call", "fx_echo", "{}")
	w.stop()
	if _, err := os.Stat(dirs[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dirs[0], err)
	}
	stranger := filepath.Join(dirs[0], "not-ours")
	if err := os.MkdirAll(stranger, 0o700); err != nil {
		t.Fatal(err)
	}
	w.serve()
	w.stop()
	if _, err := os.Stat(stranger); err != nil {
		t.Error(err)
	}
}

// A host that starts clears away what hosts of other data dirs left when they were
// killed. What a running one holds, what is not a host's and what is no folder of
// this user's alone stays.
func TestFoldersOfKilledHostsAreSwept(t *testing.T) {
	runtime, err := os.MkdirTemp("", "rt") // the test's own folder has too long a name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	start := func() (*world, string) {
		w := newWorld(t, instance("fx", ""), "fixture")
		w.write("config.hcl", strings.Replace(hostBlocks, `"data"`, `"data-`+strings.Repeat("x", 80)+`"`, 1)+instance("fx", ""))
		w.env = append(os.Environ(), "XDG_RUNTIME_DIR="+runtime)
		before, err := filepath.Glob(filepath.Join(runtime, "bulkhead-*"))
		if err != nil {
			t.Fatal(err)
		}
		w.serve()
		after, err := filepath.Glob(filepath.Join(runtime, "bulkhead-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range after {
			if !slices.Contains(before, dir) {
				return w, dir
			}
		}
		t.Fatalf("no new folder: %v, then %v", before, after)
		return nil, ""
	}
	gone := func(dir string) bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	}
	killed, left := start()
	running, used := start()
	killed.kill()
	shared, strange := filepath.Join(runtime, fmt.Sprintf("bulkhead-%d-00000000", os.Getuid())), filepath.Join(runtime, fmt.Sprintf("bulkhead-%d-11111111", os.Getuid()))
	for _, dir := range []string{shared, strange} {
		if err := os.MkdirAll(filepath.Join(dir, "p1"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "owner"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(shared, 0o777), os.WriteFile(filepath.Join(strange, "letter"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, third := start()
	if !gone(left) {
		t.Errorf("%s of the killed host is still there", left)
	}
	if gone(used) || gone(third) || gone(filepath.Join(used, "host.sock")) {
		t.Errorf("a folder in use is gone: %s or %s", used, third)
	}
	if gone(filepath.Join(shared, "p1")) {
		t.Error("a folder that others may write to was touched")
	}
	if gone(filepath.Join(strange, "letter")) || !gone(filepath.Join(strange, "p1")) {
		t.Error("of a folder with a stranger's file more than that is there, or less")
	}
	running.ok("call", "fx_echo", "{}")
	killed.serve() // its folder is made anew
	killed.ok("call", "fx_echo", "{}")
}

// A folder for sockets that somebody else made, or may write to, is not used.
func TestForeignSocketFolder(t *testing.T) {
	runtime, err := os.MkdirTemp("", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	w := newWorld(t, "")
	w.write("config.hcl", strings.Replace(hostBlocks, `"data"`, `"data-`+strings.Repeat("x", 80)+`"`, 1))
	w.env = append(os.Environ(), "XDG_RUNTIME_DIR="+runtime)
	w.serve()
	dirs, err := filepath.Glob(filepath.Join(runtime, "bulkhead-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v %v", dirs, err)
	}
	w.stop()
	if err := errors.Join(os.Mkdir(dirs[0], 0o700), os.Chmod(dirs[0], 0o777)); err != nil {
		t.Fatal(err)
	}
	w.fails(1, []string{"BH1024", "others may enter it"}, "serve")
	w.fails(3, []string{"BH1024", "others may enter it"}, "call", "fx_echo")
	l, err := net.Listen("unix", filepath.Join(dirs[0], "host.sock"))
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 1)
	go func() {
		defer close(heard)
		if c, err := l.Accept(); err == nil {
			heard <- "somebody came"
			_ = c.Close()
		}
	}()
	w.fails(3, []string{"others may enter it"}, "call", "fx_echo")
	_ = l.Close()
	if who, ok := <-heard; ok {
		t.Errorf("at a socket of somebody else's: %s", who)
	}
}
