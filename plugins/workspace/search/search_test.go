package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func fill(t testing.TB, dir string, files map[string]string) *os.Root {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func find(t testing.TB, root *os.Root, under string, q Query) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Search(ctx, root, under, q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func places(r Result) (all []string) {
	for _, m := range r.Matches {
		all = append(all, fmt.Sprintf("%s:%d", m.Path, m.Line))
	}
	return all
}

func TestLinesAreFoundWithWhatStandsAround(t *testing.T) {
	root := fill(t, t.TempDir(), map[string]string{
		"a.txt": "one\ntwo\nthree\nfour\nfive\n", "sub/b.txt": "no\r\nthree\r\n", "c.md": "three", "empty": "",
	})
	r := find(t, root, ".", Query{Pattern: "th?ree$", Before: 1, After: 9})
	if got := places(r); !slices.Equal(got, []string{"a.txt:3", "c.md:1", "sub/b.txt:2"}) {
		t.Errorf("%v", got)
	}
	if m := r.Matches[0]; m.Text != "three" || !slices.Equal(m.Before, []string{"two"}) || !slices.Equal(m.After, []string{"four", "five"}) || m.Column != 1 {
		t.Errorf("%+v", m)
	}
	if m := r.Matches[2]; m.Text != "three" || !slices.Equal(m.Before, []string{"no"}) || m.After != nil {
		t.Errorf("%+v", m)
	}
	if r.Total != 3 || r.Files != 3 || r.Searched != 4 {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct {
		q     Query
		under string
		want  string
	}{
		{Query{Pattern: "THREE", IgnoreCase: true, Globs: []string{"*.txt"}}, ".", "a.txt:3 sub/b.txt:2"},
		{Query{Pattern: "t", Globs: []string{"!sub/**"}}, ".", "a.txt:2 a.txt:3 c.md:1"},
		{Query{Pattern: "three"}, "sub", "sub/b.txt:2"},
		{Query{Pattern: "three"}, "sub/b.txt", "sub/b.txt:2"},
		{Query{Pattern: "t[", Literal: true}, ".", ""},
		{Query{Pattern: `\bfo`}, ".", "a.txt:4"},
		{Query{Pattern: `^$`}, ".", ""},
		{Query{Pattern: `e\nt`}, ".", ""},
		{Query{Pattern: `[^t]wo`}, ".", ""},
	} {
		if got := strings.Join(places(find(t, root, c.under, c.q)), " "); got != c.want {
			t.Errorf("%+v in %s: %s, want %s", c.q, c.under, got, c.want)
		}
	}
	for _, q := range []Query{{Pattern: ""}, {Pattern: "("}, {Pattern: "x", Globs: []string{"[a"}}, {Pattern: strings.Repeat("x", 5000)}} {
		if _, err := Search(t.Context(), root, ".", q); err == nil {
			t.Errorf("%.40v was taken", q)
		}
	}
	if _, err := Search(t.Context(), root, "../x", Query{Pattern: "x"}); err == nil {
		t.Error("it looked outside")
	}
}

// What is left out by ignore files is what git leaves out.
func TestIgnoreFilesAreReadAsGitReadsThem(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("skipped: git is not installed, and it is what this is compared with")
	}
	dir := t.TempDir()
	files := map[string]string{
		".gitignore":     "*.log\n!keep.log\n/build\nnode_modules/\ndoc/*.txt\n# comment\n\\#odd\ntrail  \n**/deep/x\na/**/b\n[ab].c\n{x,y}\nfoo/\n!bar/\nspa\\ ce\n*.tmp.*\n",
		"sub/.gitignore": "*.md\n!*.log\n/only\n", "sub/deeper/.gitignore": "!README.md\n",
	}
	for _, p := range []string{"a.log", "keep.log", "build/x", "sub/build/x", "node_modules/m/i.js", "sub/node_modules/i.js", "node_modules2/x", "doc/a.txt", "doc/sub/a.txt",
		"#odd", "trail", "q/deep/x", "deep/x", "deep/y", "a/b", "a/c/b", "a/c/d/b/e", "b.c", "c.c", "{x,y}", "x", "foo/x", "sub/foo", "bar/x", "spa ce", "t.tmp.go",
		"sub/a.log", "sub/a.md", "sub/only", "sub/deeper/only", "sub/deeper/README.md", "sub/deeper/OTHER.md", "sub/deeper/b.log", "grün.log", "grün"} {
		files[p] = "needle\n"
	}
	root := fill(t, dir, files)
	if out, err := exec.Command(git, "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var want []string
	for p := range files {
		if strings.Contains(p, ".gitignore") {
			continue
		}
		err := exec.Command(git, "-C", dir, "check-ignore", "-q", "--no-index", p).Run()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.ExitCode() == 1:
			want = append(want, p+":1")
		case err != nil:
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	got := places(find(t, root, ".", Query{Pattern: "needle"}))
	if !slices.Equal(got, want) {
		t.Errorf("found %q\ngit   %q", got, want)
	}
	if all := places(find(t, root, ".", Query{Pattern: "needle", All: true})); len(all) != len(files)-3 {
		t.Errorf("%d of %d with all", len(all), len(files)-3)
	}
	if in := places(find(t, root, "sub", Query{Pattern: "needle"})); !slices.Equal(in, slices.DeleteFunc(slices.Clone(want), func(p string) bool { return !strings.HasPrefix(p, "sub/") })) {
		t.Errorf("below a folder: %q", in)
	}
}

func TestHiddenAndBinaryFilesAndLinksAreLeftOut(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "work")
	root := fill(t, dir, map[string]string{".env": "needle", ".cfg/x": "needle", "bin": "needle\n\x00", "ok": "needle", ".git/config": "needle"})
	if err := os.WriteFile(filepath.Join(base, "secret"), []byte("needle"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"out": "../secret", "up": "..", "self": ".", "zero": "/dev/zero"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip("skipped: no links here: ", err)
		}
	}
	r := find(t, root, ".", Query{Pattern: "needle"})
	if got := places(r); !slices.Equal(got, []string{"ok:1"}) || r.Binary != 1 {
		t.Errorf("%v, %+v", got, r)
	}
	if got := places(find(t, root, ".", Query{Pattern: "needle", Hidden: true})); !slices.Equal(got, []string{".cfg/x:1", ".env:1", "ok:1"}) {
		t.Errorf("%v", got)
	}
}

// Searching gives the lines that the regular expression matches, whatever the file
// looks like and wherever windows end.
func TestRandomFilesAgainstLineByLine(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := []string{"foo", "bar", "fo", "o", " ", "", "\t", "ü", "x1", "FOO", "foobar", "\r"}
	patterns := []string{"foo", "fo+", "^foo", "bar$", "o.*r", "(?:foo|bar)x", "[a-f]o", `\bfo\b`, "ü", `x\d`, "^$", "foo|", `\s+x`, "o{2}b"}
	for round := range 60 {
		var b strings.Builder
		for range rnd.IntN(400) {
			for range rnd.IntN(6) {
				b.WriteString(words[rnd.IntN(len(words))])
			}
			b.WriteByte('\n')
		}
		text := b.String()
		if round%3 == 0 {
			text = strings.TrimSuffix(text, "\n")
		}
		root := fill(t, t.TempDir(), map[string]string{"f": text})
		for _, p := range patterns {
			for _, fold := range []bool{false, true} {
				flag := ""
				if fold {
					flag = "(?i)"
				}
				re := regexp.MustCompile(flag + p)
				var want []string
				n := 0
				for line := range strings.Lines(text) {
					n++
					if re.MatchString(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")) {
						want = append(want, fmt.Sprintf("f:%d", n))
					}
				}
				if got := places(find(t, root, ".", Query{Pattern: p, IgnoreCase: fold, Before: 2, After: 2})); !slices.Equal(got, want) {
					t.Fatalf("%q (fold %v) in %q:\n got %v\nwant %v", p, fold, text, got, want)
				}
			}
		}
	}
}

func TestFilesLargerThanAWindow(t *testing.T) {
	var b bytes.Buffer
	want := []string{}
	for line := 1; b.Len() < 3*window; line++ {
		if line%100_003 == 0 {
			b.WriteString("needle\n")
			want = append(want, fmt.Sprintf("big:%d", line))
		} else {
			fmt.Fprintf(&b, "line %d\n", line)
		}
	}
	root := fill(t, t.TempDir(), map[string]string{"big": b.String(), "one": strings.Repeat("x", 3*window) + "\nneedle\n"})
	r := find(t, root, ".", Query{Pattern: "needle", Before: 1})
	if got := places(r); !slices.Equal(got, append(want, "one:2")) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, m := range r.Matches {
		if m.Path == "big" && (len(m.Before) != 1 || m.Before[0] != fmt.Sprintf("line %d", m.Line-1)) {
			t.Errorf("%+v", m)
		}
	}
}

func TestLongLinesAreShownInPart(t *testing.T) {
	root := fill(t, t.TempDir(), map[string]string{"f": strings.Repeat("ü", 5000) + "needle" + strings.Repeat("ü", 5000)})
	m := find(t, root, ".", Query{Pattern: "needle"}).Matches[0]
	if len(m.Text) > maxText+10 || !strings.Contains(m.Text, "needle") || !strings.HasPrefix(m.Text, "…ü") || m.Column != 10001 {
		t.Errorf("%+v", m)
	}
}

func TestASearchEndsWithItsContext(t *testing.T) {
	files := map[string]string{}
	for i := range 2000 {
		files[fmt.Sprintf("d%d/f%d", i%50, i)] = "x\n"
	}
	root := fill(t, t.TempDir(), files)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Search(ctx, root, ".", Query{Pattern: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	before := openFiles(t)
	for range 5 {
		find(t, root, ".", Query{Pattern: "x"})
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

func openFiles(t *testing.T) int {
	if runtime.GOOS != "linux" {
		return 0
	}
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// BenchmarkSearch searches 100,000 files beside ripgrep, in turns, and tells the median
// of the ratios.
func BenchmarkSearch(b *testing.B) {
	dir := b.TempDir()
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range 100_000 {
		d := filepath.Join(dir, fmt.Sprintf("p%d/q%d", i%100, i/100%20))
		if i < 2000 {
			if err := os.MkdirAll(d, 0o755); err != nil {
				b.Fatal(err)
			}
		}
		text := strings.Repeat(fmt.Sprintf("func name%d(a int) error { return nil }\n", rnd.IntN(1000)), 10+rnd.IntN(60))
		if err := os.WriteFile(filepath.Join(d, fmt.Sprintf("f%d.go", i)), []byte(text), fs.FileMode(0o644)); err != nil {
			b.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	rg, err := exec.LookPath("rg")
	if err != nil {
		b.Skip("skipped: ripgrep is not installed, and it is what this is compared with")
	}
	for _, c := range []struct {
		name string
		q    Query
		args []string
	}{
		{"literal", Query{Pattern: "name777(", Literal: true}, []string{"-F", "-e", "name777("}},
		{"regexp", Query{Pattern: `name7\d7\(a`}, []string{"-e", `name7\d7\(a`}},
		{"any-case", Query{Pattern: `NAME777\(`, IgnoreCase: true}, []string{"-i", "-e", `NAME777\(`}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var ratios, ours []float64
			for b.Loop() {
				begin := time.Now()
				if out, err := exec.Command(rg, append([]string{"-c"}, append(c.args, dir)...)...).Output(); err != nil || len(out) == 0 {
					b.Fatal(err)
				}
				theirs := time.Since(begin)
				begin = time.Now()
				if r, err := Search(b.Context(), root, ".", c.q); err != nil || r.Total == 0 {
					b.Fatal(err)
				}
				took := time.Since(begin)
				ratios, ours = append(ratios, took.Seconds()/theirs.Seconds()), append(ours, took.Seconds()*1000)
			}
			slices.Sort(ratios)
			slices.Sort(ours)
			b.ReportMetric(ratios[len(ratios)/2], "x-ripgrep-p50")
			b.ReportMetric(ours[len(ours)/2], "ms-p50")
		})
	}
}

// A file that has a name elsewhere may be somebody else's.
func TestFilesOfSeveralNamesAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	root := fill(t, dir, map[string]string{"in/a": "needle", "out": "needle"})
	if err := os.Link(filepath.Join(dir, "out"), filepath.Join(dir, "in/hard")); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("skipped: names are not counted here")
	}
	if r := find(t, root, "in", Query{Pattern: "needle"}); !slices.Equal(places(r), []string{"in/a:1"}) || r.Linked != 1 || r.Failed != 0 {
		t.Errorf("%v %+v", places(r), r)
	}
	if r := find(t, root, "in/hard", Query{Pattern: "needle"}); r.Total != 0 || r.Linked != 1 {
		t.Errorf("%+v", r)
	}
	if r := find(t, root, "in", Query{Pattern: "needle", Linked: true}); r.Total != 2 || r.Linked != 0 {
		t.Errorf("%+v", r)
	}
}
