package memory

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func newMemory(t *testing.T, o Options) *Memory {
	t.Helper()
	m, err := New(o)
	must(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantRef(t *testing.T, err error, ref fault.Ref) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Ref != ref {
		t.Fatalf("error = %v, want %s", err, ref)
	}
}

func files(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	return len(list)
}

const ns = "session/s1"

func put(t *testing.T, m *Memory, key, value string) string {
	t.Helper()
	abs, err := m.Put(ns, key, []byte(value), 0, "", nil)
	must(t, err)
	return abs
}

func get(t *testing.T, m *Memory, key string) (string, bool) {
	t.Helper()
	v, _, found, err := m.Get(ns, key, 0, 0, nil)
	must(t, err)
	return string(v), found
}

func TestPutGetDeleteInRAMAndFiles(t *testing.T) {
	for _, over := range []int{1 << 20, 4} {
		t.Run(fmt.Sprint("spill over ", over), func(t *testing.T) {
			dir := t.TempDir()
			m := newMemory(t, Options{SpillDir: dir, SpillOver: over})
			abs := put(t, m, "notes/today", "a value")
			if abs != "session/s1/notes/today" {
				t.Errorf("key %q", abs)
			}
			for _, key := range []string{"notes/today", abs} {
				if v, found := get(t, m, key); !found || v != "a value" {
					t.Errorf("get %q: %q %v", key, v, found)
				}
			}
			if want := over == 4; (files(t, dir) == 1) != want {
				t.Errorf("%d files", files(t, dir))
			}
			put(t, m, abs, "another")
			if v, _ := get(t, m, "notes/today"); v != "another" {
				t.Errorf("not overwritten: %q", v)
			}
			found, err := m.Delete(ns, "notes/today", nil)
			must(t, err)
			again, err := m.Delete(ns, "notes/today", nil)
			must(t, err)
			if !found || again || m.Used() != 0 || files(t, dir) != 0 {
				t.Errorf("after delete: %v %v, %d bytes, %d files", found, again, m.Used(), files(t, dir))
			}
		})
	}
}

func TestForeignNamespacesAreClosed(t *testing.T) {
	m := newMemory(t, Options{})
	_, err := m.Put("session/other", "k", []byte("theirs"), 0, "", nil)
	must(t, err)
	_, _, _, err = m.Get(ns, "session/other/k", 0, 0, nil)
	wantRef(t, err, fault.KeyNotFound)
	_, err = m.Delete(ns, "session/other/k", nil)
	wantRef(t, err, fault.KeyNotFound)
	_, err = m.Put(ns, "session/other/k", []byte("mine"), 0, "", nil)
	wantRef(t, err, fault.KeyNotFound)
	if hits := m.Search(ns, "", "", nil, 0); len(hits) != 0 {
		t.Errorf("found %v", hits)
	}
	allow := func(n string) bool { return n == "session/other" }
	v, _, found, err := m.Get(ns, "session/other/k", 0, 0, allow)
	must(t, err)
	if !found || string(v) != "theirs" {
		t.Errorf("allowed get: %q %v", v, found)
	}
	_, _, _, err = m.Get(ns, "wisp/w/k", 0, 0, allow)
	wantRef(t, err, fault.KeyNotFound)
	for _, bad := range []string{"", "session", "session/", "a/b/c", "/x"} {
		_, err := m.Put(bad, "k", nil, 0, "", nil)
		wantRef(t, err, fault.UnknownSession)
	}
	for _, bad := range []string{"", "a\nb", "\x00", "\xff", strings.Repeat("k", 600)} {
		_, err := m.Put(ns, bad, nil, 0, "", nil)
		wantRef(t, err, fault.BadArguments)
	}
}

func TestExpiry(t *testing.T) {
	c := &clock{t: time.Unix(1000, 0)}
	dir := t.TempDir()
	m := newMemory(t, Options{Now: c.now, SpillDir: dir, SpillOver: 1})
	put(t, m, "short", "value")
	_, err := m.Put(ns, "long", []byte("value"), time.Hour, "", nil)
	must(t, err)
	c.forward(DefaultTTL - time.Second)
	if _, found := get(t, m, "short"); !found {
		t.Error("gone before its time")
	}
	if hits := m.Search(ns, "short", "", nil, 0); len(hits) != 1 || hits[0].ExpiresIn != time.Second {
		t.Errorf("hits %+v", hits)
	}
	c.forward(time.Second)
	if hits := m.Search(ns, "short", "", nil, 0); len(hits) != 0 {
		t.Error("an expired value was found")
	}
	if _, found := get(t, m, "short"); found {
		t.Error("an expired value was read")
	}
	if _, found := get(t, m, "long"); !found || files(t, dir) != 1 {
		t.Error("the other value went too, or the file stayed")
	}
}

func TestFullMemorySaysSo(t *testing.T) {
	c := &clock{t: time.Unix(1000, 0)}
	dir := t.TempDir()
	m := newMemory(t, Options{Budget: 20000, MaxEntries: 3, Now: c.now, SpillDir: dir, SpillOver: 1000})
	for i := range 3 {
		put(t, m, fmt.Sprint(i), "x")
	}
	_, err := m.Put(ns, "3", []byte("x"), 0, "", nil)
	wantRef(t, err, fault.MemoryFull)
	put(t, m, "2", "overwriting is allowed")
	_, err = m.Put("session/s2", "big", make([]byte, 30000), 0, "", nil)
	wantRef(t, err, fault.MemoryFull)
	_, err = m.Put(ns, "2", make([]byte, 30000), 0, "", nil)
	wantRef(t, err, fault.MemoryFull)
	if v, found := get(t, m, "2"); !found || v != "overwriting is allowed" {
		t.Errorf("a refused save took the old value with it: %q %v", v, found)
	}
	if n := files(t, dir); n != 0 {
		t.Errorf("%d files of refused values", n)
	}
	// What has expired makes room.
	c.forward(DefaultTTL)
	put(t, m, "3", "x")
	_, err = m.Put(ns, "4", make([]byte, 15000), 0, "", nil)
	must(t, err)
	m.DropNamespace(ns)
	if m.Used() != 0 || files(t, dir) != 0 {
		t.Errorf("after drop: %d bytes, %d files", m.Used(), files(t, dir))
	}
}

func TestSpillFolderThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spill")
	m := newMemory(t, Options{SpillDir: dir, SpillOver: 1})
	must(t, os.RemoveAll(dir))
	_, err := m.Put(ns, "k", []byte("value"), 0, "", nil)
	wantRef(t, err, fault.MemoryFull)
	if m.Used() != 0 {
		t.Errorf("%d bytes are counted for nothing", m.Used())
	}
}

func TestStartRemovesOldFilesAndCloseItsOwn(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "value-0000000000000001"), []byte("old"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "other"), []byte("not ours"), 0o600))
	m := newMemory(t, Options{SpillDir: dir, SpillOver: 1})
	put(t, m, "k", "value")
	if files(t, dir) != 2 {
		t.Errorf("%d files", files(t, dir))
	}
	must(t, m.Close())
	must(t, m.Close())
	if files(t, dir) != 1 {
		t.Errorf("%d files after Close", files(t, dir))
	}
	_, err := m.Put(ns, "k", nil, 0, "", nil)
	wantRef(t, err, fault.HostStopping)
}

func TestRangesAreCutAtRunes(t *testing.T) {
	text := "aä€😀z" + strings.Repeat("日本語", 50)
	for _, over := range []int{1 << 20, 1} {
		m := newMemory(t, Options{SpillDir: t.TempDir(), SpillOver: over})
		put(t, m, "k", text)
		for length := int64(1); length < 12; length++ {
			var back []byte
			for offset := int64(0); offset < int64(len(text)); {
				part, total, found, err := m.Get(ns, "k", offset, length, nil)
				must(t, err)
				if !found || total != int64(len(text)) || len(part) == 0 {
					t.Fatalf("offset %d length %d: %q %d %v", offset, length, part, total, found)
				}
				if !utf8.Valid(part) {
					t.Fatalf("offset %d length %d cut inside a character: %q", offset, length, part)
				}
				back = append(back, part...)
				offset += int64(len(part))
			}
			if string(back) != text {
				t.Fatalf("length %d: read back %q", length, back)
			}
		}
		for _, r := range [][2]int64{{-5, 3}, {1 << 40, 3}, {0, 1 << 62}, {3, -1}} {
			if _, _, found, err := m.Get(ns, "k", r[0], r[1], nil); err != nil || !found {
				t.Errorf("range %v: %v %v", r, found, err)
			}
		}
	}
}

func FuzzCutRange(f *testing.F) {
	f.Add([]byte("aä€😀z"), int64(2), int64(3))
	f.Add([]byte{0xff, 0x80, 0x80, 0x80, 0x80, 0xe2}, int64(1), int64(2))
	f.Fuzz(func(t *testing.T, value []byte, offset, length int64) {
		part := cutRange(value, offset, length)
		if len(part) > 0 && !bytes.Contains(value, part) {
			t.Fatal("not a part of the value")
		}
		if utf8.Valid(value) && !utf8.Valid(part) {
			t.Fatalf("%q was cut inside a character", part)
		}
		from, _ := limits(int64(len(value)), offset, length)
		if length > 0 && from < int64(len(value)) && len(part) == 0 {
			t.Fatal("no progress")
		}
	})
}

func TestSearch(t *testing.T) {
	m := newMemory(t, Options{})
	save := func(key, value, category string, tags ...string) {
		t.Helper()
		_, err := m.Put(ns, key, []byte(value), 0, category, tags)
		must(t, err)
	}
	save("trip", "Flights to Lisbon and a hotel near the river", "plan/travel", "trip", "2026")
	save("food", "Lisbon has good fish", "notes", "trip")
	save("code", "a function that sorts flights", "plan/work", "go")
	keys := func(hits []Hit) []string {
		var out []string
		for _, h := range hits {
			out = append(out, strings.TrimPrefix(h.Key, ns+"/"))
		}
		return out
	}
	for _, c := range []struct {
		query, category string
		tags            []string
		want            string
		first           bool // only the first hit is sure
	}{
		{"", "", nil, "code food trip", false},
		{"lisbon", "", nil, "food trip", false},
		{"flights lisbon", "", nil, "trip", true},
		{"trip", "", nil, "trip food", false},
		{"", "plan/", nil, "code trip", false},
		{"", "", []string{"trip", "2026"}, "trip", false},
		{"", "", []string{"TRIP", "go"}, "", false},
		{"zebra", "", nil, "", false},
		{"isbo", "", nil, "food trip", false}, // part of a word
		{"?!", "", nil, "", false},
	} {
		got := keys(m.Search(ns, c.query, c.category, c.tags, 10))
		if c.first && len(got) > 1 {
			got = got[:1]
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v found %q", c, got)
		}
	}
	save("long", strings.Repeat("wörter ", 100), "", "x")
	hit := m.Search(ns, "wörter", "", nil, 1)[0]
	if n := utf8.RuneCountInString(hit.Preview); n != previewRunes+1 {
		t.Errorf("preview of %d characters", n)
	}
	if got := len(m.Search(ns, "", "", nil, 2)); got != 2 {
		t.Errorf("limit 2 gave %d", got)
	}
}

func TestManyWritersKeepTheBudget(t *testing.T) {
	dir := t.TempDir()
	m := newMemory(t, Options{Budget: 100000, SpillDir: dir, SpillOver: 2000})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			space := fmt.Sprintf("session/w%d", w)
			for i := range 200 {
				_, err := m.Put(space, fmt.Sprint(i%10), make([]byte, 100+i*20), 0, "", nil)
				var f *fault.Error
				if err != nil && (!errors.As(err, &f) || f.Ref != fault.MemoryFull) {
					t.Error(err)
				}
				if used := m.Used(); used > 100000 {
					t.Errorf("%d bytes used", used)
				}
				m.Search(space, "x", "", nil, 5)
				_, _ = m.Delete(space, fmt.Sprint(i%7), nil)
			}
			m.DropNamespace(space)
		})
	}
	wg.Wait()
	if m.Used() != 0 || files(t, dir) != 0 {
		t.Errorf("in the end %d bytes, %d files", m.Used(), files(t, dir))
	}
}

func TestStoreChunks(t *testing.T) {
	m := newMemory(t, Options{MaxEntries: 2})
	text := "# Models\nintro\n## Pricing\nmuch | more\n### Limits\nfew\n## Windows\nlarge"
	reply, keys, err := m.Store(ns, Chunked{Subject: "Tool result for 'list_models'", KeyBase: KeyBase("list_models", "a1b2c3d4-ffff"), Text: text, Max: 20000, TTL: 20 * time.Minute, Category: "tool-result"})
	must(t, err)
	want := "Tool result for 'list_models' is large (" + fmt.Sprint(utf8.RuneCountInString(text)) + ` chars) and has been split into 4 chunk(s) stored in working memory.
A document outline is stored at key ` + "`session/s1/tool-list_models-a1b2c3d4-index`" + `; get_from_working_memory reads it, to find the way by headings.
Call get_from_working_memory(key) for each relevant chunk BEFORE drawing conclusions.

| # | Heading | Key |
|---|---------|-----|
| 0 | Models | ` + "`session/s1/tool-list_models-a1b2c3d4-chunk0`" + ` |
| 1 | Pricing | ` + "`session/s1/tool-list_models-a1b2c3d4-chunk1`" + ` |
| 2 | Limits | ` + "`session/s1/tool-list_models-a1b2c3d4-chunk2`" + ` |
| 3 | Windows | ` + "`session/s1/tool-list_models-a1b2c3d4-chunk3`" + ` |
`
	if reply != want {
		t.Errorf("reply:\n%s\nwant:\n%s", reply, want)
	}
	index, found := get(t, m, keys[len(keys)-1])
	wantIndex := "## Document Outline\n\n" +
		"- **Models** → `session/s1/tool-list_models-a1b2c3d4-chunk0`\n" +
		"  - **Pricing** → `session/s1/tool-list_models-a1b2c3d4-chunk1`\n" +
		"    - **Limits** → `session/s1/tool-list_models-a1b2c3d4-chunk2`\n" +
		"  - **Windows** → `session/s1/tool-list_models-a1b2c3d4-chunk3`\n"
	if !found || index != wantIndex {
		t.Errorf("index:\n%s", index)
	}
	if v, found := get(t, m, keys[1]); !found || v != "## Pricing\nmuch | more" {
		t.Errorf("chunk 1: %q", v)
	}
	// Chunks do not use up the places for what an agent saves itself.
	put(t, m, "mine", "x")
}

func TestStoreIsAllOrNothing(t *testing.T) {
	m := newMemory(t, Options{Budget: 10000})
	_, keys, err := m.Store(ns, Chunked{Subject: "Result", KeyBase: "r", Text: strings.Repeat("word\n\n", 5000), Max: 1000})
	wantRef(t, err, fault.MemoryFull)
	if keys != nil || m.Used() != 0 {
		t.Errorf("%d keys and %d bytes stayed", len(keys), m.Used())
	}
	if !strings.Contains(err.Error(), "30000 characters") {
		t.Errorf("the message does not say how much: %v", err)
	}
}

func TestTruncate(t *testing.T) {
	if got := Truncate("äöü", 3); got != "äöü" {
		t.Errorf("%q", got)
	}
	if got := Truncate("äöüß€", 3); got != "äöü\n[result truncated — 2 chars omitted]" {
		t.Errorf("%q", got)
	}
}

func TestKeyBase(t *testing.T) {
	for _, c := range [][3]string{
		{"web_browse", "A1B2C3D4-5678", "tool-web_browse-a1b2c3d4"},
		{"../x y", "zz", "tool-___x_y-00000000"},
		{strings.Repeat("n", 64), "0123456789", "tool-" + strings.Repeat("n", 40) + "-01234567"},
	} {
		if got := KeyBase(c[0], c[1]); got != c[2] {
			t.Errorf("KeyBase(%q, %q) = %q", c[0], c[1], got)
		}
	}
}
