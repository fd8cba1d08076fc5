package web

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Elements that stand for footnotes until they are written.
const noteRef, noteText = "x-note-ref", "x-note-text"

var (
	noteLabel = regexp.MustCompile(`^[\pL\pN_-]{1,20}$`)
	backward  = regexp.MustCompile(`(?i)(backref|backlink|back-link|doc-backlink)`)
)

// maxNote is the longest footnote, in bytes.
const maxNote = 2000

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
		if note == nil || isBelow(a, note) || note.Parent == nil || len(textUpTo(note, maxNote+1)) > maxNote {
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
