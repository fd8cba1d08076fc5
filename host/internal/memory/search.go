package memory

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
)

// previewRunes is how much of a value a hit shows.
const previewRunes = 120

// Hit is a value that a search found.
type Hit struct {
	Key       string // absolute
	Category  string
	Tags      []string
	Preview   string // first characters, on one line
	Size      int64  // bytes
	ExpiresIn time.Duration
	Score     float64 // 0 without a query
}

// BM25's usual constants.
const (
	saturation = 1.5
	lengthBias = 0.75
)

// Search finds values of a namespace that have all the tags and whose category
// begins as given, ordered by how well they match the query, or with the latest
// first when there is none. Of a long value its first 4 KiB are searched.
func (m *Memory) Search(namespace, query, category string, tags []string, limit int) []Hit {
	if limit <= 0 || limit > 200 {
		limit = 20
	}
	m.mu.Lock()
	now := m.o.Now()
	var found []*entry
	if sp := m.spaces[namespace]; sp != nil {
		for _, e := range sp.entries {
			if now.Before(e.expires) && hasPrefixFold(e.category, category) && hasTags(e.tags, tags) {
				found = append(found, e) // an entry never changes once it is in
			}
		}
	}
	m.mu.Unlock()

	scores := map[*entry]float64{}
	if terms := words(query); len(terms) > 0 {
		scores = rank(found, terms, strings.ToLower(strings.TrimSpace(query)))
		found = slices.DeleteFunc(found, func(e *entry) bool { return scores[e] == 0 })
	} else if strings.TrimSpace(query) != "" { // nothing but punctuation
		q := strings.ToLower(strings.TrimSpace(query))
		found = slices.DeleteFunc(found, func(e *entry) bool { return !strings.Contains(text(e), q) })
	}
	slices.SortFunc(found, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(b.order, a.order))
	})
	var hits []Hit
	for _, e := range found[:min(limit, len(found))] {
		hits = append(hits, Hit{
			Key: namespace + "/" + e.key, Category: e.category, Tags: slices.Clone(e.tags),
			Preview: preview(e.head), Size: e.size, ExpiresIn: e.expires.Sub(now), Score: scores[e],
		})
	}
	return hits
}

// rank scores entries by BM25, and by the query as a part of their text, so
// that half a word finds something too.
func rank(entries []*entry, terms []string, query string) map[*entry]float64 {
	type document struct {
		counts map[string]int
		length float64
	}
	docs := make([]document, len(entries))
	having := map[string]float64{}
	average := 0.0
	for i, e := range entries {
		list := words(text(e))
		d := document{counts: map[string]int{}, length: float64(len(list))}
		for _, w := range list {
			d.counts[w]++
		}
		for _, t := range terms {
			if d.counts[t] > 0 {
				having[t]++
			}
		}
		average += d.length
		docs[i] = d
	}
	average = max(1, average/float64(max(1, len(entries))))
	scores := map[*entry]float64{}
	for i, e := range entries {
		score := 0.0
		for _, t := range terms {
			n := float64(docs[i].counts[t])
			idf := math.Log(1 + (float64(len(entries))-having[t]+0.5)/(having[t]+0.5))
			score += idf * n * (saturation + 1) / (n + saturation*(1-lengthBias+lengthBias*docs[i].length/average))
		}
		if strings.Contains(text(e), query) {
			score += 0.5
		}
		if strings.Contains(strings.ToLower(e.key), query) {
			score++
		}
		scores[e] = score
	}
	return scores
}

func text(e *entry) string {
	return strings.ToLower(e.key + "\n" + e.category + "\n" + strings.Join(e.tags, " ") + "\n" + e.head)
}

// words are the distinct runs of letters and digits for a query; for a text
// they come as often as they stand there.
func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func hasPrefixFold(s, prefix string) bool {
	return strings.HasPrefix(strings.ToLower(s), strings.ToLower(prefix))
}

func hasTags(have, want []string) bool {
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h string) bool { return strings.EqualFold(h, w) }) {
			return false
		}
	}
	return true
}

func preview(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "�")), " ")
	if r := []rune(s); len(r) > previewRunes {
		return string(r[:previewRunes]) + "…"
	}
	return s
}
