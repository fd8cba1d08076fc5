package htmltree

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// A page that asks for a tree much larger than itself gets none.
func TestRepeatedFormatting(t *testing.T) {
	var soup strings.Builder
	for i := range 400 {
		fmt.Fprintf(&soup, "<b id=%d>", i)
	}
	alike := strings.Repeat("<i>x", 10)
	for name, c := range map[string]struct {
		page string
		made bool
	}{
		"soup":             {"<p>" + soup.String() + "</p>" + strings.Repeat("<p>x", 100_000), false},
		"soup of unknowns": {"<p>" + soup.String() + "</p>" + strings.Repeat("<x-y>x</p><p>", 100_000), false},
		"soup in a table":  {"<p>" + soup.String() + "</p><table><td>" + strings.Repeat("</b>", 400) + "</table>" + strings.Repeat("<p>x", 100_000), false},
		"alike":            {alike + strings.Repeat("<p>x", 50_000), true},
		"cells":            {"<table>" + strings.Repeat("<tr><td><b>x<td><font color=red>y<td><a href=/z>z", 20_000), true},
		"ordinary":         {strings.Repeat(`<p>a <b>b <i>c</i></b> <a href="/d">d <code>e</code></a></p>`, 20_000), true},
		"misnested":        {strings.Repeat(`<p>a <b>b <i>c</b></i> <strong><div>d</div></strong>`, 10_000), true},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		root, err := Parse(c.page)
		runtime.ReadMemStats(&after)
		if (err == nil) != c.made || err != nil && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 600<<20 {
			t.Errorf("%s: %d MiB were allocated", name, got>>20)
		}
		if root != nil {
			made := 0
			for range root.Descendants() {
				made++
			}
			if limit := strings.Count(c.page, "<")*2 + repeated(c.page) + 10; made > limit {
				t.Errorf("%s: %d nodes came, at most %d were counted", name, made, limit)
			}
		}
	}
}

// A deep page weighs more than a flat one of the same size.
func TestWeight(t *testing.T) {
	deep := strings.Repeat("<div>", 400) + strings.Repeat("<p>x</p>", 50_000)
	if _, err := Parse(deep); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if _, err := Parse(strings.Repeat("<div>", 30) + strings.Repeat("<p>x</p>", 50_000)); err != nil {
		t.Error(err)
	}
	if _, err := Parse(strings.Repeat("<div>", 2000)); err == nil || errors.Is(err, ErrTooLarge) {
		t.Errorf("the parser itself took 2000 levels: %v", err)
	}
	if _, err := Parse(strings.Repeat("x", maxSource+1)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

// What is counted before is never less than what the parser makes.
func FuzzRepeated(f *testing.F) {
	for _, seed := range []string{"<p><b><i></p><p>x", "<b><table><td></b></table><p>", "<a><div></a><p><a href=x>", "<font size=1><select></font></select><p>y", "<b><button></b></button><p>z", "<nobr><nobr><svg><b></svg>"} {
		f.Add(seed, uint8(20))
	}
	f.Fuzz(func(t *testing.T, unit string, times uint8) {
		page := strings.Repeat(unit, int(times))
		if len(page) > 1<<16 {
			return
		}
		root, err := html.Parse(strings.NewReader(page))
		if err != nil {
			return
		}
		made := 0
		for n := range root.Descendants() {
			if n.Type == html.ElementNode {
				made++
			}
		}
		// Beside the repeated ones: one for each tag, some that tables and documents imply.
		if limit := strings.Count(page, "<")*5 + 10 + repeated(page)*2; made > limit {
			t.Errorf("%d elements, %d were counted", made, limit)
		}
	})
}
