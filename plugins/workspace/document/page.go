package document

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Page is a run of whole lines of a text. Lines count from 1.
type Page struct {
	Text        string
	First, Last int
	Total       int  // lines of the text
	Whole       bool // the page is the whole text
	Cut         bool // its only line is longer than a page, and goes on
	Budget      bool // it ends because it is full, not because no more was wanted
}

// Next is the line the following page begins with; 0 at the end of the text.
func (p Page) Next() int {
	if p.Last >= p.Total {
		return 0
	}
	return p.Last + 1
}

// Lines counts the lines of a text; what follows the last line end is one if it is
// not empty.
func Lines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// PageOf gives the lines of text from offset on (0 = from the start): at most limit
// (0 = any number) and at most budget characters, but never part of a line unless
// one line alone is longer. It is an error when the text ends before offset.
func PageOf(text string, offset, limit, budget int) (Page, error) {
	p := Page{First: max(offset, 1), Total: Lines(text)}
	if p.First > p.Total && (p.Total > 0 || offset > 1) {
		return p, fmt.Errorf("the file has %d lines; line %d is past its end", p.Total, p.First)
	}
	rest := text
	for range p.First - 1 {
		rest = rest[strings.IndexByte(rest, '\n')+1:]
	}
	p.Last = p.First - 1
	size, chars := 0, 0
	for size < len(rest) && (limit == 0 || p.Last-p.First+1 < limit) {
		line := rest[size:]
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		n := utf8.RuneCountInString(line)
		if chars+n > budget {
			p.Budget = true
			if size == 0 {
				p.Text, p.Cut, p.Last = firstChars(line, budget), true, p.First
				return p, nil
			}
			break
		}
		size, chars = size+len(line), chars+n
		p.Last++
	}
	p.Text = rest[:size]
	p.Whole = len(p.Text) == len(text)
	return p, nil
}

func firstChars(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
