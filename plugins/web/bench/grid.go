package main

import (
	"strconv"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxSpan is the largest span that is laid out; the cases have small ones.
const maxSpan = 50

// layOut gives each place of a table a cell of its own, empty where a cell of
// another place spans it or its row is short: what a reader sees, and the one way
// in which Markdown, which has no spans, can write it.
func layOut(table *html.Node) {
	var rows [][]*html.Node // the cells by their places; nil = not yet taken
	var lines []*html.Node
	for n := range table.Descendants() {
		if n.DataAtom == atom.Tr && tableOf(n) == table {
			lines = append(lines, n)
		}
	}
	rows = make([][]*html.Node, len(lines))
	place := func(row, column int, cell *html.Node) {
		for len(rows[row]) <= column {
			rows[row] = append(rows[row], nil)
		}
		rows[row][column] = cell
	}
	widest := 0
	for y, line := range lines {
		x := 0
		for c := line.FirstChild; c != nil; c = c.NextSibling {
			if c.DataAtom != atom.Td && c.DataAtom != atom.Th {
				continue
			}
			for x < len(rows[y]) && rows[y][x] != nil {
				x++
			}
			for dy := range min(spanOf(c, "rowspan"), len(lines)-y) {
				for dx := range spanOf(c, "colspan") {
					if dy == 0 && dx == 0 {
						place(y, x, c)
					} else {
						place(y+dy, x+dx, emptyCell())
					}
				}
			}
		}
		widest = max(widest, len(rows[y]))
	}
	for y, line := range lines {
		for c := line.FirstChild; c != nil; c = line.FirstChild {
			line.RemoveChild(c)
		}
		for x := range widest {
			if x >= len(rows[y]) || rows[y][x] == nil {
				line.AppendChild(emptyCell())
			} else {
				line.AppendChild(rows[y][x])
			}
		}
	}
}

func tableOf(n *html.Node) *html.Node {
	for n = n.Parent; n != nil && n.DataAtom != atom.Table; n = n.Parent {
	}
	return n
}

func emptyCell() *html.Node { return &html.Node{Type: html.ElementNode, Data: "td", DataAtom: atom.Td} }

func spanOf(n *html.Node, name string) int {
	for _, a := range n.Attr {
		if v, err := strconv.Atoi(a.Val); a.Key == name && err == nil {
			return min(max(v, 1), maxSpan)
		}
	}
	return 1
}
