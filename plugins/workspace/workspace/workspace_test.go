package workspace

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

type work struct {
	*sdktest.Session
	t   *testing.T
	dir string
}

func start(t *testing.T, more string) *work {
	dir := t.TempDir()
	if more != "" {
		more = "," + more
	}
	s := sdktest.Start(t, Plugin(), sdktest.Config(fmt.Sprintf(`{"workspace":[{"name":"main","path":%q}%s]}`, dir, more)), sdktest.Granted("shared"))
	return &work{s, t, dir}
}

func args(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func (w *work) put(name, text string) {
	w.t.Helper()
	full := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *work) have(name, want string) {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil || string(raw) != want {
		w.t.Errorf("%s holds %q, want %q; %v", name, raw, want, err)
	}
}

func TestReadingInPages(t *testing.T) {
	w := start(t, "")
	w.put("short", "one\ntwo")
	w.put("empty", "")
	w.put("long", strings.Repeat("0123456789\n", 20_000))
	w.put("wide", strings.Repeat("x", 70_000)+"\nend\n")
	w.put("data.bin", "a\x00b")
	w.put("photo.png", "\x89PNG\x00")
	if r := w.Call("read_file", args("path", "short")); r.Text != "one\ntwo" {
		t.Errorf("%q", r.Text)
	}
	w.Call("read_file", args("path", "empty")).WantText("is empty")
	r := w.Call("read_file", args("path", "long"))
	r.WantText("[read_file long: lines 1–5818 of 20000]")
	r.WantText("[the page is full; call read_file with offset=5819 to go on]")
	w.Call("read_file", args("path", "long", "offset", 20_000)).WantText("[end of file]")
	w.Call("read_file", args("path", "long", "offset", 5, "limit", 2)).WantText("[the limit is reached; call read_file with offset=7 to go on]")
	w.Call("read_file", args("path", "long", "offset", 20_001)).WantError("invalid_arguments", "past its end")
	w.Call("read_file", args("path", "wide")).WantText("does not count as read")
	w.Call("read_file", args("path", "data.bin")).WantError("invalid_arguments", "not text")
	w.Call("read_file", args("path", "photo.png")).WantError("invalid_arguments", "analyze_file")
	w.put("deep/er/notes.md", "x")
	w.Call("read_file", args("path", "notes.md")).WantError("not_found", "deep/er/notes.md")
	w.Call("read_file", args("path", "deep")).WantError("invalid_arguments", "folder")
}

func TestNothingIsOverwrittenUnread(t *testing.T) {
	w := start(t, "")
	w.put("a", "one\ntwo\nthree\n")
	w.Call("write_file", args("path", "a", "content", "x")).WantError("conflict", "not read here")
	w.Call("read_file", args("path", "a", "limit", 2))
	w.Call("write_file", args("path", "a", "content", "x")).WantError("conflict", "from line 3")
	w.Call("read_file", args("path", "a", "offset", 3))
	w.put("a", "changed\n")
	w.Call("write_file", args("path", "a", "content", "x")).WantError("conflict", "changed since")
	w.have("a", "changed\n")
	w.Call("read_file", args("path", "a"))
	r := w.Call("write_file", args("path", "a", "content", "mine\n"))
	r.WantText("-changed\n+mine")
	w.Call("write_file", args("path", "a", "content", "again\n")).WantText("wrote a")
	w.Call("write_file", args("path", "new/b", "content", "again\n")).WantText("a new file of 6 bytes, 1 line")
	w.put("empty", "")
	w.Call("write_file", args("path", "empty", "content", "x")).WantText("wrote empty")
	w.Call("write_file", `{"path":"c","content":null}`).WantError("invalid_arguments", "null")
	w.Call("write_file", args("path", "wide")).WantError("invalid_arguments", "content")
}

func TestEditing(t *testing.T) {
	w := start(t, "")
	w.put("crlf", "\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
	r := w.Call("edit_file", args("path", "crlf", "old_string", "two\nthree", "new_string", "2\n3\n4"))
	r.WantText("edited crlf: 1 place")
	r.WantText("-two\n-three\n+2\n+3\n+4")
	w.have("crlf", "\xef\xbb\xbfone\r\n2\r\n3\r\n4\r\n")
	w.put("a", "x y x\n")
	w.Call("edit_file", args("path", "a", "old_string", "x", "new_string", "z")).WantError("invalid_arguments", "2 times (lines 1, 1)")
	w.Call("edit_file", args("path", "a", "old_string", "x", "new_string", "z", "replace_all", true)).WantText("2 places")
	w.have("a", "z y z\n")
	w.Call("edit_file", args("path", "a", "old_string", "z y Z", "new_string", "")).WantError("invalid_arguments", "most similar lines, from line 1 on:\nz y z")
	w.Call("edit_file", args("path", "a", "old_string", "y", "new_string", "y")).WantText("as it was")
	w.Call("edit_file", args("path", "no", "old_string", "y", "new_string", "x")).WantError("not_found", "no")
	w.Call("edit_file", `{"path":"a","old_string":"y","new_string":null}`).WantError("invalid_arguments", "null")
	w.put("latin", "gr\xfcn")
	w.Call("edit_file", args("path", "latin", "old_string", "gr", "new_string", "x")).WantError("invalid_arguments", "not text")
	w.have("latin", "gr\xfcn")
	// An edit after reading a part does not let the rest be overwritten.
	w.put("b", "1\n2\n3\n")
	w.Call("edit_file", args("path", "b", "old_string", "2", "new_string", "two"))
	w.Call("write_file", args("path", "b", "content", "x")).WantError("conflict", "read it first")
}

func TestHistoryBringsBack(t *testing.T) {
	w := start(t, "")
	w.Call("write_file", args("path", "a", "content", "1\n"))
	w.Call("edit_file", args("path", "a", "old_string", "1", "new_string", "2"))
	w.Call("edit_file", args("path", "a", "old_string", "2", "new_string", "3"))
	w.Call("revert_file", args("path", "a", "list", true)).WantText("version 2: 2 bytes, before the edit")
	w.Call("revert_file", args("path", "a")).WantText("holds what it did before")
	w.have("a", "2\n")
	w.Call("revert_file", args("path", "a", "version", 2)).WantText("+1")
	w.have("a", "1\n")
	w.Call("delete_file", args("path", "a")).WantText("revert_file brings it back")
	w.Call("read_file", args("path", "a")).WantError("not_found", "a")
	w.Call("revert_file", args("path", "a"))
	w.have("a", "1\n")
	w.Call("revert_file", args("path", "a", "version", 1)).WantText("is gone")
	w.Call("read_file", args("path", "a")).WantError("not_found", "a")
	w.Call("revert_file", args("path", "a", "version", 99)).WantError("not_found", "kept of a")
	w.Call("revert_file", args("path", "other")).WantError("not_found", "not changed here")
}

func TestListingAndSearching(t *testing.T) {
	w := start(t, "")
	for name, text := range map[string]string{"b/x.go": "needle here\nand\nmore\nneedle\n", "a.md": "a Needle", ".hidden": "needle", "b/c/y.md": "none", ".git/config": "needle", "out.log": "needle", ".gitignore": "*.log\n"} {
		w.put(name, text)
	}
	list := func(want []string, pairs ...any) {
		t.Helper()
		var got []string
		if err := json.Unmarshal([]byte(w.Call("list_files", args(pairs...)).Text), &got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v; %v", pairs, got, want, err)
		}
	}
	list([]string{"a.md", "b/c/y.md", "b/x.go", "out.log"})
	list([]string{"b/c/y.md", "b/x.go"}, "path", "b")
	list([]string{"b/x.go"}, "path", "b/x")
	list([]string{"a.md", "b/c/y.md"}, "glob", "*.md")
	list([]string{"b/c/y.md"}, "glob", "c/*.md", "path", "b")
	list([]string{".gitignore", ".hidden", "a.md", "b/c/y.md", "b/x.go", "out.log"}, "hidden", true)
	list([]string{}, "path", "no/such")
	r := w.Call("search_files", args("pattern", "needle", "context", 1))
	if want := "2 matching lines in 1 file (3 searched)\n\nb/x.go\n1: needle here\n2- and\n3- more\n4: needle"; r.Text != want {
		t.Errorf("%q\nwant %q", r.Text, want)
	}
	w.Call("search_files", args("pattern", "needle", "ignore_case", true, "files_only", true)).WantText("\na.md\nb/x.go")
	w.Call("search_files", args("pattern", "needle", "no_ignore", true, "hidden", true, "max_matches", 2)).WantText("[2 of 4 are shown")
	w.Call("search_files", args("pattern", "(")).WantError("invalid_arguments", "regular expression")
	w.Call("search_files", args("pattern", "x", "path", "no/such")).WantError("not_found", "no/such")
}

func TestSeveralWorkspacesAndTheSharedFolder(t *testing.T) {
	docs := t.TempDir()
	w := start(t, fmt.Sprintf(`{"name":"docs","path":%q,"read_only":true},{"name":"small","path":%q,"quota":"10B"}`, docs, t.TempDir()))
	if err := os.WriteFile(filepath.Join(docs, "d.md"), []byte("doc"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.Call("read_file", args("path", "docs:d.md")).WantText("doc")
	w.Call("read_file", args("path", filepath.Join(docs, "d.md"))).WantText("doc")
	w.Call("edit_file", args("path", "docs:d.md", "old_string", "d", "new_string", "x")).WantError("denied", "read-only")
	w.Call("delete_file", args("path", "docs:d.md")).WantError("denied", "read-only")
	w.Call("write_file", args("path", "small:a", "content", "ten bytes!")).WantText("wrote small:a")
	w.Call("write_file", args("path", "small:b", "content", "x")).WantError("too_large", "10 of 10 bytes")
	w.Call("write_file", args("path", "/shared/results/r.txt", "content", "shared")).WantText("/shared/results/r.txt")
	w.Call("read_file", args("path", "results/r.txt")).WantText("shared")
	w.Call("read_file", args("path", filepath.Join(w.SharedDir, "results/r.txt"))).WantText("shared")
	w.Call("list_files", args("path", "/shared")).WantText(`"/shared/results/r.txt"`)
	w.Call("search_files", args("pattern", "doc", "path", "docs:")).WantText("docs:d.md")
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(outside, filepath.Join(docs, "hard.md")); err != nil {
		t.Fatal(err)
	}
	w.Call("file_get_path", args("path", "docs:hard.md")).WantError("invalid_arguments", "hard links")
	if r := w.Call("file_get_path", args("path", "docs:d.md")); r.Text != filepath.Join(docs, "d.md") {
		t.Errorf("%q", r.Text)
	}
	for _, path := range []string{"/etc/passwd", "../x", "docs:../x", "a\x00b", "/shared/../etc/passwd", docs + "-x/y", "/proc/self/environ"} {
		w.Call("read_file", args("path", path)).WantError("invalid_arguments", "name it as a path relative to workspace \"main\", or docs:…, or small:…, or /shared/…")
	}
}

// Whatever is edited and brought back, files hold what a model of them does.
func TestRandomChangesAgainstAModel(t *testing.T) {
	w := start(t, "")
	rnd := rand.New(rand.NewPCG(5, 6))
	type kept struct {
		text string
		gone bool
	}
	now := map[string]kept{}
	past := map[string][]kept{} // before each change
	names := []string{"a", "b/c", "d.txt"}
	for _, n := range names {
		now[n] = kept{gone: true}
	}
	for range 600 {
		n := names[rnd.IntN(len(names))]
		was := now[n]
		fresh := was
		var r *sdktest.Reply
		switch rnd.IntN(4) {
		case 0: // write all
			if !was.gone {
				w.Call("read_file", args("path", n))
			}
			fresh = kept{text: fmt.Sprintf("%d\r\nzwei %d\n", rnd.IntN(1e6), rnd.IntN(1e6))}
			r = w.Call("write_file", args("path", n, "content", fresh.text))
		case 1: // edit
			if was.gone {
				continue
			}
			fresh.text = strings.Replace(was.text, "zwei", "zwei drei", 1)
			r = w.Call("edit_file", args("path", n, "old_string", "zwei", "new_string", "zwei drei"))
		case 2: // delete
			if was.gone {
				continue
			}
			fresh = kept{gone: true}
			r = w.Call("delete_file", args("path", n))
		default: // bring back
			if len(past[n]) == 0 {
				continue
			}
			back := rnd.IntN(min(len(past[n]), 19))
			version := len(past[n]) - back
			fresh = past[n][version-1]
			if fresh.gone && was.gone {
				continue
			}
			r = w.Call("revert_file", args("path", n, "version", version))
		}
		if r.IsError {
			t.Fatalf("%s: %s", n, r.Message+r.Text)
		}
		past[n], now[n] = append(past[n], was), fresh
		raw, err := os.ReadFile(filepath.Join(w.dir, n))
		if os.IsNotExist(err) != fresh.gone || string(raw) != fresh.text {
			t.Fatalf("%s holds %q (%v), want %+v", n, raw, err, fresh)
		}
	}
}

func TestConcurrentEditsLoseNone(t *testing.T) {
	w := start(t, "")
	w.put("log", "begin\nend\n")
	const edits, at = 1000, 50
	var all sync.WaitGroup
	turns := make(chan int)
	for range at {
		all.Go(func() {
			for i := range turns {
				if r := w.Call("edit_file", args("path", "log", "old_string", "end\n", "new_string", fmt.Sprintf("edit %d\nend\n", i))); r.IsError {
					t.Errorf("%d: %s", i, r.Message)
				}
			}
		})
	}
	for i := range edits {
		turns <- i
	}
	close(turns)
	all.Wait()
	raw, err := os.ReadFile(filepath.Join(w.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		seen[line] = true
	}
	if len(seen) != edits+2 {
		t.Errorf("%d of %d edits are there", len(seen)-2, edits)
	}
}

func TestNewSettingsAreTakenWithoutANewProcess(t *testing.T) {
	w := start(t, "")
	w.put("a", "one")
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "a"), []byte("two"), 0o644); err != nil {
		t.Fatal(err)
	}
	if d := w.Configure(fmt.Sprintf(`{"workspace":[{"name":"main","path":%q}]}`, other)); strings.Contains(d, "error") {
		t.Fatal(d)
	}
	w.Call("read_file", args("path", "a")).WantText("two")
	for want, conf := range map[string]string{
		"two workspaces":     `{"workspace":[{"name":"m","path":"/tmp/x"},{"name":"m","path":"/tmp/y"}]}`,
		"root of the":        `{"workspace":[{"name":"m","path":"/"}]}`,
		"named by lower":     `{"workspace":[{"name":"A b","path":"/tmp/x"}]}`,
		"at least max_file":  `{"history_size":"1MiB"}`,
		"1,000 to 1,000,000": `{"read_max_chars":5}`,
	} {
		if got := strings.Join(w.Validate(conf), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: %q", want, got)
		}
	}
}

// A host may let calls in before it says that this is the serving process.
func TestACallBeforeActivate(t *testing.T) {
	dir := t.TempDir()
	conf := fmt.Sprintf(`{"workspace":[{"name":"main","path":%q}]}`, dir)
	s := sdktest.Start(t, Plugin(), sdktest.Unconfigured())
	s.Configure(conf)
	s.Call("write_file", args("path", "a", "content", "early")).WantText("wrote a")
	s.Activate()
	s.Call("read_file", args("path", "a")).WantText("early")
}
