package document

import "strings"

const (
	probeLines  = 5   // of what was looked for, that are compared
	likeness    = 0.5 // of the least alike region worth showing
	contextRows = 2
	mostRows    = 20
	mostWork    = 20000 // lines of the text that are compared
)

// nearest gives the lines of text most like those old begins with, with some around
// them, and the number of the first; "" when none is like it.
func nearest(text, old string) (region string, first int) {
	var probe []string
	for _, l := range strings.Split(old, "\n") {
		if l = strings.TrimSpace(l); l != "" && len(probe) < probeLines {
			probe = append(probe, l)
		}
	}
	rows := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(probe) == 0 || len(rows) == 0 {
		return "", 0
	}
	want := bigrams(strings.Join(probe, "\n"))
	best, at := 0.0, 0
	for i := 0; i < len(rows) && i < mostWork; i++ {
		var window []string
		for j := i; j < len(rows) && len(window) < len(probe) && j < i+2*probeLines; j++ {
			if l := strings.TrimSpace(rows[j]); l != "" {
				window = append(window, clip(l))
			}
		}
		if len(window) == 0 || strings.TrimSpace(rows[i]) == "" {
			continue
		}
		if d := dice(want, bigrams(strings.Join(window, "\n"))); d > best {
			best, at = d, i
		}
	}
	if best < likeness {
		return "", 0
	}
	from := max(at-contextRows, 0)
	to := min(at+strings.Count(strings.TrimSuffix(old, "\n"), "\n")+1+contextRows, from+mostRows, len(rows))
	shown := make([]string, 0, to-from)
	for _, r := range rows[from:to] {
		shown = append(shown, clip(strings.TrimSuffix(r, "\r")))
	}
	return strings.Join(shown, "\n"), from + 1
}

// clip bounds a line.
func clip(s string) string { return firstChars(s, 400) }

// bigrams counts the pairs of neighbouring characters.
func bigrams(s string) map[[2]rune]int {
	m := map[[2]rune]int{}
	var last rune
	for i, r := range clip(s) {
		if i > 0 {
			m[[2]rune{last, r}]++
		}
		last = r
	}
	return m
}

// dice is how alike two sets of pairs are, from 0 to 1.
func dice(a, b map[[2]rune]int) float64 {
	size, both := 0, 0
	for p, n := range a {
		size += n
		both += min(n, b[p])
	}
	for _, n := range b {
		size += n
	}
	if size == 0 {
		return 0
	}
	return 2 * float64(both) / float64(size)
}
