package document

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf16"
)

func utf16bytes(mark string, big bool, text string) []byte {
	out := []byte(mark)
	for _, u := range utf16.Encode([]rune(text)) {
		if big {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return out
}

func TestBytesComeBackAsTheyWere(t *testing.T) {
	for name, raw := range map[string][]byte{
		"empty": {}, "plain": []byte("grün\n𝄞\r\nx"), "marked": []byte("\xef\xbb\xbfx\n"), "only a mark": []byte("\xef\xbb\xbf"),
		"UTF-16 LE": utf16bytes("\xff\xfe", false, "grün 𝄞\r\n"), "UTF-16 BE": utf16bytes("\xfe\xff", true, "grün 𝄞\r\n"),
	} {
		d, err := Decode(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if back, err := d.Encode(d.Text); err != nil || !bytes.Equal(back, raw) {
			t.Errorf("%s: %q became %q, %v", name, raw, back, err)
		}
		if strings.ContainsRune(d.Text, '\ufeff') {
			t.Errorf("%s: the mark is in the text", name)
		}
	}
}

func TestWhatIsNoTextIsRefused(t *testing.T) {
	for name, raw := range map[string][]byte{
		"a NUL": []byte("a\x00b"), "Latin-1": []byte("gr\xfcn"), "cut UTF-8": []byte("gr\xc3"), "half a unit": []byte("\xff\xfea"),
		"a lone surrogate": []byte("\xff\xfe\x00\xd8a\x00"), "NUL in UTF-16": utf16bytes("\xff\xfe", false, "a\x00"), "PNG": []byte("\x89PNG\r\n\x1a\n\x00\x00"),
	} {
		if d, err := Decode(raw); !errors.Is(err, ErrBinary) {
			t.Errorf("%s: %q, %v", name, d.Text, err)
		}
	}
	if _, err := (Document{}).Encode("\xff"); err == nil {
		t.Error("invalid UTF-8 can be written")
	}
}

func TestPagesAreWholeLinesAndCoverTheText(t *testing.T) {
	texts := []string{"", "\n", "a", "a\n", "a\nb", "a\r\nb\r\n", strings.Repeat("grün\n", 100), "short\n" + strings.Repeat("x", 50) + "\nend"}
	for _, text := range texts {
		for budget := 1; budget < 60; budget += 7 {
			var all strings.Builder
			cut := false
			for at := 1; at != 0; {
				p, err := PageOf(text, at, 0, budget)
				if err != nil {
					t.Fatalf("%q from %d: %v", text, at, err)
				}
				if !p.Cut && p.Next() != 0 && !strings.HasSuffix(p.Text, "\n") {
					t.Fatalf("%q: the page %q ends inside a line", text, p.Text)
				}
				if n := len([]rune(p.Text)); n > budget {
					t.Fatalf("%q: a page of %d characters, at most %d", text, n, budget)
				}
				cut = cut || p.Cut
				all.WriteString(p.Text)
				at = p.Next()
			}
			if !cut && all.String() != text {
				t.Errorf("pages of %d: %q became %q", budget, text, all.String())
			}
		}
	}
	if _, err := PageOf("a\nb\n", 3, 0, 100); err == nil {
		t.Error("a page past the end is none")
	}
	if p, err := PageOf("a\nb\nc\n", 2, 1, 100); err != nil || p.Text != "b\n" || p.Next() != 3 || p.Whole || p.Budget {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := PageOf("", 1, 0, 10); err != nil || !p.Whole {
		t.Errorf("an empty file: %+v, %v", p, err)
	}
}

func TestReplace(t *testing.T) {
	for name, c := range map[string]struct {
		text, old, new string
		all            bool
		want           string
		n              int
	}{
		"the only place":         {"a b c", "b", "x", false, "a x c", 1},
		"nothing":                {"a b c", " b", "", false, "a c", 1},
		"all places":             {"aXbXc", "X", "--", true, "a--b--c", 2},
		"none inside another":    {"aaaa", "aa", "b", true, "bb", 2},
		"LF asked, CRLF there":   {"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", false, "x\r\ny\r\nz\r\nc\r\n", 1},
		"CRLF asked, LF there":   {"a\nb\nc\n", "a\r\nb", "x\r\ny", false, "x\ny\nc\n", 1},
		"a line among CRLF":      {"a\r\nb\r\n", "b", "x\ny", false, "a\r\nx\r\ny\r\n", 1},
		"new text that has old":  {"ab", "ab", "abab", true, "abab", 1},
		"old and new are as one": {"ab", "b", "b", false, "ab", 1},
	} {
		if got, n, err := Replace(c.text, c.old, c.new, c.all); err != nil || got != c.want || n != c.n {
			t.Errorf("%s: %q, %d, %v", name, got, n, err)
		}
	}
}

func TestReplaceSaysWhyNot(t *testing.T) {
	_, _, err := Replace("x\nx\nyx", "x", "z", false)
	var many *AmbiguousError
	if !errors.As(err, &many) || len(many.Lines) != 3 || many.Lines[2] != 3 || !strings.Contains(err.Error(), "1, 2, 3") {
		t.Errorf("%v", err)
	}
	text := "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"hello, world\")\n}\n"
	_, _, err = Replace(text, "func main() {\n\tfmt.Print(\"hello world\")\n}", "", false)
	var none *NotFoundError
	if !errors.As(err, &none) || !strings.Contains(none.Near, `Println("hello, world")`) || none.First != 3 {
		t.Errorf("%v", err)
	}
	if _, _, err = Replace(text, "zzz qqq 12345", "", false); !errors.As(err, &none) || none.Near != "" {
		t.Errorf("%v", err)
	}
	if _, _, err = Replace(text, "", "x", false); err == nil {
		t.Error("nothing was replaced")
	}
	if _, _, err = Replace(strings.Repeat("one long line ", 1<<18), "one short line", "x", false); !errors.As(err, &none) || len(none.Near) > 2000 {
		t.Errorf("%.100v", err)
	}
}

func FuzzReplace(f *testing.F) {
	f.Add("a\r\nb\n", "a\nb", "c\n", true)
	f.Add("xx", "x", "xx", false)
	f.Fuzz(func(t *testing.T, text, old, new string, all bool) {
		got, n, err := Replace(text, old, new, all)
		if err != nil {
			return
		}
		if n < 1 || (!all && n != 1) {
			t.Errorf("%d places", n)
		}
		// Only line ends of what was put in may differ from a plain replacement.
		want := strings.ReplaceAll(WithLineEnd(text, "\n"), WithLineEnd(old, "\n"), WithLineEnd(new, "\n"))
		if strings.Count(text, old) == n && WithLineEnd(got, "\n") != want && !strings.Contains(text+old+new, "\r") {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\xff\xfea\x00"))
	f.Add([]byte("grün"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := Decode(raw)
		if err != nil {
			return
		}
		if back, err := d.Encode(d.Text); err != nil || !bytes.Equal(back, raw) {
			t.Errorf("%q became %q, %v", raw, back, err)
		}
	})
}
