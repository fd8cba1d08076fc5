package web

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// What was kept stays, however many files have the same name.
func TestSavedTwice(t *testing.T) {
	srv := site(t)
	s, dir := sharing(t, srv)
	for i, want := range []string{"article.md", "article-2.md", "article-3.md"} {
		r := s.Call("capture_reference", fmt.Sprintf(`{"url":%q,"note":"%d"}`, srv.URL+"/sea/article.html", i))
		if r.IsError || len(r.Files) != 1 || r.Files[0].Path != "/shared/references/"+want {
			t.Fatalf("%s %+v", r.Message, r.Files)
		}
	}
	for i, name := range []string{"article.md", "article-2.md", "article-3.md"} {
		if raw, err := os.ReadFile(filepath.Join(dir, "references", name+".source.json")); err != nil || !strings.Contains(string(raw), fmt.Sprintf(`"note": "%d"`, i)) {
			t.Errorf("%s: %v %s", name, err, raw)
		}
	}
}

// Names are as long as file systems take, in bytes.
func TestLongFileNames(t *testing.T) {
	at := &url.URL{Scheme: "https", Host: "example.com", Path: "/" + strings.Repeat("語", 150) + ".pdf"}
	for _, wanted := range []string{"", strings.Repeat("語", 150), strings.Repeat("é", 300) + ".pdf", "x." + strings.Repeat("y", 400)} {
		name, err := fileName(wanted, at, "document.pdf", ".pdf")
		if err != nil || len(name) > maxName || !utf8.ValidString(name) || !strings.HasSuffix(name, ".pdf") || len(name) < 100 {
			t.Errorf("%.20s: %v, %d bytes, %s", wanted, err, len(name), name)
		}
	}
}

func TestAddressesWithoutScheme(t *testing.T) {
	for text, want := range map[string]string{"example.com": "https://example.com", " example.com:8080/a?b#c ": "https://example.com:8080/a?b#c", "bücher.example/x": "https://b\u00fccher.example/x"} {
		if u, err := parseURL(text); err != nil || u.Scheme != "https" || !strings.HasPrefix(want, "https://"+u.Host) {
			t.Errorf("%s: %v %v", text, u, err)
		}
	}
	for _, text := range []string{"/etc/passwd", "mailto:a@b.example", "javascript:x.y", "user@example.com", "example", "..", "127.0.0.1"} {
		if u, err := parseURL(text); sdk.CodeOf(err) != sdk.InvalidArguments {
			t.Errorf("%s: %v %v", text, u, err)
		}
	}
}

// Without a folder for copies pages are read as ever, and the plugin says what it lacks.
func TestNoCacheFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBrowser()
	b.data = func() string { return file }
	set := defaults()
	if err := b.apply(&set); err != nil {
		t.Fatal(err)
	}
	if h := b.state(t.Context()); !h.Degraded || !strings.Contains(h.Detail, "no copies are kept") {
		t.Errorf("%+v", h)
	}
}
