package memory

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/memory/chunk"
)

// Chunked says how a long text is to be stored.
type Chunked struct {
	Subject  string // what it is, as the reply begins: "Tool result for 'web_browse'"
	KeyBase  string // without namespace: tool-NAME-xxxxxxxx
	Text     string
	Max      int // characters a chunk
	TTL      time.Duration
	Category string
}

// Store puts a long text aside in chunks, with an outline under KeyBase-index,
// and gives the text that stands in for it. All chunks are stored, or none and
// the error says why.
func (m *Memory) Store(namespace string, c Chunked) (reply string, keys []string, err error) {
	pieces := chunk.Split(c.Text, c.Max)
	undo := func() {
		for _, k := range keys {
			_, _ = m.Delete(namespace, k, nil) // best effort; they expire anyway
		}
	}
	for i, p := range pieces {
		key, err := m.put(namespace, Item{Key: fmt.Sprintf("%s-chunk%d", c.KeyBase, i), Value: []byte(p.Text), TTL: c.TTL, Category: c.Category}, true)
		if err != nil {
			undo()
			return "", nil, refused(err, c, len(pieces))
		}
		keys = append(keys, key)
	}
	index, err := m.put(namespace, Item{Key: c.KeyBase + "-index", Value: []byte(outline(pieces, keys)), TTL: c.TTL, Category: c.Category}, true)
	if err != nil {
		undo()
		return "", nil, refused(err, c, len(pieces))
	}
	return table(c, pieces, keys, index), append(keys, index), nil
}

func refused(err error, c Chunked, n int) error {
	f := fault.From(err)
	return fault.New(f.Ref, "%s is %d characters in %d chunks and could not be stored: %w", c.Subject, utf8.RuneCountInString(c.Text), n, err)
}

// outline nests the headings with their keys.
func outline(pieces []chunk.Chunk, keys []string) string {
	var b strings.Builder
	b.WriteString("## Document Outline\n\n")
	top := 0
	for _, p := range pieces {
		if p.Level > 0 && (top == 0 || p.Level < top) {
			top = p.Level
		}
	}
	for i, p := range pieces {
		indent := 0
		if p.Level > top {
			indent = p.Level - top
		}
		fmt.Fprintf(&b, "%s- **%s** → `%s`\n", strings.Repeat("  ", indent), title(p, i), keys[i])
	}
	return b.String()
}

// table is what the reader gets instead of the text.
func table(c Chunked, pieces []chunk.Chunk, keys []string, index string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is large (%s chars) and has been split into %d chunk(s) stored in working memory.\n", c.Subject, grouped(utf8.RuneCountInString(c.Text)), len(pieces))
	fmt.Fprintf(&b, "A document outline is stored at key `%s`; get_from_working_memory reads it, to find the way by headings.\n", index)
	b.WriteString("Call get_from_working_memory(key) for each relevant chunk BEFORE drawing conclusions.\n\n")
	b.WriteString("| # | Heading | Key |\n|---|---------|-----|\n")
	const most = 200 // rows; the outline has them all
	for i, p := range pieces {
		if i == most {
			fmt.Fprintf(&b, "\n%d more chunks, up to `%s`, stand in the outline.\n", len(pieces)-most, keys[len(keys)-1])
			break
		}
		fmt.Fprintf(&b, "| %d | %s | `%s` |\n", i, strings.ReplaceAll(title(p, i), "|", `\|`), keys[i])
	}
	return b.String()
}

func title(p chunk.Chunk, i int) string {
	t := strings.Join(strings.Fields(p.Heading), " ")
	if t == "" {
		return fmt.Sprintf("Part %d", i)
	}
	if r := []rune(t); len(r) > 120 {
		t = string(r[:120]) + "…"
	}
	return t
}

// grouped writes 462000 as "462 000".
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// KeyBase is the key for the chunks of a tool's result: the tool's name with
// what a key can't have replaced, and the first 8 hexadecimal digits of the
// call id.
func KeyBase(tool, callID string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, tool)
	return fmt.Sprintf("tool-%s-%s", name[:min(40, len(name))], firstHex(callID))
}

func firstHex(id string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(id) {
		if (r >= '0' && r <= '9' || r >= 'a' && r <= 'f') && b.Len() < 8 {
			b.WriteRune(r)
		}
	}
	for b.Len() < 8 {
		b.WriteByte('0')
	}
	return b.String()
}

// Truncate is what becomes of a long text without a session to put it into.
func Truncate(text string, threshold int) string {
	runes := 0
	for i := range text {
		if runes == threshold {
			return fmt.Sprintf("%s\n[result truncated — %d chars omitted]", text[:i], utf8.RuneCountInString(text[i:]))
		}
		runes++
	}
	return text
}
