package call

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/memory"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const (
	// DefaultThreshold is the length, in characters, from which a text is stored in chunks.
	DefaultThreshold = 64_000
	minChunk         = 20_000
	chunkTTL         = 20 * time.Minute
)

// Shaper keeps results short enough to read: a long text goes to working memory
// in chunks, and the reply says under which keys.
type Shaper struct {
	Memory *memory.Memory
	// Threshold is the limit in characters for a model, by its name; nil: the default.
	Threshold func(model string) int
}

// shape cuts the text of a reply. Structured content, files and errors stay.
func (s *Shaper) shape(c *call, reply *Reply) {
	r := reply.Result
	if c.tool.Unshaped || r.IsError || r.NeedsInput != nil {
		return
	}
	limit, most, ttl, category := DefaultThreshold, minChunk, chunkTTL, "tool-result"
	if s.Threshold != nil && c.Agent != nil {
		limit = s.Threshold(c.Agent.Model)
	}
	most = max(limit, minChunk)
	base := "tool-" + clip(c.tool.Name, 40) + "-" + c.id[:8]
	if hint := r.Chunk; hint != nil {
		if hint.Threshold > 0 {
			limit = int(min(hint.Threshold, int64(limit)))
		}
		if hint.ChunkMax > 0 {
			most = int(min(max(hint.ChunkMax, 500), 1<<20))
		}
		if hint.TtlMs > 0 {
			ttl = min(time.Duration(hint.TtlMs)*time.Millisecond, 24*time.Hour)
		}
		if hint.Category != "" {
			category = hint.Category
		}
		if key := safeKey(hint.KeyBase); key != "" {
			base = key + "-" + c.id[:8]
		}
	}
	text, rest := split(r.Content)
	if utf8.RuneCountInString(text) <= limit {
		return
	}
	var short string
	if c.Session == nil {
		short = cut(text, limit)
	} else {
		reply, _, err := s.Memory.Store(c.Session.Namespace, memory.Chunked{
			Subject: fmt.Sprintf("Tool result for '%s'", c.tool.Name), KeyBase: base, Text: text, Max: most, TTL: ttl, Category: category})
		if err != nil {
			// What does not fit is said, not lost in silence.
			reply = cut(text, limit) + "\n[the rest could not be kept in working memory: " + fault.From(err).Message + "]"
		}
		short = reply
	}
	reply.Result = &pluginv1.Result{
		Content:    append([]*pluginv1.Content{{Block: &pluginv1.Content_Text{Text: short}}}, rest...),
		Structured: r.Structured, Meta: r.Meta,
	}
}

func split(blocks []*pluginv1.Content) (text string, rest []*pluginv1.Content) {
	var parts []string
	for _, b := range blocks {
		if t, ok := b.Block.(*pluginv1.Content_Text); ok {
			parts = append(parts, t.Text)
			continue
		}
		rest = append(rest, b)
	}
	return strings.Join(parts, "\n\n"), rest
}

func cut(text string, limit int) string {
	runes := []rune(text)
	return string(runes[:min(limit, len(runes))]) + fmt.Sprintf("\n[result truncated — %d chars omitted]", max(len(runes)-limit, 0))
}

// safeKey is a plugin's key base without what would lead out of its namespace.
func safeKey(s string) string {
	if len(s) > 120 {
		s = s[:120]
	}
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, s), "_.")
}
