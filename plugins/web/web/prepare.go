package web

import (
	"net/url"
	"regexp"
	"strconv"
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
	for _, n := range all {
		switch n.DataAtom {
		case atom.Img:
			lateImage(n)
		case atom.Table:
			numberedCode(n)
			if find(n, isListing) != nil {
				setAttr(n, "role", "presentation") // no line of a table holds a listing
			} else if find(n, isTable) == nil && find(n, isHeadCell) != nil {
				flatCells(n)
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

// numberedCode replaces a table of line numbers and code by the code.
func numberedCode(t *html.Node) {
	listings := 0
	var code *html.Node
	for n := range t.Descendants() {
		if n.DataAtom == atom.Pre {
			listings++
			if digits(textOf(n, true)) {
				continue
			}
			if code != nil {
				return
			}
			code = n
		}
	}
	if code == nil || t.Parent == nil || listings < 2 && !lineNumber.MatchString(classesBelow(t)) || len(textOf(t, true)) > 2*len(textOf(code, true))+100 {
		return
	}
	code.Parent.RemoveChild(code)
	t.Parent.InsertBefore(code, t)
	t.Parent.RemoveChild(t)
}

func isListing(n *html.Node) bool { return n.DataAtom == atom.Pre }

func isTable(n *html.Node) bool    { return n.DataAtom == atom.Table }
func isHeadCell(n *html.Node) bool { return n.DataAtom == atom.Th }

// flatCells writes what would break a table of data on the one line that a cell
// has: lists, headings, quotes and rules.
func flatCells(table *html.Node) {
	var all []*html.Node
	for n := range table.Descendants() {
		if n.Type == html.ElementNode {
			all = append(all, n)
		}
	}
	for _, n := range all {
		switch {
		case n.DataAtom == atom.Li:
			if n.FirstChild != nil {
				n.InsertBefore(text("• "), n.FirstChild)
			}
			if after := nextElement(n); after != nil {
				n.Parent.InsertBefore(element(atom.Br), after)
			}
			n.Data, n.DataAtom = "span", atom.Span
		case n.DataAtom == atom.Ul, n.DataAtom == atom.Ol, n.DataAtom == atom.Blockquote:
			n.Data, n.DataAtom = "div", atom.Div
		case headings[n.DataAtom]:
			n.Data, n.DataAtom = "strong", atom.Strong
		case n.DataAtom == atom.Hr:
			n.Data, n.DataAtom = "br", atom.Br
		}
	}
}

func nextElement(n *html.Node) *html.Node {
	for n = n.NextSibling; n != nil && n.Type != html.ElementNode; n = n.NextSibling {
	}
	return n
}

func digits(s string) bool { return strings.Trim(s, "0123456789 ") == "" }

func classesBelow(n *html.Node) string {
	var out []string
	for d := range n.Descendants() {
		if c := attr(d, "class"); c != "" {
			out = append(out, c)
		}
	}
	return strings.Join(out, " ")
}

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

// Elements that stand for footnotes until they are written.
const noteRef, noteText = "x-note-ref", "x-note-text"

var (
	noteLabel = regexp.MustCompile(`^[\pL\pN_-]{1,20}$`)
	backward  = regexp.MustCompile(`(?i)(backref|backlink|back-link|doc-backlink)`)
)

// footnotes turns marks that lead to a note on the same page, and these notes,
// into Markdown's.
func footnotes(root *html.Node, at *url.URL) {
	targets := map[string]*html.Node{}
	var marks []*html.Node
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if id := attr(n, "id"); id != "" && (n.DataAtom == atom.Li || n.DataAtom == atom.P || n.DataAtom == atom.Div || n.DataAtom == atom.Aside) {
			targets[id] = n
		}
		if n.DataAtom == atom.A && (within(n, atom.Sup) || strings.Contains(attr(n, "class")+attr(n, "role"), "noteref") || strings.Contains(attr(n, "class"), "footnote-ref")) {
			marks = append(marks, n)
		}
	}
	labels := map[*html.Node]string{}
	used := map[string]bool{}
	for _, a := range marks {
		note := targets[fragmentOf(attr(a, "href"), at)]
		if note == nil || isBelow(a, note) || note.Parent == nil || len(textOf(note, true)) > 2000 {
			continue
		}
		label := labels[note]
		if label == "" {
			label = strings.Trim(textOf(a, true), "[]() ")
			for i := len(labels) + 1; !noteLabel.MatchString(label) || used[label]; i++ {
				label = strconv.Itoa(i)
			}
			labels[note], used[label] = label, true
		}
		mark := a
		if p := a.Parent; p != nil && p.DataAtom == atom.Sup && textOf(p, true) == textOf(a, true) {
			mark = p
		}
		ref := &html.Node{Type: html.ElementNode, Data: noteRef, Attr: []html.Attribute{{Key: "label", Val: label}}}
		mark.Parent.InsertBefore(ref, mark)
		mark.Parent.RemoveChild(mark)
	}
	for note, label := range labels {
		var back []*html.Node
		for d := range note.Descendants() {
			if d.DataAtom == atom.A && (backward.MatchString(attr(d, "class")+attr(d, "role")) || fragmentOf(attr(d, "href"), at) != "" && len([]rune(textOf(d, true))) <= 2) || d.Type == html.ElementNode && backward.MatchString(attr(d, "class")) {
				back = append(back, d)
			}
		}
		for _, d := range back {
			d.Parent.RemoveChild(d)
		}
		note.Data, note.DataAtom, note.Attr = noteText, 0, []html.Attribute{{Key: "label", Val: label}}
		if list := note.Parent; list.DataAtom == atom.Ol || list.DataAtom == atom.Ul {
			liftNotes(list)
		}
	}
}

// liftNotes makes a list that has only notes a plain container.
func liftNotes(list *html.Node) {
	for c := list.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode && c.Data != noteText {
			return
		}
	}
	list.Data, list.DataAtom = "div", atom.Div
}

func fragmentOf(href string, at *url.URL) string {
	if f, ok := strings.CutPrefix(href, "#"); ok {
		return f
	}
	u, err := at.Parse(href)
	if err != nil || u.Fragment == "" || u.Host != at.Host || u.Path != at.Path || u.RawQuery != at.RawQuery {
		return ""
	}
	return u.Fragment
}

func isBelow(n, root *html.Node) bool {
	for ; n != nil; n = n.Parent {
		if n == root {
			return true
		}
	}
	return false
}
