package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/host/internal/config"
)

const root = "../../.."

var (
	fence     = regexp.MustCompile("(?ms)^```(\\S+)( runnable)?\\n(.*?)^```$")
	secretUse = regexp.MustCompile(`secret\("([^"]+)"\)`)
	link      = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
)

// sample is one code block of a page.
type sample struct {
	page, language, text string
	runnable             bool
}

func pages(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(root + "/docs/plugins/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(append(list, more...), root+"/README.md")
}

func samples(t *testing.T, language string) (out []sample) {
	t.Helper()
	for _, page := range pages(t) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllStringSubmatch(string(raw), -1) {
			if m[1] == language {
				out = append(out, sample{filepath.Base(page), m[1], m[3], m[2] != ""})
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("no page has a block of %s", language)
	}
	return out
}

// Every config in the docs is one the host takes.
func TestConfigsInDocs(t *testing.T) {
	for _, s := range samples(t, "hcl") {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "data", "secrets"), 0o700); err != nil {
			t.Fatal(err)
		}
		for i, m := range secretUse.FindAllStringSubmatch(s.text, -1) {
			if err := os.WriteFile(filepath.Join(dir, "data", "secrets", m[1]), fmt.Appendf(nil, "a-token-of-a-sample-%d", i), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, diags := config.Parse(filepath.Join(dir, "config.hcl"), []byte(s.text)); len(diags) > 0 {
			t.Errorf("%s: %v in:\n%s", s.page, diags, s.text)
		}
	}
}

// The commands in the docs do what stands there, with the plugin of the README.
func TestCommandsInDocs(t *testing.T) {
	var plugin, block string
	for _, s := range samples(t, "go") {
		if s.page == "README.md" {
			plugin = s.text
		}
	}
	for _, s := range samples(t, "hcl") {
		if s.page == "README.md" {
			block = s.text
		}
	}
	w := newWorld(t, block)
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(plugin), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(w.dir, "plugins", "bulkhead-plugin-weather"), source)
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the plugin of the README does not build: %v\n%s", err, out)
	}
	w.serve()
	all := ""
	for _, s := range samples(t, "sh") {
		if !s.runnable {
			continue
		}
		for line := range strings.Lines(s.text) {
			command, comment, _ := strings.Cut(strings.TrimSpace(line), "#")
			args := strings.Fields(command)
			if len(args) == 0 || args[0] != "bulkhead" {
				t.Fatalf("%s: only bulkhead's own commands are run, not %q", s.page, line)
			}
			for i, a := range args {
				if a == "q_ID" {
					args[i] = w.openQuestions()[0].ID
				}
			}
			want := 0
			if strings.Contains(comment, "exits 1") {
				want = 1
			}
			out, errOut, code := w.run(args[1:]...)
			if code != want {
				t.Errorf("%s: %q: exit %d\n%s%s", s.page, line, code, out, errOut)
			}
			all += out
		}
	}
	says(t, all, "Oslo: fair (imperial)", "Which day?", "To Oslo on Sunday.")
}

// Links between the pages lead somewhere.
func TestLinksInDocs(t *testing.T) {
	for _, page := range pages(t) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(raw), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}
