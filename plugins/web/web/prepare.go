package web

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// prepare rewrites what the converter doesn't know into what it does: pictures
// that load late, languages of code, footnotes, lists of definitions, details.
func prepare(root *html.Node, at *url.URL) {
	footnotes(root, at)
	var all []*html.Node
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			all = append(all, n)
		}
	}
	for _, n := range slices.Backward(all) { // the inner ones first
		if n.DataAtom == atom.Sup || n.DataAtom == atom.Sub {
			script(n)
		}
	}
	for _, n := range all {
		switch n.DataAtom {
		case atom.Img:
			lateImage(n)
		case atom.Table:
			boundSpans(n)
			numberedCode(n)
			switch {
			case find(n, isListing) != nil:
				setAttr(n, "role", "presentation") // no line of a table holds a listing
			case find(n, func(d *html.Node) bool { return isHeadCell(d) && above(d, atom.Table) == n }) != nil:
				flatTables(n)
				flatCells(n)
			}
			if attr(n, "role") == "presentation" || find(n, isTable) != nil {
				apart(n)
			}
		case atom.Pre:
			codeLanguage(n)
		case atom.Dl:
			definitions(n)
		case atom.Summary:
			summary(n)
		}
	}
}

// lateImage gives a picture that a script would load the address it would load.
func lateImage(n *html.Node) {
	if src := attr(n, "src"); src != "" && !strings.HasPrefix(src, "data:") {
		return
	}
	for _, key := range []string{"data-src", "data-original", "data-lazy-src", "data-lazy", "data-url"} {
		if v := attr(n, key); v != "" && !strings.HasPrefix(v, "data:") {
			setAttr(n, "src", v)
			return
		}
	}
	candidates := []*html.Node{n}
	if p := n.Parent; p != nil && p.DataAtom == atom.Picture {
		for c := p.FirstChild; c != nil; c = c.NextSibling {
			if c.DataAtom == atom.Source {
				candidates = append(candidates, c)
			}
		}
	}
	for _, c := range candidates {
		for _, key := range []string{"srcset", "data-srcset"} {
			if f := strings.Fields(attr(c, key)); len(f) > 0 && !strings.HasPrefix(f[0], "data:") {
				setAttr(n, "src", strings.TrimSuffix(f[0], ","))
				return
			}
		}
	}
}

var (
	languageClass = regexp.MustCompile(`(?i)(?:^|\s)(?:(?:language|lang|highlight-source|highlight|crayon)[-_]|brush: ?|code-block-)([a-z][a-z0-9+#.-]{0,29})(?:\s|;|$)`)
	highlighted   = regexp.MustCompile(`(?i)(?:^|\s)(?:hljs|sourceCode|chroma|code|prettyprint|EnlighterJSRAW|shiki)\s+([a-z][a-z0-9+#.-]{0,29})(?:\s|$)`)
	languageName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+#.-]{0,29}$`)
)

// noLanguage are words that stand where a language would and are none.
var noLanguage = map[string]bool{"default": true, "none": true, "text": true, "plaintext": true, "notranslate": true, "code": true, "block": true, "wrapper": true, "hljs": true, "line-numbers": true, "nohighlight": true, "plain": true, "container": true, "snippet": true, "toolbar": true, "js-code-highlight": true, "copy": true}

// codeLanguage writes the language of a listing, told in one of many ways, in the
// one way that the converter reads.
func codeLanguage(pre *html.Node) {
	places := []*html.Node{pre}
	if c := find(pre, func(n *html.Node) bool { return n.DataAtom == atom.Code }); c != nil {
		places = append(places, c)
	}
	for p, up := pre.Parent, 0; p != nil && up < 3 && p.DataAtom != atom.Body; p, up = p.Parent, up+1 {
		places = append(places, p)
	}
	language := ""
	for _, n := range places {
		for _, key := range []string{"data-lang", "data-language", "data-enlighter-language", "lang"} {
			if v := attr(n, key); language == "" && (key != "lang" || n == pre || n.DataAtom == atom.Code) && languageName.MatchString(v) {
				language = v
			}
		}
		for _, re := range []*regexp.Regexp{languageClass, highlighted} {
			if m := re.FindStringSubmatch(attr(n, "class")); language == "" && m != nil && !noLanguage[strings.ToLower(m[1])] {
				language = m[1]
			}
		}
	}
	for _, n := range places[:min(2, len(places))] {
		if n == pre || n.DataAtom == atom.Code {
			setAttr(n, "class", "")
		}
	}
	if language != "" && !noLanguage[strings.ToLower(language)] {
		setAttr(pre, "class", "language-"+language)
	}
	// Line numbers and buttons are no code.
	var out []*html.Node
	for n := range pre.Descendants() {
		if n.Type == html.ElementNode && (n.DataAtom == atom.Button || n.DataAtom == atom.Svg || lineNumber.MatchString(attr(n, "class"))) {
			out = append(out, n)
		}
	}
	for _, n := range out {
		n.Parent.RemoveChild(n)
	}
}

var lineNumber = regexp.MustCompile(`(?i)(^|\s)(linenos?|line-?numbers?|lineno|gutter|ln|lnt|line-number-cell|hljs-ln-numbers)(\s|$)`)

func element(a atom.Atom) *html.Node {
	return &html.Node{Type: html.ElementNode, Data: a.String(), DataAtom: a}
}

func text(s string) *html.Node { return &html.Node{Type: html.TextNode, Data: s} }

func moveChildren(to, from *html.Node) {
	for c := from.FirstChild; c != nil; c = from.FirstChild {
		from.RemoveChild(c)
		to.AppendChild(c)
	}
}

// definitions makes a list of "**term**: definition" of a <dl>.
func definitions(dl *html.Node) {
	var items []*html.Node
	var terms *html.Node // of the item that is being filled; nil after a definition
	for _, n := range flatDefinitions(dl) {
		n.Parent.RemoveChild(n)
		if n.DataAtom == atom.Dt {
			strong := element(atom.Strong)
			moveChildren(strong, n)
			if terms != nil {
				terms.AppendChild(text(", "))
			} else {
				terms = element(atom.Li)
				items = append(items, terms)
			}
			terms.AppendChild(strong)
			continue
		}
		if len(items) == 0 {
			items = append(items, element(atom.Li))
		}
		li := items[len(items)-1]
		if terms != nil {
			li.AppendChild(text(": "))
			terms = nil
		} else if li.FirstChild != nil {
			li.AppendChild(element(atom.Br))
		}
		moveChildren(li, n)
	}
	if len(items) == 0 {
		return
	}
	for c := dl.FirstChild; c != nil; c = dl.FirstChild {
		dl.RemoveChild(c)
	}
	dl.Data, dl.DataAtom = "ul", atom.Ul
	for _, li := range items {
		dl.AppendChild(li)
	}
}

// flatDefinitions lists the terms and definitions of a list, which may stand in
// groups; those of lists inside it are not its own.
func flatDefinitions(dl *html.Node) []*html.Node {
	var out []*html.Node
	for c := dl.FirstChild; c != nil; c = c.NextSibling {
		switch c.DataAtom {
		case atom.Dt, atom.Dd:
			out = append(out, c)
		case atom.Div:
			out = append(out, flatDefinitions(c)...)
		}
	}
	return out
}

// summary makes a bold line of what a reader would open; what it opens follows.
func summary(n *html.Node) {
	for d := range n.Descendants() {
		if headings[d.DataAtom] {
			n.Data, n.DataAtom = "div", atom.Div
			return
		}
	}
	strong := element(atom.Strong)
	moveChildren(strong, n)
	n.Data, n.DataAtom = "p", atom.P
	n.AppendChild(strong)
}
