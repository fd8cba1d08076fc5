package search

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// matcher finds lines. Regular expressions are RE2, linear in the length of a line.
type matcher struct {
	re      *regexp.Regexp // nil: literal alone decides
	literal []byte         // every match holds it; empty = none is known
	fold    bool           // in any case; literal is in lower case, and ASCII
	spoiled bool           // re may match a line end, so lines are looked at one by one
}

func newMatcher(pattern string, literal, ignoreCase bool) (*matcher, error) {
	if pattern == "" {
		return nil, fmt.Errorf("the pattern is empty")
	}
	if len(pattern) > 4096 {
		return nil, fmt.Errorf("the pattern is longer than 4096 bytes")
	}
	if literal {
		if !ignoreCase {
			return &matcher{literal: []byte(pattern)}, nil
		}
		pattern = regexp.QuoteMeta(pattern)
	}
	flags := "(?m)"
	if ignoreCase {
		flags = "(?mi)"
	}
	re, err := regexp.Compile(flags + pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern is no regular expression (RE2 syntax): %w", err)
	}
	m := &matcher{re: re}
	tree, err := syntax.Parse(flags+pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	exact, folded := required(tree.Simplify())
	if m.literal = []byte(exact); len(folded) > len(exact) && len(exact) < 3 {
		m.literal, m.fold = []byte(folded), true
	}
	if tree.Op == syntax.OpLiteral && tree.Flags&syntax.FoldCase == 0 && !bytes.ContainsRune(m.literal, '\n') {
		m.re = nil
	}
	m.spoiled = crosses(tree)
	return m, nil
}

// required are the longest texts that every match holds: one as it is, and one in
// any case of its letters.
func required(t *syntax.Regexp) (exact, folded string) {
	switch t.Op {
	case syntax.OpLiteral:
		if t.Flags&syntax.FoldCase == 0 {
			return string(t.Rune), ""
		}
		return "", foldable(string(t.Rune))
	case syntax.OpCapture, syntax.OpPlus:
		return required(t.Sub[0])
	case syntax.OpRepeat:
		if t.Min > 0 {
			return required(t.Sub[0])
		}
	case syntax.OpConcat:
		for _, s := range t.Sub {
			e, f := required(s)
			if len(e) > len(exact) {
				exact = e
			}
			if len(f) > len(folded) {
				folded = f
			}
		}
	}
	return exact, folded
}

// foldable is the longest part of a text of which lower case is all there is to know:
// k and s have relatives outside of ASCII.
func foldable(text string) (best string) {
	text = strings.ToLower(text)
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r > 127 || r == 'k' || r == 's' }) {
		if len(part) > len(best) {
			best = part
		}
	}
	return best
}

// lower gives text with A to Z in lower case, in the room of low where it is enough.
func lower(text, low []byte) []byte {
	if cap(low) < len(text) {
		low = make([]byte, len(text))
	}
	low = low[:len(text)]
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		low[i] = c
	}
	return low
}

// crosses says whether an expression may match a line end.
func crosses(t *syntax.Regexp) bool {
	switch t.Op {
	case syntax.OpAnyChar, syntax.OpBeginText, syntax.OpEndText, syntax.OpEndLine: // the last, since a line may end in CR LF
		return true
	case syntax.OpLiteral:
		for _, r := range t.Rune {
			if r == '\n' {
				return true
			}
		}
	case syntax.OpCharClass:
		for i := 0; i+1 < len(t.Rune); i += 2 {
			if t.Rune[i] <= '\n' && '\n' <= t.Rune[i+1] {
				return true
			}
		}
	}
	for _, s := range t.Sub {
		if crosses(s) {
			return true
		}
	}
	return false
}

// next finds the first matching line of text from the start of a line on: the ends of
// the line, without its line end, and where in it the match begins. start < 0 = none.
// low is the text in lower case where fold is set.
func (m *matcher) next(text, low []byte, from int) (start, end, at int) {
	if !m.fold {
		low = text
	}
	for from < len(text) {
		hit := from
		if len(m.literal) > 0 {
			i := bytes.Index(low[from:], m.literal)
			if i < 0 {
				return -1, 0, 0
			}
			hit = from + i
		}
		if m.re != nil && len(m.literal) == 0 && !m.spoiled {
			loc := m.re.FindIndex(text[from:])
			if loc == nil {
				return -1, 0, 0
			}
			hit = from + loc[0]
			if hit == len(text) {
				return -1, 0, 0 // after the last line end is no line
			}
		}
		start = bytes.LastIndexByte(text[:hit], '\n') + 1
		end = len(text)
		if i := bytes.IndexByte(text[hit:], '\n'); i >= 0 {
			end = hit + i
		}
		line := bytes.TrimSuffix(text[start:end], []byte("\r"))
		if m.re == nil {
			return start, start + len(line), hit - start
		}
		if loc := m.re.FindIndex(line); loc != nil {
			return start, start + len(line), loc[0]
		}
		from = end + 1
	}
	return -1, 0, 0
}
