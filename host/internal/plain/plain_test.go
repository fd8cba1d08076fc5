package plain

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain, größer, 日本語, 👩‍💻, שלום\n\tindented": "plain, größer, 日本語, 👩‍💻, שלום\n\tindented",
		"\x1b[2Jgone":     `\u001b[2Jgone`,
		"a\rb\x00\x7f":    `a\u000db\u0000\u007f`,
		"csi \u009b31m":   `csi \u009b31m`,
		"ok \u202egnp.x":  `ok \u202egnp.x`,
		"\u2066x\u2069":   `\u2066x\u2069`,
		"a\u200bb\ufeff":  `a\u200bb\ufeff`,
		"\u2028":          `\u2028`,
		"\xff\xfe":        `\xff\xfe`,
		"tag \U000e0041":  `tag \U000e0041`,
		"a real \ufffd":   "a real \ufffd",
		"\u061c\u200e":    `\u061c\u200e`,
		"link \x1b]8;;x:": `link \u001b]8;;x:`,
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := Line("a\nb\tc\x1b"); got != `a\nb\tc\u001b` {
		t.Errorf("a line: %q", got)
	}
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	if n, err := fmt.Fprintf(Writer(&b), "%s\n", "x\x1b[31m"); err != nil || n != 7 {
		t.Errorf("%d %v", n, err)
	}
	if b.String() != "x\\u001b[31m\n" {
		t.Errorf("%q", b.String())
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("\x1b[31m\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{Escape(s), Line(s), Dots(s)} {
			if !utf8.ValidString(out) || strings.ContainsFunc(out, Bad) {
				t.Errorf("%q stays bad: %q", s, out)
			}
		}
		if again := Escape(Escape(s)); again != Escape(s) {
			t.Errorf("%q", again)
		}
	})
}
