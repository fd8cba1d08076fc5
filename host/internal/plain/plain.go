// Package plain makes text from outside safe to show: a plugin, a server or a file
// may name things in characters that move the cursor, change colours, turn the
// direction of writing or can't be seen, to pass for something else.
package plain

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bad reports whether a character must not reach a terminal as it is. Line feed and
// tab may; the joiners that scripts and emoji need may too.
func Bad(r rune) bool {
	switch r {
	case '\n', '\t', '\u200c', '\u200d':
		return false
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) || r >= 0xe0100 && r <= 0xe01ef
}

// Escape shows bad characters as \u001b, and broken UTF-8 as \xff.
func Escape(s string) string {
	clean := func(r rune) bool { return r == utf8.RuneError || Bad(r) }
	if strings.IndexFunc(s, clean) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case Bad(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case Bad(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// Line is Escape for what must stay on one line and in its column.
func Line(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Escape(s))
}

// Dots puts one dot for each bad character, where columns count.
func Dots(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || Bad(r) {
			return '·'
		}
		return r
	}, s)
}

// Writer escapes all that is written to w. Every write must hold whole characters.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ to io.Writer }

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Escape(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
