package quality

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// word is a token of the benchmark, which counts the letters of every script.
var word = regexp.MustCompile(`[\p{L}\p{N}_]+`)

var (
	image = regexp.MustCompile(`!\[(?:[^\]\\]|\\.)*\]\((?:[^()\\]|\\.|\([^()]*\))*\)`)
	link  = regexp.MustCompile(`\[((?:[^\]\[\\]|\\.)*)\]\((?:[^()\\]|\\.|\([^()]*\))*\)`)
)

// Text takes images and the targets of links out of Markdown.
func Text(markdown string) string {
	return link.ReplaceAllString(image.ReplaceAllString(markdown, ""), "$1")
}

// Score is how much of a text is right, and how much of the right text is there:
// shares of its shingles, runs of four words.
type Score struct{ Precision, Recall float64 }

// Of scores a text against the true one. Nothing against nothing is right.
func Of(got, want string) Score {
	a, b := shingles(got), shingles(want)
	common, na, nb := 0, 0, 0
	for s, n := range a {
		na += n
		common += min(n, b[s])
	}
	for _, n := range b {
		nb += n
	}
	switch {
	case na == 0 && nb == 0:
		return Score{1, 1}
	case na == 0 || nb == 0:
		return Score{}
	}
	return Score{float64(common) / float64(na), float64(common) / float64(nb)}
}

func shingles(text string) map[string]int {
	const size = 4
	words := word.FindAllString(text, -1)
	out := map[string]int{}
	if n := len(words); n > 0 && n < size { // a short text is one shingle
		out[strings.Join(words, " ")]++
	}
	for i := 0; i+size <= len(words); i++ {
		out[strings.Join(words[i:i+size], " ")]++
	}
	return out
}

// Mean averages precision and recall over pages.
func Mean(of []Score) Score {
	var m Score
	for _, s := range of {
		m.Precision += s.Precision / float64(len(of))
		m.Recall += s.Recall / float64(len(of))
	}
	return m
}

// F1 is the harmonic mean of precision and recall.
func (s Score) F1() float64 {
	if s.Precision+s.Recall == 0 {
		return 0
	}
	return 2 * s.Precision * s.Recall / (s.Precision + s.Recall)
}

// Difference is the F1 of the means of a less that of b on the same pages, with
// the bounds of its 95 % interval by paired bootstrap. The draw is the same every
// time.
func Difference(a, b []Score) (diff, low, high float64) {
	const rounds = 4000
	random := rand.New(rand.NewPCG(1, 2))
	diffs := make([]float64, rounds)
	da, db := make([]Score, len(a)), make([]Score, len(a))
	for r := range diffs {
		for i := range da {
			j := random.IntN(len(a))
			da[i], db[i] = a[j], b[j]
		}
		diffs[r] = Mean(da).F1() - Mean(db).F1()
	}
	slices.Sort(diffs)
	return Mean(a).F1() - Mean(b).F1(), diffs[rounds/40], diffs[rounds-1-rounds/40]
}
