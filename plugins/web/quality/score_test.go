package quality

import (
	"math"
	"testing"
)

func TestScore(t *testing.T) {
	for _, c := range []struct {
		got, want string
		score     Score
	}{
		{"a b c d", "a b c d", Score{1, 1}},
		{"a b c d e", "a b c d", Score{0.5, 1}},
		{"a b c d", "x a b c d e", Score{1, 1. / 3}},
		{"a b c d a b c d", "a b c d", Score{0.2, 1}}, // a repeated shingle counts once
		{"Ünder день 時", "ünder день 時", Score{0, 0}}, // the formula knows no case
		{"день за днём идёт", "день за днём идёт", Score{1, 1}},
		{"", "a b c d", Score{}},
		{"", "", Score{1, 1}},
	} {
		if s := Of(c.got, c.want); math.Abs(s.Precision-c.score.Precision)+math.Abs(s.Recall-c.score.Recall) > 1e-9 {
			t.Errorf("%q of %q: %+v", c.got, c.want, s)
		}
	}
	if m := Mean([]Score{{1, 0.5}, {0.5, 0.5}}); m != (Score{0.75, 0.5}) || math.Abs(m.F1()-0.6) > 1e-9 {
		t.Errorf("%+v %f", m, m.F1())
	}
}

func TestText(t *testing.T) {
	in := `a [b](https://x/y_(z) "t") ![c \] d](e) [![f](g)](h) [i \[1\]](j) k`
	if got := Text(in); got != `a b   i \[1\] k` {
		t.Errorf("%q", got)
	}
}

func TestDifference(t *testing.T) {
	var a, b []Score
	for i := range 50 {
		a = append(a, Score{0.9, 0.9})
		b = append(b, Score{0.9 - float64(i%5)/50, 0.9})
	}
	d, low, high := Difference(a, b)
	if low <= 0 || high < d || low > d {
		t.Errorf("a better extractor: %f, %f to %f", d, low, high)
	}
	if d, low, high := Difference(a, a); d != 0 || low != 0 || high != 0 {
		t.Errorf("itself: %f, %f to %f", d, low, high)
	}
}
