package chunk

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Chunk is one piece of a text. Text begins with the heading's own line when
// the piece is the first under it.
type Chunk struct {
	Heading string // the heading's words; "(continued n)" is added to later pieces
	Level   int    // 1 to 3, 0 without a heading
	Text    string
}

// Split cuts text into chunks of at most max characters (64,000 when max is not
// positive). An empty text gives one empty chunk.
func Split(text string, max int) []Chunk {
	if max <= 0 {
		max = 64000
	}
	var out []Chunk
	for _, s := range sections(text) {
		if strings.TrimSpace(s.Text) == "" {
			continue
		}
		for n, piece := range fit(strings.Trim(s.Text, "\n"), max) {
			heading := s.Heading
			if n > 0 {
				heading = strings.TrimSpace(fmt.Sprintf("%s (continued %d)", heading, n))
				if s.Level == 0 {
					heading = ""
				}
			}
			out = append(out, Chunk{Heading: heading, Level: s.Level, Text: piece})
		}
	}
	if len(out) == 0 {
		return []Chunk{{}}
	}
	if len(out) > manySections {
		out = pack(out, max)
	}
	return out
}

// manySections is from how many chunks on small neighbours share one: fetching
// hundreds of crumbs is no way to read.
const manySections = 200

func pack(in []Chunk, max int) []Chunk {
	var out []Chunk
	length := 0
	for _, c := range in {
		n := utf8.RuneCountInString(c.Text)
		if len(out) > 0 && length+1+n <= max {
			last := &out[len(out)-1]
			last.Text += "\n" + c.Text
			length += 1 + n
			continue
		}
		out = append(out, c)
		length = n
	}
	return out
}

// sections parts a text at its headings of levels 1 to 3. A heading without a
// body stays with its section, so that no words are lost.
func sections(text string) []Chunk {
	var out []Chunk
	var fence fence
	current := Chunk{}
	start := 0
	for at, line := range lines(text) {
		if !fence.line(line) {
			if level, words := heading(line); level > 0 {
				current.Text = text[start:at]
				out = append(out, current)
				current, start = Chunk{Heading: words, Level: level}, at
			}
		}
	}
	current.Text = text[start:]
	return append(out, current)
}

// lines walks over a text's lines with their offsets, ends of line included.
func lines(text string) func(func(int, string) bool) {
	return func(yield func(int, string) bool) {
		for at := 0; at < len(text); {
			end := len(text)
			if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
				end = at + n + 1
			}
			if !yield(at, text[at:end]) {
				return
			}
			at = end
		}
	}
}

func heading(line string) (level int, words string) {
	for level < len(line) && line[level] == '#' {
		level++
	}
	if level == 0 || level > 3 || level == len(line) || (line[level] != ' ' && line[level] != '\t') {
		return 0, ""
	}
	words = strings.TrimSpace(line[level:])
	if plain := strings.TrimRight(words, "#"); plain != words && (plain == "" || strings.HasSuffix(plain, " ")) {
		words = strings.TrimSpace(plain) // closing marks
	}
	return level, words
}

// fence follows code blocks line by line.
type fence struct{ open string }

// line takes in a line and tells whether it belongs to a code block.
func (f *fence) line(line string) bool {
	indent := 0
	for indent < len(line) && line[indent] == ' ' {
		indent++
	}
	rest := strings.TrimRight(line[indent:], " \t\r\n")
	marks := ""
	for _, mark := range []string{"`", "~"} {
		if n := len(rest) - len(strings.TrimLeft(rest, mark)); n >= 3 {
			marks = rest[:n]
		}
	}
	inside := f.open != ""
	switch {
	case indent > 3 || marks == "":
	case !inside && !(marks[0] == '`' && strings.Contains(rest[len(marks):], "`")):
		f.open = marks
		return true
	case inside && marks[0] == f.open[0] && len(marks) >= len(f.open) && rest == marks:
		f.open = ""
	}
	return inside
}

// fit parts a section into pieces of at most max characters, at blank lines
// outside code blocks where it can.
func fit(text string, max int) []string {
	if utf8.RuneCountInString(text) <= max {
		return []string{text}
	}
	var out []string
	var piece strings.Builder
	length := 0
	flush := func() {
		if p := strings.Trim(piece.String(), "\n"); strings.TrimSpace(p) != "" {
			out = append(out, p)
		}
		piece.Reset()
		length = 0
	}
	for _, p := range paragraphs(text) {
		n := utf8.RuneCountInString(p)
		// Blank lines at the end of a piece go, so they do not count.
		if bare := utf8.RuneCountInString(strings.TrimRight(p, "\n")); length+bare > max {
			flush()
			if bare > max {
				out = append(out, hard(strings.TrimRight(p, "\n"), max)...)
				continue
			}
		}
		piece.WriteString(p)
		length += n
	}
	flush()
	return out
}

// paragraphs parts a text after its blank lines, code blocks kept whole.
func paragraphs(text string) []string {
	var out []string
	var fence fence
	start, blank := 0, false
	for at, line := range lines(text) {
		inside := fence.line(line)
		empty := !inside && strings.TrimSpace(line) == ""
		if blank && !empty {
			out = append(out, text[start:at])
			start = at
		}
		blank = empty
	}
	return append(out, text[start:])
}

// hard parts a text after max characters, or at the last end of line in the
// second half before that.
func hard(text string, max int) []string {
	var out []string
	for text != "" {
		end, n, newline := 0, 0, 0
		for end < len(text) && n < max {
			_, size := utf8.DecodeRuneInString(text[end:])
			end += size
			n++
			if text[end-1] == '\n' && n > max/2 {
				newline = end
			}
		}
		if end < len(text) && newline > 0 {
			end = newline
		}
		piece := text[:end]
		text = text[end:]
		if strings.TrimSpace(piece) != "" {
			out = append(out, piece)
		}
	}
	return out
}
