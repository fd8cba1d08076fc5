package web

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/web/quality"
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

func TestArticlesComeThrough(t *testing.T) {
	pages, err := quality.Articles(filepath.Join(pagesDir(t), "articles"))
	if err != nil {
		t.Fatal(err)
	}
	var ours []quality.Score
	shells := 0
	for _, p := range pages {
		doc := convertHTML(toUTF8("text/html", p.Bytes, true), p.At)
		s := quality.Of(quality.Text(doc.markdown), p.Text)
		if testing.Verbose() && s.F1() < 0.8 {
			t.Logf("%.2f %.2f %s", s.Precision, s.Recall, p.At)
		}
		if doc.status != "" {
			shells++
			t.Logf("taken for %s: %s", doc.status, p.At)
		}
		ours = append(ours, s)
	}
	m := quality.Mean(ours)
	t.Logf("%d pages: precision %.3f, recall %.3f, F1 %.3f", len(pages), m.Precision, m.Recall, m.F1())
	if m.F1() < 0.945 {
		t.Errorf("F1 %.3f: the text of articles no longer comes through; it was above 0.945", m.F1())
	}
	if shells > 1 {
		t.Errorf("%d articles are taken for shells", shells)
	}
}
