package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/web/web"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	grender "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// fidelity sends HTML to Markdown and back and counts what comes back the same:
// the same text in the same elements with the same addresses. A table is compared by
// the places of its cells; head cells count as cells, since a table without a head has no other way to be written; what has no
// text counts as nothing, and bold within bold as bold.
func fidelity(dir string, failures bool) error {
	type group struct {
		name         string
		passed, from int
	}
	var groups []*group
	count := func(name, source string) {
		ok := roundTrip(source)
		if !ok && failures {
			fmt.Printf("--- %s\n%s\n--- as Markdown\n%s\n", name, source, web.Fragment(source, at))
		}
		if len(groups) == 0 || groups[len(groups)-1].name != name {
			groups = append(groups, &group{name: name})
		}
		g := groups[len(groups)-1]
		g.from++
		if ok {
			g.passed++
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "html-to-markdown", "plugin", "*", "testdata", "GoldenFiles", "*.in.html"))
	if err != nil {
		return err
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		name := "html-to-markdown, " + strings.TrimSuffix(filepath.Base(f), ".in.html")
		for _, piece := range pieces(string(raw)) {
			count(name, piece)
		}
	}
	spec, err := os.ReadFile(filepath.Join(dir, "commonmark", "spec.txt"))
	if err != nil {
		return err
	}
	for _, c := range examples(string(spec)) {
		count("CommonMark, "+c.section, c.html)
	}
	fmt.Print("\nMarkdown: HTML that comes back the same after a round trip.\n\n| cases | same | of |\n|---|---|---|\n")
	passed, from := 0, 0
	for _, g := range groups {
		fmt.Printf("| %s | %d | %d |\n", g.name, g.passed, g.from)
		passed, from = passed+g.passed, from+g.from
	}
	fmt.Printf("| all | %d | %d |\n", passed, from)
	return nil
}

// pieces are the elements of a page's body, each with text.
func pieces(page string) []string {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return nil
	}
	var out []string
	for n := range root.Descendants() {
		if n.DataAtom != atom.Body {
			continue
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			var b strings.Builder
			if c.Type == html.ElementNode && c.DataAtom != atom.Hr && html.Render(&b, c) == nil {
				out = append(out, b.String())
			}
		}
	}
	return out
}

type example struct{ section, html string }

var heading = regexp.MustCompile(`^#{1,6} (.+)$`)

// examples reads the HTML of the examples of CommonMark's specification.
func examples(spec string) []example {
	const fence = "````````````````````````````````"
	var out []example
	section, state := "", 0
	var b strings.Builder
	for line := range strings.Lines(spec) {
		text := strings.TrimRight(line, "\n")
		switch {
		case state == 0 && strings.HasPrefix(text, fence+" example"):
			state = 1
		case state == 1 && text == ".":
			state = 2
			b.Reset()
		case state == 2 && text == fence:
			out = append(out, example{section, strings.ReplaceAll(b.String(), "→", "\t")})
			state = 0
		case state == 2:
			b.WriteString(line)
		case state == 0:
			if m := heading.FindStringSubmatch(text); m != nil {
				section = m[1]
			}
		}
	}
	return out
}

var (
	at     = &url.URL{Scheme: "https", Host: "example.com", Path: "/"}
	render = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Footnote), goldmark.WithRendererOptions(grender.WithUnsafe()))
)

func roundTrip(source string) bool {
	var back bytes.Buffer
	if err := render.Convert([]byte(web.Fragment(source, at)), &back); err != nil {
		return false
	}
	return shape(source) == shape(back.String())
}

// same are elements that mean the same to a reader.
var same = map[string]string{"b": "strong", "i": "em", "s": "del", "strike": "del", "th": "td", "tt": "code", "kbd": "code", "samp": "code", "var": "code"}

// counted are the elements that Markdown has.
var counted = map[string]bool{"strong": true, "em": true, "del": true, "code": true, "pre": true, "a": true, "img": true, "ul": true, "ol": true, "li": true, "blockquote": true, "h1": true, "h2": true, "h3": true, "h4": true, "h5": true, "h6": true, "table": true, "tr": true, "td": true, "hr": true}

// shape writes a page's text in those of its elements that Markdown has.
func shape(source string) string {
	root, err := html.Parse(strings.NewReader(source))
	if err != nil {
		return ""
	}
	var tables []*html.Node
	for n := range root.Descendants() {
		if n.DataAtom == atom.Table {
			tables = append(tables, n)
		}
	}
	for _, t := range tables {
		layOut(t)
	}
	var b strings.Builder
	var walk func(*html.Node, bool)
	walk = func(n *html.Node, verbatim bool) {
		name := n.Data
		if m := same[name]; m != "" {
			name = m
		}
		if n.Type == html.TextNode {
			if verbatim {
				b.WriteString(n.Data)
			} else {
				b.WriteString(" " + strings.Join(strings.Fields(n.Data), " "))
			}
			return
		}
		if n.Type == html.CommentNode || name == "script" || name == "style" {
			return
		}
		told := n.Type == html.ElementNode && counted[name]
		if told && name != "hr" && name != "img" && name != "td" && strings.TrimSpace(textOf(n)) == "" {
			return
		}
		for p := n.Parent; p != nil && (name == "strong" || name == "em"); p = p.Parent {
			told = told && p.Data != name && same[p.Data] != name
		}
		if told {
			b.WriteString("<" + name + address(n) + ">")
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, verbatim || name == "pre")
		}
		if told {
			b.WriteString("</" + name + ">")
		}
	}
	walk(root, false)
	return strings.ReplaceAll(strings.ReplaceAll(strings.Join(strings.Fields(b.String()), " "), " <", "<"), "> ", ">")
}

// address tells where a link leads and what a picture shows.
func address(n *html.Node) string {
	out := ""
	for _, a := range n.Attr {
		switch {
		case a.Key == "href" && n.DataAtom == atom.A, a.Key == "src" && n.DataAtom == atom.Img:
			if u, err := at.Parse(strings.TrimSpace(a.Val)); err == nil {
				out += " " + u.String()
			}
		case a.Key == "alt" && n.DataAtom == atom.Img && a.Val != "":
			out += " " + strings.Join(strings.Fields(a.Val), " ")
		}
	}
	return out
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
		if d.DataAtom == atom.Img && address(d) != "" {
			b.WriteString("!")
		}
	}
	return b.String()
}
