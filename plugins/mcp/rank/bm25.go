package rank

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Okapi's parameters, and what a pair of words counts that stands in a document as
// it does in the query.
const (
	k1     = 1.5
	b      = 0.75
	phrase = 2.0
	// least is the part of a query's weight a document must answer. Without it the
	// best of poor matches would look like a good one.
	least = 0.3
	// counted is how many words of a query make up that weight.
	counted = 6
)

// Scored is a document that answers a query.
type Scored struct {
	Index int
	// Score is between 0 and 1: how near to the best match, and how much of the
	// query the best match answers.
	Score float64
}

// Search ranks whole texts by BM25, the best first.
func Search(query string, documents []string) []Scored {
	terms := tokens(query)
	type text struct {
		words []string
		count map[string]int
	}
	docs := make([]text, len(documents))
	length := 0.0
	for i, d := range documents {
		t := text{words: tokens(d), count: map[string]int{}}
		for _, w := range t.words {
			t.count[w]++
		}
		docs[i] = t
		length += float64(len(t.words))
	}
	if len(terms) == 0 || length == 0 {
		return nil
	}
	average := length / float64(len(docs))
	idf := map[string]float64{}
	var weights []float64
	for _, w := range terms {
		if _, known := idf[w]; known {
			continue
		}
		df := 0.0
		for _, d := range docs {
			if d.count[w] > 0 {
				df++
			}
		}
		n := float64(len(docs))
		idf[w] = math.Log(1 + (n-df+0.5)/(df+0.5))
		if stop[w] {
			idf[w] /= 20
		}
		weights = append(weights, idf[w])
	}
	// Of a long message most words are beside the point; the heaviest count.
	slices.Sort(weights)
	slices.Reverse(weights)
	total := 0.0
	for _, w := range weights[:min(len(weights), counted)] {
		total += w
	}
	var out []Scored
	answered := map[int]float64{}
	for i, d := range docs {
		gain := map[string]float64{}
		for w, weight := range idf {
			if tf := float64(d.count[w]); tf > 0 {
				gain[w] = weight * tf * (k1 + 1) / (tf + k1*(1-b+b*float64(len(d.words))/average))
				answered[i] += weight
			}
		}
		score := 0.0
		for _, g := range gain {
			score += g
		}
		for j := range len(terms) - 1 {
			if terms[j] != terms[j+1] && adjacent(d.words, terms[j], terms[j+1]) {
				score += (phrase - 1) * (gain[terms[j]] + gain[terms[j+1]])
			}
		}
		if score > 0 && answered[i] >= least*total {
			out = append(out, Scored{i, score})
		}
	}
	if len(out) == 0 {
		return nil
	}
	slices.SortStableFunc(out, func(x, y Scored) int { return cmp.Compare(y.Score, x.Score) })
	best, share := out[0].Score, min(answered[out[0].Index]/total, 1)
	for i := range out {
		out[i].Score = math.Round(out[i].Score/best*share*100) / 100
	}
	return out
}

func adjacent(words []string, first, second string) bool {
	for i := range len(words) - 1 {
		if words[i] == first && words[i+1] == second {
			return true
		}
	}
	return false
}

// tokens are the words of a text in their order, repeated ones too, without the s
// of plurals.
func tokens(text string) []string {
	var out []string
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		for _, w := range camel(f) {
			if w = strings.ToLower(w); len([]rune(w)) > 1 {
				out = append(out, stem(w))
			}
		}
	}
	return out
}

// camel takes camelCase apart.
func camel(s string) []string {
	var out []string
	from := 0
	var last rune
	for i, r := range s {
		if i > 0 && unicode.IsUpper(r) && unicode.IsLower(last) {
			out = append(out, s[from:i])
			from = i
		}
		last = r
	}
	return append(out, s[from:])
}
