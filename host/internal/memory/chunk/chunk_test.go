package chunk

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestHeadingsMakeChunks(t *testing.T) {
	text := "intro\n\n# One\nfirst\n\n## Two ##\nsecond\n#### four is text\n### Three\n# Last\n"
	got := Split(text, 100)
	want := []Chunk{
		{"", 0, "intro"},
		{"One", 1, "# One\nfirst"},
		{"Two", 2, "## Two ##\nsecond\n#### four is text"},
		{"Three", 3, "### Three"},
		{"Last", 1, "# Last"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d chunks: %+v", len(got), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("chunk %d = %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestCodeBlocksHoldNoHeadings(t *testing.T) {
	text := "# A\n```sh\n# a comment\n\n~~~\n```\nafter\n~~~~\n# still code\n~~~\n# and here\n~~~~\n# B\nend"
	got := Split(text, 1000)
	if len(got) != 2 || got[0].Heading != "A" || got[1].Heading != "B" || !strings.Contains(got[0].Text, "# and here") {
		t.Fatalf("%+v", got)
	}
	// A code block is kept in one piece when it fits.
	code := "```\nline one\n\nline two\n```"
	got = Split("some words before it\n\n"+code+"\n\nsome words after", 30)
	if len(got) != 3 || got[1].Text != code {
		t.Fatalf("%+v", got)
	}
}

func TestLongSectionsContinue(t *testing.T) {
	got := Split("# H\n"+strings.Repeat("word ", 10)+"\n\n"+strings.Repeat("more ", 10), 60)
	if len(got) != 2 || got[0].Heading != "H" || got[1].Heading != "H (continued 1)" || got[1].Level != 1 {
		t.Fatalf("%+v", got)
	}
}

func TestLimitsCountCharacters(t *testing.T) {
	got := Split(strings.Repeat("ä", 100), 100)
	if len(got) != 1 {
		t.Fatalf("100 characters do not fit into 100: %d chunks", len(got))
	}
	got = Split(strings.Repeat("€", 101), 100)
	if len(got) != 2 || utf8.RuneCountInString(got[0].Text) != 100 {
		t.Fatalf("%d chunks", len(got))
	}
}

func TestEmptyTextIsOneEmptyChunk(t *testing.T) {
	for _, text := range []string{"", "\n\n", "   "} {
		if got := Split(text, 10); len(got) != 1 || got[0].Text != "" {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestHundredsOfSectionsShareChunks(t *testing.T) {
	var b strings.Builder
	for range 2000 {
		b.WriteString("# H\ntext\n")
	}
	got := Split(b.String(), 1000)
	if len(got) > 30 {
		t.Errorf("%d chunks", len(got))
	}
	check(t, b.String(), 1000)
}

func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// check holds for every text: nothing but blanks is lost, nothing is repeated,
// and no chunk is longer than allowed.
func check(t *testing.T, text string, max int) {
	t.Helper()
	var joined strings.Builder
	for i, c := range Split(text, max) {
		joined.WriteString(c.Text + "\n") // bytes that are no text must not join up
		if n := utf8.RuneCountInString(c.Text); n > max {
			t.Fatalf("chunk %d has %d characters, at most %d", i, n, max)
		}
		if utf8.ValidString(text) && !utf8.ValidString(c.Text) {
			t.Fatalf("chunk %d was cut inside a character", i)
		}
	}
	if squeeze(joined.String()) != squeeze(text) {
		t.Fatalf("content changed:\n%q\n%q", text, joined.String())
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("# A\n\ntext\n\n```\n# no\n```\n## B\r\n\r\nmore €uro", 5)
	f.Add("~~~\nopen for ever\n# x\n\n\n", 3)
	f.Add("#\n# \n#\t#\n### a ###\n", 1)
	f.Add(strings.Repeat("längs ", 50)+"\n\n\n"+strings.Repeat("日本", 40), 7)
	f.Add("\xff\xfe# \x80\n\n\xf0\x9f\x98", 2)
	f.Fuzz(func(t *testing.T, text string, max int) {
		if max < 1 || max > 1000 || len(text) > 20000 {
			return
		}
		check(t, text, max)
	})
}
