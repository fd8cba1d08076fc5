package web

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// unwritten are elements that the converter leaves out, beside comments.
var unwritten = map[atom.Atom]bool{
	atom.Head: true, atom.Script: true, atom.Style: true, atom.Link: true, atom.Meta: true,
	atom.Iframe: true, atom.Noscript: true, atom.Input: true, atom.Textarea: true,
}

// mergeTexts takes out what is not written and makes one text of those that are
// then neighbours. The converter would do the same in the square of their number.
func mergeTexts(root *html.Node) {
	for c := root.FirstChild; c != nil; {
		next := c.NextSibling
		switch {
		case c.Type == html.CommentNode, c.Type == html.ElementNode && unwritten[c.DataAtom]:
			root.RemoveChild(c)
		case c.Type == html.ElementNode:
			mergeTexts(c)
		}
		c = next
	}
	for c := root.FirstChild; c != nil; c = c.NextSibling {
		if c.Type != html.TextNode || c.NextSibling == nil || c.NextSibling.Type != html.TextNode {
			continue
		}
		var all strings.Builder
		all.WriteString(c.Data)
		for n := c.NextSibling; n != nil && n.Type == html.TextNode; n = c.NextSibling {
			all.WriteString(n.Data)
			root.RemoveChild(n)
		}
		c.Data = all.String()
	}
}
