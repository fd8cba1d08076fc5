package web

import (
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// block is a run of inline nodes that stands by itself on a page: a paragraph, a
// heading, a cell, or loose text between such.
type block struct {
	nodes []*html.Node // siblings
	text  string       // white space folded
	links int          // bytes of text in links
}

// prose is the size from which a block is taken for running text, in bytes, which
// weighs scripts without spaces about right.
const prose = 120

func (b *block) linked() float64 { return float64(b.links) / float64(max(1, len(b.text))) }

func (b *block) isProse() bool {
	return len(b.text) >= prose && (b.linked() < 0.4 || b.linked() < 0.65 && b.sentence())
}

// in reports whether the block stands in one of the elements, root excluded.
func (b *block) in(atoms ...atom.Atom) bool { return within(b.nodes[0], atoms...) }

func (b *block) isHeading() bool {
	return b.in(atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6) || len(b.nodes) == 1 && headings[b.nodes[0].DataAtom]
}

var headings = map[atom.Atom]bool{atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true}

// sentence reports whether the text ends as sentences do.
func (b *block) sentence() bool {
	text := strings.TrimRightFunc(b.text, func(r rune) bool { return strings.ContainsRune(`"'”’»)]`, r) })
	return len(text) >= 30 && strings.ContainsAny(text[len(text)-3:], ".!?…:。！？：।")
}

// drop takes the block out, and what holds nothing without it.
func (b *block) drop() {
	parent := b.nodes[0].Parent
	for _, n := range b.nodes {
		parent.RemoveChild(n)
	}
	for p := parent; p != nil && p.Parent != nil && isHollow(p); {
		up := p.Parent
		up.RemoveChild(p)
		p = up
	}
}

func isHollow(n *html.Node) bool {
	if n.DataAtom == atom.Td || n.DataAtom == atom.Th {
		return false // its column is still there
	}
	for d := range n.Descendants() {
		if d.Type == html.TextNode && strings.TrimSpace(d.Data) != "" || d.DataAtom == atom.Img || d.DataAtom == atom.Hr {
			return false
		}
	}
	return true
}

// inline are elements that stand within a line.
var inline = map[atom.Atom]bool{
	atom.A: true, atom.Abbr: true, atom.B: true, atom.Bdi: true, atom.Bdo: true, atom.Big: true, atom.Br: true, atom.Cite: true,
	atom.Code: true, atom.Data: true, atom.Del: true, atom.Dfn: true, atom.Em: true, atom.Font: true, atom.I: true, atom.Img: true,
	atom.Ins: true, atom.Kbd: true, atom.Label: true, atom.Mark: true, atom.Q: true, atom.S: true, atom.Samp: true, atom.Small: true,
	atom.Span: true, atom.Strike: true, atom.Strong: true, atom.Sub: true, atom.Sup: true, atom.Time: true, atom.Tt: true, atom.U: true,
	atom.Var: true, atom.Wbr: true, atom.Button: true,
}

func isInline(n *html.Node) bool {
	if n.Type != html.ElementNode {
		return true
	}
	if !inline[n.DataAtom] && n.DataAtom != 0 {
		return false
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if !isInline(c) {
			return false
		}
	}
	return true
}

// blocksOf lists the blocks with text below root, in document order.
func blocksOf(root *html.Node) []*block {
	var out []*block
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		var run []*html.Node
		flush := func() {
			if b := newBlock(run); b.text != "" {
				out = append(out, b)
			}
			run = nil
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			switch {
			case c.Type != html.TextNode && c.Type != html.ElementNode, isSilent([]byte(c.Data)) && c.Type == html.ElementNode:
			case n.DataAtom == atom.Pre || isInline(c):
				run = append(run, c)
			default:
				flush()
				walk(c)
			}
		}
		flush()
	}
	walk(root)
	return out
}

func newBlock(nodes []*html.Node) *block {
	b := &block{nodes: nodes}
	var text, links strings.Builder
	var walk func(*html.Node, bool)
	walk = func(n *html.Node, link bool) {
		if n.Type == html.TextNode {
			text.WriteString(n.Data)
			if link {
				links.WriteString(n.Data)
			}
		}
		if n.DataAtom == atom.Br {
			text.WriteByte(' ')
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, link || n.DataAtom == atom.A)
		}
	}
	for _, n := range nodes {
		walk(n, within(n, atom.A))
	}
	b.text = strings.Join(strings.Fields(text.String()), " ")
	b.links = len(strings.Join(strings.Fields(links.String()), " "))
	return b
}

// shouts reports whether a text of several words is in capitals.
func shouts(text string) bool {
	upper, lower := 0, 0
	for _, r := range text {
		if unicode.IsUpper(r) {
			upper++
		} else if unicode.IsLower(r) {
			lower++
		}
	}
	return len(strings.Fields(text)) >= 4 && upper > 9*lower
}
