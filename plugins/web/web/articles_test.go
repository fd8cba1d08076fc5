package web

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// pagesDir holds pages of real sites with their true text, outside the project.
func pagesDir(t *testing.T) string {
	dir := os.Getenv("BULKHEAD_PAGES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data", "pages")
	}
	if _, err := os.Stat(filepath.Join(dir, "articles", "ground-truth.json")); err != nil {
		t.Skip("no pages to measure against: set BULKHEAD_PAGES to a folder with articles/ground-truth.json")
	}
	return dir
}

var (
	linkTarget = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	image      = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)`)
	word       = regexp.MustCompile(`\w+`)
)

// shingles are the runs of four words of a text.
func shingles(text string) map[string]int {
	words := word.FindAllString(text, -1)
	out := map[string]int{}
	for i := 0; i+4 <= len(words); i++ {
		out[words[i]+" "+words[i+1]+" "+words[i+2]+" "+words[i+3]]++
	}
	return out
}

// score gives precision and recall of got against want.
func score(got, want string) (precision, recall float64) {
	a, b := shingles(got), shingles(want)
	common, na, nb := 0, 0, 0
	for s, n := range a {
		na += n
		common += min(n, b[s])
	}
	for _, n := range b {
		nb += n
	}
	if na == 0 || nb == 0 {
		return 0, 0
	}
	return float64(common) / float64(na), float64(common) / float64(nb)
}

func TestArticlesComeThrough(t *testing.T) {
	dir := filepath.Join(pagesDir(t), "articles")
	raw, err := os.ReadFile(filepath.Join(dir, "ground-truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var truth map[string]struct{ ArticleBody, URL string }
	if err := json.Unmarshal(raw, &truth); err != nil {
		t.Fatal(err)
	}
	var p, r float64
	n := 0
	for id, want := range truth {
		f, err := os.Open(filepath.Join(dir, "html", id+".html.gz"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(z)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		at, err := url.Parse(want.URL)
		if err != nil || at.Host == "" {
			at = &url.URL{Scheme: "https", Host: "example.com"}
		}
		md := convertHTML(toUTF8("text/html", body, true), at).markdown
		md = linkTarget.ReplaceAllString(image.ReplaceAllString(md, ""), "$1")
		precision, recall := score(md, want.ArticleBody)
		if testing.Verbose() && (precision < 0.7 || recall < 0.7) {
			t.Logf("%.2f %.2f %s", precision, recall, want.URL)
		}
		p, r, n = p+precision, r+recall, n+1
	}
	p, r = p/float64(n), r/float64(n)
	f1 := 2 * p * r / (p + r)
	t.Logf("%d pages: precision %.3f, recall %.3f, F1 %.3f", n, p, r, f1)
	if f1 < 0.90 {
		t.Errorf("F1 %.3f: the text of articles no longer comes through; it was above 0.90", f1)
	}
}
