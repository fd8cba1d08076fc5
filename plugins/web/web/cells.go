package web

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

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

// maxCells is how many cells a table may have, spanned ones counted for each
// place they take, to be written as one; and how many of them spans may make.
const maxCells, maxSpanned = 50_000, 5_000

// boundSpans takes the spans from a table whose cells claim more places than a
// reader would look at, and its form from one that is too large.
func boundSpans(table *html.Node) {
	var cells []*html.Node
	places, rows, row, widest := 0, 1, 0, 0
	for n := range table.Descendants() {
		switch n.DataAtom {
		case atom.Tr:
			rows, row = rows+1, 0
		case atom.Td, atom.Th:
			cells = append(cells, n)
			places += span(n, "colspan") * span(n, "rowspan")
			row++
			widest = max(widest, row)
		}
	}
	if places > len(cells)+maxSpanned {
		for _, n := range cells {
			n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "colspan" || a.Key == "rowspan" })
		}
	}
	// Each row is filled up to the widest one.
	if len(cells) > maxCells || rows*widest > 2*len(cells)+maxCells {
		setAttr(table, "role", "presentation")
	}
}

func span(n *html.Node, name string) int {
	v, err := strconv.Atoi(strings.TrimSpace(attr(n, name)))
	if err != nil && attr(n, name) != "" {
		return maxSpanned // whatever the converter makes of it
	}
	return min(max(v, 1), maxSpanned)
}

func isListing(n *html.Node) bool { return n.DataAtom == atom.Pre }

func isTable(n *html.Node) bool    { return n.DataAtom == atom.Table }
func isHeadCell(n *html.Node) bool { return n.DataAtom == atom.Th }

// flatTables writes the tables inside a table of data as lines of its cells.
func flatTables(table *html.Node) {
	var inner []*html.Node
	for n := range table.Descendants() {
		if isTable(n) {
			inner = append(inner, n)
		}
	}
	slices.Reverse(inner) // the innermost first
	for _, t := range inner {
		var rows []*html.Node
		for n := range t.Descendants() {
			if n.DataAtom == atom.Tr || n.DataAtom == atom.Caption {
				rows = append(rows, n)
			}
		}
		lines := element(atom.Div)
		for _, row := range rows {
			if lines.FirstChild != nil {
				lines.AppendChild(element(atom.Br))
			}
			first := lines.LastChild
			for c := row.FirstChild; c != nil; c = row.FirstChild {
				row.RemoveChild(c)
				if c.DataAtom == atom.Td || c.DataAtom == atom.Th {
					c.Data, c.DataAtom, c.Attr = "span", atom.Span, nil
					if lines.LastChild != first {
						lines.AppendChild(text(" · "))
					}
				} else if c.Type == html.TextNode && row.DataAtom == atom.Tr {
					continue
				}
				lines.AppendChild(c)
			}
		}
		for c := t.FirstChild; c != nil; c = t.FirstChild {
			t.RemoveChild(c)
		}
		t.Data, t.DataAtom, t.Attr = "div", atom.Div, nil
		moveChildren(t, lines)
	}
}

// apart keeps the cells of a table that is not written as one from running together.
func apart(table *html.Node) {
	for n := range table.Descendants() {
		if (n.DataAtom == atom.Td || n.DataAtom == atom.Th) && n.LastChild != nil && above(n, atom.Table) == table {
			n.AppendChild(text(" "))
		}
	}
}

// above is the next element of a kind that n stands in, or nil.
func above(n *html.Node, a atom.Atom) *html.Node {
	for n = n.Parent; n != nil && n.DataAtom != a; n = n.Parent {
	}
	return n
}

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
			if p := n.PrevSibling; p != nil && (p.Type != html.TextNode || strings.TrimSpace(p.Data) != "") {
				n.Parent.InsertBefore(element(atom.Br), n)
			}
			if p := n.NextSibling; p != nil && (p.Type != html.TextNode || strings.TrimSpace(p.Data) != "") {
				n.Parent.InsertBefore(element(atom.Br), p)
			}
			n.Data, n.DataAtom = "span", atom.Span
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
