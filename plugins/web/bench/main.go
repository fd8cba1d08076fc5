// Command bench scores the text of web_browse on pages of real sites beside plain
// conversion and two other extractors, and counts the cases of Markdown that come
// through whole.
package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	readability "codeberg.org/readeck/go-readability/v2"
	"github.com/bulkhead-dev/bulkhead/plugins/web/quality"
	"github.com/bulkhead-dev/bulkhead/plugins/web/web"
	trafilatura "github.com/markusmobius/go-trafilatura"
	"golang.org/x/net/html"
)

func main() {
	data := flag.String("data", "", "folder with pages/articles, pages/commonmark and pages/html-to-markdown")
	failures := flag.Bool("failures", false, "print each case of Markdown that does not come back the same")
	flag.Parse()
	dir := filepath.Join(*data, "pages")
	if _, err := os.Stat(filepath.Join(dir, "articles", "ground-truth.json")); err != nil {
		fmt.Printf("bench-web: nothing to measure: %s has no pages/articles; name a folder that has with DATA=\n", *data)
		return
	}
	if err := run(dir, *failures); err != nil {
		fmt.Fprintln(os.Stderr, "bench-web:", err)
		os.Exit(1)
	}
}

func run(dir string, failures bool) error {
	pages, err := quality.Articles(filepath.Join(dir, "articles"))
	if err != nil {
		return err
	}
	behind := articles(pages)
	if err := fidelity(dir, failures); err != nil {
		return err
	}
	if behind != "" {
		return fmt.Errorf("not good enough: %s", behind)
	}
	return nil
}

// wanted is the F1 that the Markdown of articles must have.
const wanted = 0.945

type extractor struct {
	name string
	text func(quality.Page) string
}

// articles prints how each extractor does, and says what is not as it should be.
func articles(pages []quality.Page) (behind string) {
	extractors := []extractor{
		{"web_browse", func(p quality.Page) string {
			_, text := web.Markdown("text/html", p.Bytes, p.At)
			return quality.Text(text)
		}},
		{"plain conversion", func(p quality.Page) string { return quality.Text(web.Fragment(source(p), p.At)) }},
		{"go-readability, Markdown", func(p quality.Page) string { return markdown(readable(p).Node, p.At) }},
		{"go-readability, text", func(p quality.Page) string {
			var b strings.Builder
			if a := readable(p); a.Node != nil {
				_ = a.RenderText(&b) // to memory
			}
			return b.String()
		}},
		{"go-trafilatura, Markdown", func(p quality.Page) string {
			if r := trafilate(p); r != nil {
				return markdown(r.ContentNode, p.At)
			}
			return ""
		}},
		{"go-trafilatura, text", func(p quality.Page) string {
			if r := trafilate(p); r != nil {
				return r.ContentText
			}
			return ""
		}},
	}
	fmt.Printf("Articles: %d pages; shingles of 4 words, means over pages, F1 of the means.\n\n", len(pages))
	fmt.Println("| text | precision | recall | F1 | ours ahead by | 95 % interval |\n|---|---|---|---|---|---|")
	var ours []quality.Score
	for i, x := range extractors {
		scores := make([]quality.Score, len(pages))
		for j, p := range pages {
			scores[j] = quality.Of(x.text(p), p.Text)
		}
		m := quality.Mean(scores)
		if i == 0 {
			ours = scores
			fmt.Printf("| %s | %.3f | %.3f | %.3f | | |\n", x.name, m.Precision, m.Recall, m.F1())
			if m.F1() < wanted {
				behind = fmt.Sprintf("F1 %.3f, wanted %.3f", m.F1(), wanted)
			}
			continue
		}
		d, low, high := quality.Difference(ours, scores)
		fmt.Printf("| %s | %.3f | %.3f | %.3f | %+.3f | %+.3f to %+.3f |\n", x.name, m.Precision, m.Recall, m.F1(), d, low, high)
		if high < 0 {
			behind = x.name + " is ahead of ours outside its interval"
		}
	}
	return behind
}

func source(p quality.Page) string { return web.Decode("text/html", p.Bytes) }

func parse(p quality.Page) *html.Node {
	root, err := html.Parse(strings.NewReader(source(p)))
	if err != nil {
		return &html.Node{Type: html.DocumentNode}
	}
	return root
}

func readable(p quality.Page) readability.Article {
	parser := readability.NewParser()
	a, err := parser.ParseDocument(parse(p), p.At)
	if err != nil {
		return readability.Article{}
	}
	return a
}

func trafilate(p quality.Page) *trafilatura.ExtractResult {
	r, err := trafilatura.ExtractDocument(parse(p), trafilatura.Options{OriginalURL: p.At, EnableFallback: true, ExcludeComments: true, IncludeLinks: true})
	if err != nil {
		return nil
	}
	return r
}

// markdown writes what another extractor found with our converter.
func markdown(n *html.Node, at *url.URL) string {
	if n == nil {
		return ""
	}
	var b strings.Builder
	if html.Render(&b, n) != nil {
		return ""
	}
	return quality.Text(web.Fragment(b.String(), at))
}
