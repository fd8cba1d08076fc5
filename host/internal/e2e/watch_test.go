package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// there renames a file or link within the world, over what is there.
func (w *world) there(from, to string) {
	w.t.Helper()
	if err := os.Rename(filepath.Join(w.dir, from), filepath.Join(w.dir, to)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) link(to, name string) {
	w.t.Helper()
	if err := os.Symlink(to, filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) logged(words string) {
	w.t.Helper()
	testbin.Await(w.t, 20*time.Second, "the log to say "+words, func() bool { return strings.Contains(w.log.String(), words) })
}

func (w *world) offers(tool string) {
	w.t.Helper()
	testbin.Await(w.t, 20*time.Second, tool, func() bool { return strings.Contains(w.ok("tools"), tool+" ") })
}

// A config file is followed to where links lead: its target may be edited, replaced,
// or be another one because a link on the way is.
func TestLinkedConfig(t *testing.T) {
	w := newWorld(t, "", "fixture")
	w.mkdir("one")
	w.mkdir("two")
	w.write("one/config.hcl", hostBlocks+instance("first", ""))
	w.write("two/config.hcl", hostBlocks+instance("third", ""))
	if err := os.Remove(filepath.Join(w.dir, "config.hcl")); err != nil {
		t.Fatal(err)
	}
	w.link("one", "data-now")
	w.link("data-now/config.hcl", "config.hcl")
	w.serve()
	w.offers("first_echo")
	w.write("one/next", hostBlocks+instance("second", ""))
	w.there("one/next", "one/config.hcl")
	w.offers("second_echo")
	w.write("one/config.hcl", hostBlocks+instance("again", ""))
	w.offers("again_echo")
	w.link("two", "next")
	w.there("next", "data-now")
	w.offers("third_echo")
	w.write("two/config.hcl", hostBlocks+instance("fourth", ""))
	w.offers("fourth_echo")
}

// A plugins folder is followed by its name: another one that takes its place, a link
// there, and where that leads then.
func TestReplacedPluginsFolder(t *testing.T) {
	w := newWorld(t, "")
	w.serve()
	w.there("plugins", "old")
	w.mkdir("plugins")
	w.install("fixture")
	w.offers("fx_echo")
	w.there("plugins", "older")
	testbin.Await(t, 20*time.Second, "the plugin to be gone", func() bool { return len(w.status().Plugins) == 0 })
	w.link("older", "plugins")
	w.offers("fx_echo")
	w.install("notes") // through the link
	testbin.Await(t, 20*time.Second, "the second plugin", func() bool { return len(w.status().Plugins) == 2 })
	// One that is not there at the start is followed from when it is.
	w.stop()
	w.there("older", "elsewhere")
	w.serve()
	w.there("elsewhere", "older")
	w.offers("fx_echo")
}

// What is dropped in right after a bad edit is not lost with it.
func TestDropInBesideABadEdit(t *testing.T) {
	w := newWorld(t, "")
	w.serve()
	anybody := w.as("")
	w.write("config.hcl", hostBlocks+"plugin \"x\" {\n  nonsense = 1\n}\n")
	w.install("fixture")
	testbin.Await(t, 20*time.Second, "the dropped plugin", func() bool { return strings.Contains(anybody.do("GET", "/v1/tools", "").body, "fx_echo") })
	w.logged("the config was not reloaded")
}

// Writing without an end does not put changes off for ever.
func TestChangesBesideConstantWrites(t *testing.T) {
	w := newWorld(t, "")
	w.serve()
	f, err := os.Create(filepath.Join(w.dir, "plugins", "some.log"))
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = f.WriteString("a line\n") // a full disk shows elsewhere
			case <-stop:
				return
			}
		}
	}()
	defer func() {
		close(stop)
		<-done
		_ = f.Close()
	}()
	w.install("fixture")
	w.offers("fx_echo")
	w.write("config.hcl", hostBlocks+instance("another", ""))
	w.offers("another_echo")
}

// A binary outside the folder is swapped when it is replaced, as one inside is.
func TestReplacedBinaryElsewhere(t *testing.T) {
	w := newWorld(t, "", "fixture")
	w.mkdir("build")
	w.there("plugins/bulkhead-plugin-fixture", "build/mine")
	w.write("config.hcl", hostBlocks+strings.Replace(instance("fx", ""), "bulkhead-plugin-fixture", "./build/mine", 1))
	w.serve()
	before := w.plugin("fx")
	raw, err := os.ReadFile(filepath.Join(w.dir, "build/mine"))
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, "build/next"), raw, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.there("build/next", "build/mine")
	testbin.Await(t, 20*time.Second, "the new generation", func() bool {
		p := w.plugin("fx")
		return p.Generation > before.Generation && p.State == "ready"
	})
}

// A config that is gone, or says nothing any more, is told of and changes nothing,
// until a reload is asked for.
func TestConfigThatSaysNothing(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	w.there("config.hcl", "away")
	w.logged("the config file can't be read; the running config stays")
	w.ok("call", "fx_echo", "{}")
	w.write("config.hcl", "# the rest of it was cut off\n")
	w.logged("holds nothing but comments")
	w.ok("call", "fx_echo", "{}")
	if n := strings.Count(w.log.String(), "can't be read; the running"); n != 1 {
		t.Errorf("its absence was told %d times", n)
	}
	if out := w.ok("reload"); !strings.Contains(out, "says nothing") {
		t.Errorf("reload says %q", out)
	}
	if s := states(w.status()); len(s) != 1 || !strings.HasPrefix(s[0], "fixture=") { // by no block, but by its file
		t.Errorf("plugins: %v", s)
	}
}
