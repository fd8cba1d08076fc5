package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// stranger is a plugin's module outside of the tree, as its author has it.
type stranger struct {
	t         *testing.T
	w         *world
	name, dir string
}

// sdk is the folder of this tree.
func sdk(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// stranger writes a plugin's module with the command of the host, against the SDK
// of this tree.
func (w *world) stranger(name string) *stranger {
	w.t.Helper()
	s := &stranger{w.t, w, name, filepath.Join(w.t.TempDir(), "bulkhead-plugin-"+name)}
	says(w.t, w.ok("plugin", "new", name, s.dir, "--sdk", sdk(w.t)), "wrote plugin "+name)
	return s
}

func (s *stranger) binary() string { return filepath.Join(s.dir, "bulkhead-plugin-"+s.name) }

func (s *stranger) make(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("make", args...)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("make %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// install puts the binary into the plugins folder of the host.
func (s *stranger) install() string {
	s.t.Helper()
	s.make("install", "PLUGINS="+filepath.Join(s.w.dir, "plugins"))
	return filepath.Join(s.w.dir, "plugins", filepath.Base(s.binary()))
}

func (s *stranger) edit(file, old, new string) {
	s.t.Helper()
	path := filepath.Join(s.dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		s.t.Fatalf("%s has no %q", file, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// cases are the outcomes that plugin test prints, those that failed first.
func (s *stranger) cases(code int) (failed, passed []string) {
	s.t.Helper()
	out, errOut, got := s.w.run("plugin", "test", s.binary(), "--json")
	if got != code {
		s.t.Errorf("plugin test: exit %d, want %d\n%s%s", got, code, clip(out), errOut)
	}
	var all []struct {
		Name    string
		Passed  bool
		Skipped string
		Lines   []string
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		s.t.Fatalf("%v:\n%s", err, clip(out))
	}
	for _, c := range all {
		switch {
		case c.Passed:
			passed = append(passed, c.Name)
		case c.Skipped == "":
			failed = append(failed, c.Name)
			if len(c.Lines) == 0 {
				s.t.Errorf("%s failed and does not say why", c.Name)
			}
		}
	}
	return failed, passed
}

var imports = regexp.MustCompile(`(?s)import \(.*?\)\n`)

// A plugin that knows nothing of this tree but the SDK: written, built, tested,
// dropped into a host before and after it starts, replaced, and taken away.
func TestThirdPartyPlugin(t *testing.T) {
	w := newWorld(t, "")
	early, late := w.stranger("early"), w.stranger("late")
	main, err := os.ReadFile(filepath.Join(early.dir, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(imports.ReplaceAllString(string(main), ""), "\n"); lines > 20 {
		t.Errorf("main.go has %d lines without its imports", lines)
	}
	early.make()
	says(t, early.make("test"), "ok")
	if failed, passed := early.cases(0); len(failed) > 0 || len(passed) < 10 {
		t.Errorf("of a fresh plugin failed %v and passed %v", failed, passed)
	}
	says(t, w.ok("plugin", "test", early.binary()), "describe is stable", "passed", "skipped: no tool is named with --slow")

	early.install()
	w.serve()
	says(t, w.ok("call", "early_greet", "name=Ada"), "Hello, Ada!")

	installed := late.install()
	testbin.Await(t, 20*time.Second, "the dropped plugin", func() bool { return strings.Contains(w.ok("tools"), "late_greet") })
	says(t, w.ok("call", "late_greet", "name=Bob"), "Hello, Bob!")
	if p := w.plugin("late"); p.Sandbox == nil || p.Sandbox.Profile != "strict" || p.Sandbox.Network != "none" {
		t.Errorf("sandbox: %+v", p.Sandbox)
	}
	says(t, w.ok("tools", "late_greet"), "tier elevated")

	late.edit("main.go", "Hello, %s!", "Good evening, %s!")
	late.install()
	testbin.Await(t, 20*time.Second, "the replaced plugin", func() bool {
		return strings.Contains(w.ok("call", "late_greet", "name=Bob"), "Good evening, Bob!")
	})
	if err := os.Remove(installed); err != nil {
		t.Fatal(err)
	}
	testbin.Await(t, 20*time.Second, "the plugin to be gone", func() bool { return !strings.Contains(w.ok("tools"), "late_greet") })
	says(t, w.ok("call", "early_greet", "name=Ada"), "Hello, Ada!")
}

// The conformance cases name what a broken plugin breaks, and only that.
func TestPluginTestFindsFaults(t *testing.T) {
	w := newWorld(t, "")
	s := w.stranger("broken")
	s.edit("main.go", "import (\n\t\"context\"\n", "import (\n\t\"context\"\n\t\"os\"\n")
	s.edit("main.go", `Version: "0.1.0",`, `Version: "0.1.0", Health: func(context.Context) sdk.Health { os.Exit(3); return sdk.Health{} },`)
	s.make()
	failed, passed := s.cases(1)
	if strings.Join(failed, ",") != "health answers" || len(passed) < 9 {
		t.Errorf("failed %v, passed %v", failed, passed)
	}
	w.fails(1, []string{"health answers", "FAILED", "1 case failed"}, "plugin", "test", s.binary())
	out := w.fails(1, []string{`"shape" is not a setting`, "starts", "1 case failed"}, "plugin", "test", s.binary(), "--config", "shape=round")
	if strings.Contains(out, "drain") || strings.Count(out, "is not a setting") != 1 {
		t.Errorf("one fault is told as many:\n%s", out)
	}
	w.fails(2, []string{"not JSON"}, "plugin", "test", s.binary(), "--config", "{")
	w.fails(1, []string{"is not a program"}, "plugin", "test", filepath.Join(s.dir, "go.mod"))
	w.fails(1, []string{"no such file"}, "plugin", "test", "nowhere")
	w.fails(2, []string{"test needs PATH"}, "plugin", "test")
}

// A module that is there already is left as it is, and so is everything when what
// was asked for makes no sense.
func TestPluginNewRefuses(t *testing.T) {
	w := newWorld(t, "")
	s := w.stranger("first")
	before, err := os.ReadFile(filepath.Join(s.dir, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	w.fails(1, []string{"is not empty, nothing was written"}, "plugin", "new", "second", s.dir, "--sdk", sdk(t))
	if after, err := os.ReadFile(filepath.Join(s.dir, "main.go")); err != nil || string(after) != string(before) {
		t.Errorf("main.go was changed: %v", err)
	}
	for _, name := range []string{"", "Weather", "../up", "a b", "a_b", "1st", strings.Repeat("n", 41), "x/y"} {
		w.fails(2, []string{"is no name for a plugin"}, "plugin", "new", name, filepath.Join(t.TempDir(), "x"))
	}
	w.fails(1, []string{"--sdk", "no such file"}, "plugin", "new", "third", "--sdk", w.dir)
	w.write("go.mod", "module example.com/other\n")
	w.fails(1, []string{"--sdk", `is the module "example.com/other"`}, "plugin", "new", "third", "--sdk", w.dir)
	w.fails(1, []string{"not a directory"}, "plugin", "new", "third", filepath.Join(w.dir, "config.hcl", "x"), "--sdk", sdk(t))
	// Without --sdk the published module is meant, and this build is none, though make
	// gives it the number of a version.
	w.fails(1, []string{"not from a released version", "--sdk FOLDER"}, "plugin", "new", "third")
	cmd := exec.Command(made(t), "plugin", "new", "third")
	cmd.Dir = w.dir
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "not from a released version") {
		t.Errorf("as made: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "bulkhead-plugin-third")); err == nil {
		t.Error("a refused plugin has a folder")
	}
	out := w.ok("plugin", "new", "third", "--json", "--sdk", sdk(t))
	text, err := os.ReadFile(filepath.Join(w.dir, "bulkhead-plugin-third", "go.mod"))
	if err != nil || !strings.Contains(string(text), "replace") || !strings.Contains(out, `"go.mod"`) {
		t.Errorf("%v\n%s\n%s", err, text, out)
	}
}

// made is the host's program, built as make builds it.
func made(t *testing.T) string {
	t.Helper()
	plan := exec.Command("make", "--no-print-directory", "-n", "build")
	plan.Dir = sdk(t)
	// As a make of its own, also where these tests are run by one.
	plan.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") })
	out, err := plan.Output()
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	path := filepath.Join(t.TempDir(), "bulkhead")
	build := exec.Command("sh", "-c", strings.Replace(line, "-o bin/bulkhead", "-o "+path, 1))
	build.Dir = sdk(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	if out, err := exec.Command(path, "--version").Output(); err != nil || !strings.Contains(string(out), "0.1.0") {
		t.Fatalf("%s builds no program with a number: %s %v", line, out, err)
	}
	return path
}

// The Go of the authors' page is one plugin: it compiles, and its tests pass.
func TestAuthorsPage(t *testing.T) {
	w := newWorld(t, "")
	s := w.stranger("weather")
	packages := map[string]string{"context": "context", "json": "encoding/json", "testing": "testing", "time": "time",
		"sdk": module + "sdk", "sdktest": module + "sdk/sdktest"}
	for _, name := range []string{"main.go", "main_test.go"} {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	used := regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
	parts := 0
	for _, sample := range samples(t, "go") {
		if sample.page != "plugin-authors.md" {
			continue
		}
		text := sample.text
		if !strings.HasPrefix(text, "package ") {
			need := map[string]bool{}
			for _, m := range used.FindAllStringSubmatch(text, -1) {
				need[packages[m[1]]] = true
			}
			delete(need, "")
			head := "package main\n\n"
			for path := range need {
				head += "import \"" + path + "\"\n"
			}
			text = head + text
		}
		name := "part" + string(rune('a'+parts))
		if strings.Contains(text, "func Test") {
			name += "_test"
		}
		parts++
		if err := os.WriteFile(filepath.Join(s.dir, name+".go"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if parts < 5 {
		t.Fatalf("the page has %d blocks of Go", parts)
	}
	s.make()
	says(t, s.make("test"), "ok")
	if failed, _ := s.cases(0); len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
}
