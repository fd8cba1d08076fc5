package htmltree

import (
	"errors"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// maxSource, in bytes, and maxTags are the largest page of which a tree is made.
	maxSource = 16 << 20
	maxTags   = 400_000
	// maxRepeated is how many elements the parser may make by itself.
	maxRepeated = 1_000_000
	// maxWeight bounds the tree: see weight.
	maxWeight = 500_000_000
	// maxName is the longest class or id, in bytes; what is beyond is cut off.
	maxName = 1000
	// textNode is how many bytes of text or attributes weigh as much as one node.
	textNode = 64
)

// ErrTooLarge is a page of which no tree is made. Pages for people come nowhere near.
var ErrTooLarge = errors.New("the page is too large or too deep to be laid out")

// Parse makes the tree of a page, in UTF-8. It fails with ErrTooLarge, or with the
// parser's own error for a page that is nested too deeply even for it.
func Parse(source string) (*html.Node, error) {
	if len(source) > maxSource || strings.Count(source, "<") > maxTags || repeated(source) > maxRepeated {
		return nil, ErrTooLarge
	}
	root, err := html.Parse(strings.NewReader(source))
	if err != nil {
		return nil, err
	}
	if weight(root) > maxWeight {
		return nil, ErrTooLarge
	}
	return root, nil
}

// weight is the sum of the squares of the nodes' depths; it cuts names on its way. Walking below each node
// takes the sum of the depths; writing each line with a prefix for each element
// around it, and doing so in each of these, takes that of the squares.
func weight(root *html.Node) int {
	sum, depth := 0, 1
	n := root
	for {
		size := len(n.Data)
		for i, a := range n.Attr {
			if len(a.Val) > maxName && (a.Key == "class" || a.Key == "id") {
				n.Attr[i].Val = strings.ToValidUTF8(a.Val[:maxName], "")
			}
			size += len(a.Key) + len(a.Val)
		}
		if sum += depth * depth * (1 + size/textNode); sum > maxWeight {
			return sum
		}
		if n.FirstChild != nil {
			n, depth = n.FirstChild, depth+1
			continue
		}
		for n != root && n.NextSibling == nil {
			n, depth = n.Parent, depth-1
		}
		if n == root {
			return sum
		}
		n = n.NextSibling
	}
}

// formatting are the elements that the parser repeats in what follows until they
// are closed.
var formatting = map[atom.Atom]bool{
	atom.A: true, atom.B: true, atom.Big: true, atom.Code: true, atom.Em: true, atom.Font: true, atom.I: true, atom.Nobr: true,
	atom.S: true, atom.Small: true, atom.Strike: true, atom.Strong: true, atom.Tt: true, atom.U: true,
}

// within are elements that, between a formatting element and its end, leave no
// doubt that the end is its own.
var within = map[atom.Atom]bool{
	atom.Br: true, atom.Img: true, atom.Wbr: true, atom.Span: true, atom.Sub: true, atom.Sup: true, atom.Abbr: true, atom.Cite: true,
	atom.Q: true, atom.Kbd: true, atom.Samp: true, atom.Var: true, atom.Time: true, atom.Mark: true, atom.Label: true, 0: true,
}

// repeated tells how many elements the parser would make by itself at most. It
// keeps formatting elements whose end is in doubt for open to the end of the page,
// of those alike at most three, as the parser does, and of links one.
func repeated(source string) int {
	z := html.NewTokenizer(strings.NewReader(source))
	var fresh []string // opened since the last block, as written, the name first
	open := map[string]int{}
	lingering, sum := 0, 0
	linger := func() {
		for _, tag := range fresh {
			most := 3
			if tag == "a" {
				most = 1
			}
			if open[tag] < most {
				open[tag]++
				lingering++
			}
		}
		fresh = fresh[:0]
	}
	for sum <= maxRepeated {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		if kind != html.StartTagToken && kind != html.EndTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		name, _ := z.TagName()
		a := atom.Lookup(name)
		switch {
		case formatting[a] && kind == html.EndTagToken:
			if top := len(fresh) - 1; top >= 0 && nameOf(fresh[top]) == a.String() {
				fresh = fresh[:top]
			}
		case formatting[a]:
			tag := a.String()
			if a != atom.A {
				tag += " " + string(z.Raw())
			}
			if fresh = append(fresh, tag); len(fresh) > 512 {
				linger()
			}
		case within[a]:
		default:
			linger()
			sum += lingering
		}
	}
	return sum
}

func nameOf(tag string) string {
	name, _, _ := strings.Cut(tag, " ")
	return name
}
