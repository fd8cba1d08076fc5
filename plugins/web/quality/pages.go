package quality

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
)

// Page is a page of a real site and the text of its article.
type Page struct {
	ID    string
	At    *url.URL
	Bytes []byte // as the site sent it
	Text  string
}

// Articles reads the pages of a set: ground-truth.json, and html/ID.html.gz for
// each; entries without a file are left out.
func Articles(dir string) ([]Page, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "ground-truth.json"))
	if err != nil {
		return nil, err
	}
	var truth map[string]struct {
		ArticleBody string `json:"articleBody"`
		URL         string `json:"url"`
	}
	if err := json.Unmarshal(raw, &truth); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "ground-truth.json"), err)
	}
	var pages []Page
	for id, t := range truth {
		body, err := gunzip(filepath.Join(dir, "html", id+".html.gz"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		at, err := url.Parse(t.URL)
		if err != nil || at.Host == "" {
			at = &url.URL{Scheme: "https", Host: "example.com"}
		}
		pages = append(pages, Page{ID: id, At: at, Bytes: body, Text: t.ArticleBody})
	}
	slices.SortFunc(pages, func(a, b Page) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return pages, nil
}

func gunzip(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return io.ReadAll(z)
}
