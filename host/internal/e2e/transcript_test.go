package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// transcript records commands with what they print and how they exit, by file, and
// compares the files with those in testdata.
type transcript struct {
	w      *world
	folder string
	files  map[string]*strings.Builder
}

func newTranscript(w *world, folder string) *transcript {
	return &transcript{w: w, folder: folder, files: map[string]*strings.Builder{}}
}

// run runs a command that must end with code and adds it to a file. It returns what
// the command printed, as printed.
func (tr *transcript) run(file string, code int, args ...string) string {
	tr.w.t.Helper()
	return tr.runIn(file, "", code, args...)
}

func (tr *transcript) runIn(file, stdin string, code int, args ...string) string {
	tr.w.t.Helper()
	out, errOut, got := tr.w.runIn(stdin, args...)
	tr.add(file, stdin, args, out, errOut, code, got)
	return out
}

func (tr *transcript) add(file, stdin string, args []string, out, errOut string, code, got int) {
	tr.w.t.Helper()
	if got != code {
		tr.w.t.Errorf("%q: exit %d, want %d\n%s%s", args, got, code, clip(out), clip(errOut))
	}
	if slices.Contains(args, "--json") {
		for part := range jsonParts(out) {
			if !json.Valid(part) {
				tr.w.t.Errorf("%q prints no JSON:\n%s", args, clip(out))
			}
		}
	}
	b := tr.files[file]
	if b == nil {
		b = &strings.Builder{}
		tr.files[file] = b
	} else {
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "$ bulkhead %s", tr.normal(shown(args)))
	if stdin != "" {
		fmt.Fprintf(b, " <<< %s", strings.TrimSpace(stdin))
	}
	b.WriteString("\n" + line(tr.normal(out)))
	for text := range strings.Lines(line(tr.normal(errOut))) {
		b.WriteString("2> " + text)
	}
	fmt.Fprintf(b, "[exit %d]\n", got)
}

// jsonParts is the whole text when it is one value, else its lines.
func jsonParts(out string) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		if out == "" || json.Valid([]byte(out)) {
			return
		}
		for line := range bytes.Lines([]byte(out)) {
			if !yield(line) {
				return
			}
		}
	}
}

// shown quotes arguments as one would type them.
func shown(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "" || strings.ContainsAny(a, " \"{}[]$*") {
			out[i] = "'" + a + "'"
		}
	}
	return strings.Join(out, " ")
}

// What differs from run to run and from machine to machine.
var volatile = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "HH:MM:SS"},
	{regexp.MustCompile(`q_[a-z0-9]{12}\b`), "q_000000000000"},
	{regexp.MustCompile(`\bt_[a-z0-9]{12}-(\d{8}T\d{6}Z|m?\d+)`), "t_ID-FIRE"},
	{regexp.MustCompile(`\bt_[a-z0-9]{12}\b`), "t_ID"},
	{regexp.MustCompile(`\d{8}T\d{6}Z`), "TIME"},
	{regexp.MustCompile(`"wakes": \d+`), `"wakes": "N"`},
	{regexp.MustCompile(`s_[A-Z0-9]{16}\b`), "s_ID"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "CALL"},
	{regexp.MustCompile(`\bf_[A-Z0-9]{26}\b`), "f_CALL"},
	{regexp.MustCompile(`tool-(\w+)-[0-9a-f]{8}-`), "tool-$1-CALL-"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`pid \d+, up \w+`), "pid PID, up TIME"},
	{regexp.MustCompile(`host \S+, pid`), "host VERSION, pid"},
	{regexp.MustCompile(`"pid": [1-9]\d*`), `"pid": "PID"`},
	{regexp.MustCompile(`"version": "[^"]*"`), `"version": "VERSION"`},
	{regexp.MustCompile(`built with sdk .*`), "built with sdk VERSION"},
	{regexp.MustCompile(`"sdk_version": "[^"]*"`), `"sdk_version": "VERSION"`},
	{regexp.MustCompile(`(?m)^(\w\S*  .*?  )[1-9]\d*( +\d+ +\d+ +\d+ +\d+  )`), "${1}PID$2"},
	{regexp.MustCompile(`(?m)^  sandbox: .*$`), "  sandbox: WHAT THIS MACHINE HAS"},
	{regexp.MustCompile(`(?m)^  sandbox can't have here: .*\n`), ""},
	{regexp.MustCompile(`(?s)"in_force": \[.*?\](,\s*"missing": \[.*?\])?`), `"in_force": ["WHAT THIS MACHINE HAS"]`},
	{regexp.MustCompile(`\bms=\d+`), "ms=N"},
	{regexp.MustCompile(`"connections":\d+,"open_files":\d+`), `"connections":"N","open_files":"N"`},
	{regexp.MustCompile(`"ms":\d+`), `"ms":"N"`},
	{regexp.MustCompile(`PLUGIN +STATE +PID +GEN`), "PLUGIN  STATE  PID  GEN"},
	{regexp.MustCompile(` ms=N session`), " session"}, // a call of 0 ms shows none
}

func (tr *transcript) normal(text string) string {
	text = strings.ReplaceAll(text, tr.w.dir, "DIR")
	for _, v := range volatile {
		text = v.what.ReplaceAllString(text, v.with)
	}
	return text
}

// line ends a text with a newline, unless it is empty.
func line(text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// compare checks every file, or rewrites it with -update.
func (tr *transcript) compare(t *testing.T) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(tr.files)) {
		path := filepath.Join("testdata", tr.folder, name+".txt")
		got := tr.files[name].String()
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v; run the test with -update", err)
			continue
		}
		if got != string(want) {
			t.Errorf("%s differs (-update rewrites it):\n%s", path, firstDifference(string(want), got))
		}
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := "(end)", "(end)"
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			from := max(0, i-5)
			return fmt.Sprintf("line %d\n  want: %s\n  got:  %s\nafter:\n%s", i+1, a, b, strings.Join(g[min(from, len(g)):min(i, len(g))], "\n"))
		}
	}
	return ""
}
