//go:build linux

package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// What belongs to the host is not seen, by whichever path it is tried, but for the
// plugin's own folders in it; and the plugin may still mount for its children.
func TestLauncherHidesTheHost(t *testing.T) { hides(t, sandbox.Launcher, nil) }

// A strict plugin that may see a folder around the host's files, or a link to it,
// sees the rest of it.
func TestStrictHidesTheHost(t *testing.T) {
	hides(t, sandbox.Strict, func(dir string) []sandbox.Path {
		return []sandbox.Path{{Path: dir, Access: sandbox.Write, Must: true}, {Path: dir + "-link", Access: sandbox.Read, Must: true}}
	})
}

func hides(t *testing.T, profile string, more func(string) []sandbox.Path) {
	dir := tempDir(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, other := write("data/host.key", "key"), write("data/plugins/other/file", "other's")
	config, open := write("config.hcl", "config"), write("open/file", "anyone's")
	if err := os.Symlink(dir, dir+"-link"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir + "-link") })
	s := specIn(dir, testbin.Build(t, fixture), sandbox.Profile{Name: profile})
	s.DataDir = filepath.Join(dir, "data/plugins/own")
	own := write("data/plugins/own/file", "its own")
	if more != nil {
		s.Sandbox.Paths = more(dir)
	}
	// The host's files may be named by a link, and the plugin may ask for them.
	s.Sandbox.Hide = []string{filepath.Join(dir+"-link", "data"), config, filepath.Join(dir, "absent")}
	s.Sandbox.Paths = append(s.Sandbox.Paths, sandbox.Path{Path: filepath.Dir(other), Access: sandbox.Read, Asked: true})
	p := start(t, s)
	report := p.Sandbox()
	if strings.Contains(report.String(), "no mount namespace") {
		t.Skipf("no mount namespace here: %v", report.Missing)
	}
	if !strings.Contains(strings.Join(report.Missing, " "), "asked for by the plugin") {
		t.Errorf("the report does not tell what was not given: %v", report.Missing)
	}
	linked := strings.Replace(key, dir, dir+"-link", 1)
	got := probe(t, p, map[string]any{"read": []string{key, linked, other, config, open, own, filepath.Join(dir, "data")}, "write": []string{filepath.Join(dir, "data", "new"), own}})
	for _, path := range []string{key, linked, other} {
		if got.Try["read "+path] == "ok" {
			t.Errorf("%s could be read", path)
		}
	}
	if text, err := os.ReadFile(config); err != nil || string(text) != "config" {
		t.Errorf("the host's own view: %q %v", text, err)
	}
	for _, what := range []string{"read " + open, "read " + own, "write " + own} {
		if got.Try[what] != "ok" {
			t.Errorf("%s: %s", what, got.Try[what])
		}
	}
	if got.Try["write "+filepath.Join(dir, "data", "new")] == "ok" {
		t.Error("the data dir could be written")
	}
	if profile == sandbox.Launcher {
		if text := say(t, p, "pivot", nil); text != "pid 1 sees /here" {
			t.Error(text)
		}
	}
}
