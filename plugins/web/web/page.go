package web

import (
	"net/url"
	"strings"

	readability "codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bulkhead-dev/bulkhead/plugins/web/htmltree"
)

// document is a page as Markdown.
type document struct {
	title    string
	about    string // who wrote it and when; may be empty
	markdown string
	status   string // of a page that is only a shell; empty for a real one
	note     string // what is left out
}

// maxNodes is the largest tree, in elements, that the extraction is tried on: its
// time grows faster than the page.
const maxNodes = 60_000

// convertHTML takes the noise out of a page and writes it as Markdown, with links
// made absolute against base.
func convertHTML(source string, at *url.URL) document {
	root, err := htmltree.Parse(source)
	if err != nil {
		return bareDocument(source)
	}
	doc := document{title: titleOf(root)}
	at = baseOf(root, at)
	all, scripts := len(textOf(root, true)), countScripts(root)
	waits := waitsForScripts(root)
	walled := stripConsent(root)
	if stripWorded(root) {
		walled = true
	}
	article, about := extract(root, at)
	asks := canDecide(root)
	stripNoise(root)
	body := root
	if b := find(root, func(n *html.Node) bool { return n.DataAtom == atom.Body }); b != nil {
		body = b
	}
	own := textOf(body, true)
	doc.status = shellStatus(own, all, scripts, walled, asks && wordsConsent(own))
	if doc.status == "" && scripts > 0 && len(own) <= challengeText && (waits == said || waits == empty && unsupported.MatchString(own)) {
		doc.status = needsJS
	}
	doc.about = about
	if doc.status == "" && article != nil && isArticle(article, body) {
		trim(article, doc.title)
		doc.markdown = toMarkdown(article, at)
	}
	if doc.markdown == "" {
		doc.markdown = toMarkdown(body, at)
	}
	doc.markdown = dropTitle(doc.markdown, doc.title)
	return doc
}

// bareDocument is what can be had of a page of which no tree is made.
func bareDocument(source string) document {
	doc := document{markdown: bareText(source), note: "the page is too large or too deep to be laid out; this is its bare text"}
	if doc.markdown == "" {
		doc.status = emptyPage
	}
	return doc
}

// fragment converts HTML that is all content.
func fragment(source string, at *url.URL) string {
	root, err := htmltree.Parse(source)
	if err != nil {
		return bareText(source)
	}
	return toMarkdown(root, at)
}

// extract finds the article of a page, if it has one, and tells who wrote it when.
func extract(root *html.Node, at *url.URL) (*html.Node, string) {
	p := readability.NewParser()
	p.MaxElemsToParse = maxNodes
	p.KeepClasses = true                // trim goes by them
	a, err := p.ParseDocument(root, at) // works on a copy
	if err != nil {
		return nil, ""
	}
	return a.Node, about(a)
}

// baseOf honours <base href>.
func baseOf(root *html.Node, at *url.URL) *url.URL {
	if b := find(root, func(n *html.Node) bool { return n.DataAtom == atom.Base && attr(n, "href") != "" }); b != nil {
		if u, err := at.Parse(attr(b, "href")); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			return u
		}
	}
	return at
}

// titleOf takes the page's own name: og:title, else <title>, else the first h1.
func titleOf(root *html.Node) string {
	if m := find(root, func(n *html.Node) bool {
		return n.DataAtom == atom.Meta && (attr(n, "property") == "og:title" || attr(n, "name") == "og:title")
	}); m != nil && strings.TrimSpace(attr(m, "content")) != "" {
		return oneLine(attr(m, "content"))
	}
	for _, a := range []atom.Atom{atom.Title, atom.H1} {
		if n := find(root, func(n *html.Node) bool { return n.DataAtom == a && n.Namespace == "" }); n != nil {
			if t := oneLine(textOf(n, true)); t != "" {
				return t
			}
		}
	}
	return ""
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	return s
}

// bareText reads the text between tags without building a tree.
func bareText(source string) string {
	z := html.NewTokenizer(strings.NewReader(source))
	var words []string
	skip, size := 0, 0
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.Join(words, " ")
		case html.StartTagToken:
			if name, _ := z.TagName(); isSilent(name) {
				skip++
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); isSilent(name) && skip > 0 {
				skip--
			}
		case html.TextToken:
			if skip == 0 && size <= maxText {
				for word := range strings.FieldsSeq(string(z.Text())) {
					words, size = append(words, word), size+len(word)+1
				}
			}
		}
	}
}

func isSilent(name []byte) bool {
	switch string(name) {
	case "script", "style", "noscript", "template", "title":
		return true
	}
	return false
}

// Markdown converts a page as web_browse does: its title and its text.
func Markdown(contentType string, body []byte, at *url.URL) (title, text string) {
	doc := convertHTML(toUTF8(contentType, body, true), at)
	return doc.title, doc.markdown
}

// Fragment converts HTML that is all content, as of a site's interface.
func Fragment(source string, at *url.URL) string { return fragment(source, at) }

// Decode gives a page's HTML as UTF-8, by what is declared, else by its bytes.
func Decode(contentType string, body []byte) string { return toUTF8(contentType, body, true) }
