package web

import (
	"net/url"
	"strings"
	"unicode/utf8"

	readability "codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// document is a page as Markdown.
type document struct {
	title    string
	markdown string
	status   string // of a page that is only a shell; empty for a real one
	note     string // what is left out
}

// Statuses of pages whose body was not read.
const (
	consentWall = "blocked_by_consent_wall"
	needsJS     = "js_required"
	emptyPage   = "empty"
)

const (
	// shellText is the text, in characters, below which a page may be a shell.
	shellText = 200
	// articleMin and articleShare are what an extracted article must have, in
	// characters and as a share of the page's text outside links; with less the
	// extraction has missed the point of the page, and all of it is converted.
	articleMin   = 250
	articleShare = 0.2
	// maxNodes is the largest tree, in elements, that the extraction is tried on:
	// its time grows faster than the page.
	maxNodes = 60_000
)

// convertHTML takes the noise out of a page and writes it as Markdown, with links
// made absolute against base.
func convertHTML(source string, at *url.URL) document {
	root, err := html.Parse(strings.NewReader(source))
	if err != nil {
		// Nested too deeply for the parser: the bare text is better than nothing.
		return document{markdown: bareText(source)}
	}
	doc := document{title: titleOf(root)}
	at = baseOf(root, at)
	all, scripts := len(textOf(root, true)), countScripts(root)
	walled := stripConsent(root)
	article := extract(root, at)
	stripNoise(root)
	if body := find(root, func(n *html.Node) bool { return n.DataAtom == atom.Body }); body != nil {
		root = body
	}
	full := textOf(root, false)
	if n := utf8.RuneCountInString(textOf(root, true)); n < shellText {
		doc.status = shellStatus(n, all, scripts, walled)
	}
	if article != nil {
		if text := textOf(article, true); len(text) >= articleMin && float64(len(text)) >= articleShare*float64(len(full)) {
			trim(article, doc.title)
			doc.markdown = toMarkdown(article, at)
			doc.status = ""
		}
	}
	if doc.markdown == "" {
		doc.markdown = toMarkdown(root, at)
	}
	doc.markdown = dropTitle(doc.markdown, doc.title)
	return doc
}

// fragment converts HTML that is all content.
func fragment(source string, at *url.URL) string {
	root, err := html.Parse(strings.NewReader(source))
	if err != nil {
		return bareText(source)
	}
	return toMarkdown(root, at)
}

// shellStatus judges a page with hardly any text of its own.
func shellStatus(own, all, scripts int, walled bool) string {
	switch {
	case walled && all > own:
		return consentWall
	case scripts > 0:
		return needsJS
	case own == 0:
		return emptyPage
	}
	return "" // a short page is a page
}

func countScripts(root *html.Node) int {
	n := 0
	for d := range root.Descendants() {
		if d.DataAtom == atom.Script {
			switch strings.ToLower(attr(d, "type")) {
			case "", "module", "text/javascript", "application/javascript":
				n++
			}
		}
	}
	return n
}

// extract finds the article of a page, if it has one.
func extract(root *html.Node, at *url.URL) *html.Node {
	p := readability.NewParser()
	p.MaxElemsToParse = maxNodes
	p.KeepClasses = true                // trim goes by them
	a, err := p.ParseDocument(root, at) // works on a copy
	if err != nil || a.Node == nil {
		return nil
	}
	return a.Node
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
	skip := 0
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
			if skip == 0 {
				words = append(words, strings.Fields(string(z.Text()))...)
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
