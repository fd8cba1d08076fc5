//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func hostile(name, more string) string {
	return fmt.Sprintf("plugin %q {\n  binary = \"bulkhead-plugin-hostile\"\n  env    = { HOSTILE_PREFIX = %q }\n%s}\n", name, name, more)
}

func profile(name string) string {
	return fmt.Sprintf("  sandbox {\n    profile = %q\n  }\n", name)
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A hostile plugin, whatever its profile, can't act as the operator; under strict
// and launcher it sees no key, secret, database or socket of the host and nothing
// of other plugins, and can't put a binary into the plugins folder.
func TestHostilePlugin(t *testing.T) {
	profiles := []string{"strict", "launcher", "none"}
	hcl := ""
	for _, p := range profiles {
		hcl += hostile(p, profile(p))
	}
	// One that a limit of memory gives a second shim.
	hcl += hostile("bounded", profile("launcher")+"  limits {\n    memory = \"512MiB\"\n  }\n")
	// What it asks the operator for is the operator's to give: all of the disk but
	// the host's own.
	hcl += hostile("wide", "  sandbox {\n    read = [\"/\"]\n  }\n")
	w := newWorld(t, hcl, "hostile", "fixture")
	w.mkdir("data/secrets")
	if err := os.Chmod(filepath.Join(w.dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.secret("token", "the-secret")
	w.write("readable.txt", "anyone may")
	w.serve()
	data := filepath.Join(w.dir, "data")
	socket := filepath.Join(data, "run", "host.sock")
	if _, err := os.Stat(socket); err != nil {
		found, _ := filepath.Glob("/tmp/bulkhead-*/host.sock")
		t.Fatalf("no control socket at %s; there are %v", socket, found)
	}
	key, err := os.ReadFile(filepath.Join(data, "host.key"))
	if err != nil {
		t.Fatal(err)
	}

	for _, p := range profiles {
		t.Run(p+" acts as the operator", func(t *testing.T) {
			w.fails(1, []string{"q_"}, "call", "--session", p, p+"_guarded", "{}")
			id := ""
			for _, q := range w.openQuestions() {
				if q.Tool == p+"_guarded" {
					id = q.ID
				}
			}
			for _, by := range []string{"", "child", "orphan"} {
				out := w.ok("call", p+"_request", jsonOf(t, map[string]string{"socket": socket, "method": "POST", "path": "/v1/questions/" + id, "body": `{"action":"approve"}`, "by": by}))
				if !strings.Contains(out, "refused: ") {
					t.Errorf("by %q: %s", by, out)
				}
			}
			w.fails(1, []string{"q_"}, "call", "--session", p, p+"_guarded", "{}")
		})
	}
	for _, p := range []string{"strict", "launcher", "bounded", "wide"} {
		if s := w.plugin(p).Sandbox; s == nil || strings.Contains(strings.Join(s.Missing, " "), "hidden") {
			t.Fatalf("%s: this machine can't hide the host's files, or the sandbox failed to: %+v", p, s)
		}
		if s := w.plugin(p).Sandbox; p != "strict" && p != "wide" && !strings.Contains(strings.Join(s.InForce, ", "), "the host's own files hidden") {
			t.Errorf("status of %s does not say what is hidden: %+v", p, s)
		}
		t.Run(p+" reads", func(t *testing.T) {
			for _, name := range []string{"data/host.key", "data/bulkhead.db", "data/secrets/token", "data/run/lock", "config.hcl", "data/plugins/none", "plugins/bulkhead-plugin-fixture"} {
				path := filepath.Join(w.dir, name)
				for _, tool := range []string{p + "_read", p + "_uncover"} {
					out := w.ok("call", "--timeout", "30s", tool, jsonOf(t, map[string]string{"path": path}))
					for _, word := range []string{strings.TrimSpace(string(key)), "the-secret", "SQLite format", "frontend", "holds [", "\x7fELF"} {
						if strings.Contains(out, word) {
							t.Errorf("%s of %s shows %q: %s", tool, name, word, clip(out))
						}
					}
				}
			}
			if out := w.ok("call", p+"_read", jsonOf(t, map[string]string{"path": data})); !strings.Contains(out, "holds") && !strings.Contains(out, "refused") || strings.Contains(out, "host.key") {
				t.Errorf("the data dir: %s", out)
			}
		})
		t.Run(p+" plants a binary", func(t *testing.T) {
			planted := filepath.Join(w.dir, "plugins", "bulkhead-plugin-evil")
			for _, path := range []string{planted, filepath.Join(w.dir, "plugins", "bulkhead-plugin-hostile"), filepath.Join(data, "host.key")} {
				before, _ := os.Stat(path)
				if out := w.ok("call", p+"_plant", jsonOf(t, map[string]string{"path": path, "text": "#!/bin/sh\n"})); !strings.Contains(out, "refused: ") {
					t.Errorf("%s: %s", path, out)
				}
				after, _ := os.Stat(path)
				if (before == nil) != (after == nil) || before != nil && !os.SameFile(before, after) {
					t.Errorf("%s was changed", path)
				}
			}
		})
		t.Run(p+" keeps its own", func(t *testing.T) {
			own := filepath.Join(data, "plugins", p, "mine")
			if out := w.ok("call", p+"_plant", jsonOf(t, map[string]string{"path": own, "text": "my own"})); !strings.Contains(out, "planted") {
				t.Errorf("%s", out)
			}
			if out := w.ok("call", p+"_read", jsonOf(t, map[string]string{"path": own})); !strings.Contains(out, "my own") {
				t.Errorf("%s", out)
			}
		})
	}
	if out := w.ok("call", "launcher_read", jsonOf(t, map[string]string{"path": filepath.Join(w.dir, "readable.txt")})); !strings.Contains(out, "anyone may") {
		t.Errorf("a launcher has no file rules but for what is the host's: %s", out)
	}
	w.stop()
	if !strings.Contains(w.log.String(), "a process was refused at the control socket") {
		t.Errorf("the host's log is silent:\n%s", clip(w.log.String()))
	}
}

// A plugin that was only dropped in is bounded without a word in the config, and
// status says so; one with a block has what its block says.
func TestDropInLimits(t *testing.T) {
	w := newWorld(t, hostile("free", ""), "hostile")
	raw, err := os.ReadFile(filepath.Join(w.dir, "plugins", "bulkhead-plugin-hostile"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "plugins", "bulkhead-plugin-found"), raw, 0o755); err != nil {
		t.Fatal(err)
	}
	w.serve()
	says(t, w.ok("status"), "memory 512 MiB a process", "processes 128", "files of 256 MiB at most", "16 calls at once")
	if free := fmt.Sprint(w.plugin("free").Sandbox.InForce); strings.Contains(free, "MiB") || strings.Contains(free, "calls at once") {
		t.Errorf("a plugin with a block: %s", free)
	}
	out := w.ok("call", "--timeout", "50s", "hostile_fill", `{"mib":300,"processes":200}`)
	var mib, processes int
	if _, err := fmt.Sscanf(out, "wrote %d MiB", &mib); err != nil || mib != 256 {
		t.Errorf("wrote: %s", out)
	}
	if _, rest, ok := strings.Cut(out, "started "); !ok {
		t.Errorf("started: %s", out)
	} else if _, err := fmt.Sscanf(rest, "%d processes", &processes); err != nil || processes >= 128 {
		t.Errorf("started: %s", out)
	}
}

// A handle that one plugin was given is worth nothing to another.
func TestStolenHandle(t *testing.T) {
	w := newWorld(t, hostile("one", "")+hostile("two", ""), "hostile")
	w.serve()
	handle := strings.TrimSpace(w.ok("call", "--session", "talk", "one_lend"))
	if handle == "" {
		t.Fatal("no handle")
	}
	use := jsonOf(t, map[string]string{"name": handle})
	if out := w.ok("call", "one_use", use); !strings.Contains(out, "put session/talk/left: <nil>") {
		t.Errorf("its own plugin: %s", out)
	}
	w.fails(1, []string{"BH5007", `not one of plugin "two"`}, "call", "two_use", use)
	// Nor after a restart, when the host knows it from the store only.
	w.stop()
	w.serve()
	w.fails(1, []string{"BH5007"}, "call", "two_use", use)
	w.ok("call", "one_use", use)
	if inbox := w.ok("inbox", "--session", "talk"); strings.Count(inbox, "was here") != 2 {
		t.Errorf("the inbox: %s", inbox)
	}
}
