package rank

import (
	"math"
	"slices"
	"strings"
	"unicode"
)

// Entry is something to be found.
type Entry struct {
	Name        string // as agents call it
	Leaf        string // the server's own name
	Description string
	Context     string // its server's names and summary
}

// Scores of a query that is a name, and of a word by where it stands.
const (
	exact     = 1000.0
	leafWord  = 80.0
	leafPart  = 50.0
	namePart  = 30.0
	described = 10.0
	about     = 5.0
	// coverage is the part of a query's weight that a match must answer.
	coverage = 0.5
)

// Find gives the indexes of the entries that answer a query, the best first, at
// most limit.
func Find(query string, entries []Entry, limit int) []int {
	words := Words(query)
	whole := fold(query)
	if whole == "" || limit <= 0 {
		return nil
	}
	docs := make([]doc, len(entries))
	for i, e := range entries {
		docs[i] = newDoc(e)
	}
	weights := weigh(words, docs)
	type hit struct {
		index int
		score float64
	}
	var hits []hit
	for i, d := range docs {
		score, answered, total := 0.0, 0.0, 0.0
		for j, w := range words {
			total += weights[j]
			s, only := d.score(w)
			if s == 0 {
				continue
			}
			score += s * (0.5 + weights[j])
			if !only {
				answered += weights[j]
			}
		}
		if whole == d.name || whole == d.leaf {
			score += exact
			answered = total
		}
		if score > 0 && (score >= exact || (answered > 0 && answered >= coverage*total)) {
			hits = append(hits, hit{i, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int {
		if a.score != b.score {
			if a.score > b.score {
				return -1
			}
			return 1
		}
		return strings.Compare(entries[a.index].Name, entries[b.index].Name)
	})
	out := []int{}
	for _, h := range hits[:min(len(hits), limit)] {
		out = append(out, h.index)
	}
	return out
}

type doc struct {
	name, leaf                    string
	leafWords, description, about map[string]bool
}

func newDoc(e Entry) doc {
	return doc{name: fold(e.Name), leaf: fold(e.Leaf), leafWords: set(Words(e.Leaf)), description: set(Words(e.Description)), about: set(Words(e.Context))}
}

// score of one word; only says that nothing but the server's own words have it.
func (d *doc) score(w string) (score float64, only bool) {
	switch {
	case d.leafWords[w] || d.leafWords[stem(w)]:
		score = leafWord
	case len(w) > 2 && strings.Contains(d.leaf, w):
		score = leafPart
	case len(w) > 2 && strings.Contains(d.name, w):
		score = namePart
	}
	named := score > 0
	if has(d.description, w) {
		score += described
		named = true
	}
	if has(d.about, w) {
		score += about
	}
	return score, score > 0 && !named
}

// weigh gives each word the weight of its rarity, between 0 and 1; a word that
// nothing has is the rarest.
func weigh(words []string, docs []doc) []float64 {
	out := make([]float64, len(words))
	n := float64(len(docs))
	most := math.Log(1 + (n+0.5)/0.5)
	for i, w := range words {
		df := 0.0
		for j := range docs {
			if s, _ := docs[j].score(w); s > 0 {
				df++
			}
		}
		out[i] = max(math.Log(1+(n-df+0.5)/(df+0.5))/most, 0.05)
		if stop[w] {
			out[i] = 0.05
		}
	}
	return out
}

var stop = set(strings.Fields("a an and are at be by can do for from get how i in into is it me my of on or please that the this to tool tools use want with you"))

// Words are the distinct words of a text, lower case, camelCase taken apart.
func Words(text string) []string {
	var out []string
	var word []rune
	end := func() {
		if w := strings.ToLower(string(word)); len([]rune(w)) > 1 && !slices.Contains(out, w) {
			out = append(out, w)
		}
		word = word[:0]
	}
	var last rune
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
		case unicode.IsUpper(r) && unicode.IsLower(last):
			end()
			word = append(word, r)
		default:
			word = append(word, r)
		}
		last = r
	}
	end()
	return out
}

func has(words map[string]bool, w string) bool { return words[w] || words[stem(w)] || words[w+"s"] }

// stem takes a plural's s away.
func stem(w string) string {
	if len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") {
		return w[:len(w)-1]
	}
	return w
}

// fold is a name without case and without what separates its words.
func fold(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), " ")
}

func set(words []string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}
