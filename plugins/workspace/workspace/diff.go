package workspace

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/bulkhead-dev/bulkhead/plugins/workspace/document"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	mostCompared = 2000 // lines on either side; comparing takes the square of them
	mostShown    = 8000 // characters of a diff
)

// changed is the result of a change: a line that says what was done, and what that
// did to the text.
func changed(done string, p place, old, fresh []byte) sdk.Result {
	if diff := unified(p.String(), old, fresh); diff != "" {
		done += "\n\n" + diff
	}
	return sdk.TextResult(done)
}

// unified is a unified diff; of large changes only how many lines.
func unified(name string, old, fresh []byte) string {
	a, aerr := document.Decode(old)
	b, berr := document.Decode(fresh)
	if aerr != nil || berr != nil || a.Text == b.Text {
		return ""
	}
	from, to := lines(a.Text), lines(b.Text)
	head := 0
	for head < len(from) && head < len(to) && from[head] == to[head] {
		head++
	}
	tail := 0
	for tail < len(from)-head && tail < len(to)-head && from[len(from)-1-tail] == to[len(to)-1-tail] {
		tail++
	}
	const around = 3
	first := max(head-around, 0)
	from, to = from[first:len(from)-max(tail-around, 0)], to[first:len(to)-max(tail-around, 0)]
	if len(from) > mostCompared || len(to) > mostCompared {
		return fmt.Sprintf("from line %d on, %d lines became %d; too much for a diff", head+1, len(from), len(to))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", name, name)
	for _, group := range difflib.NewMatcher(from, to).GetGroupedOpCodes(around) {
		last := group[len(group)-1]
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(first, group[0].I1, last.I2), span(first, group[0].J1, last.J2))
		for _, c := range group {
			if c.Tag == 'e' {
				write(&out, ' ', from[c.I1:c.I2])
				continue
			}
			write(&out, '-', from[c.I1:c.I2])
			write(&out, '+', to[c.J1:c.J2])
		}
	}
	if out.Len() > mostShown {
		return clip(out.String(), mostShown) + "\n[the diff is longer than this]"
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// lines are those of a text, each with its end.
func lines(text string) []string {
	all := strings.SplitAfter(text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

func span(first, from, to int) string {
	if to-from == 1 {
		return fmt.Sprint(first + to)
	}
	if to == from {
		return fmt.Sprintf("%d,0", first+from)
	}
	return fmt.Sprintf("%d,%d", first+from+1, to-from)
}

func write(out *strings.Builder, mark byte, rows []string) {
	for _, r := range rows {
		out.WriteByte(mark)
		out.WriteString(strings.TrimRight(clip(r, 1000), "\r\n"))
		out.WriteByte('\n')
		if !strings.HasSuffix(r, "\n") {
			out.WriteString("\\ No newline at end of file\n")
		}
	}
}

// real is where a place is on the machine.
func (p place) real() string { return filepath.Join(p.Dir, filepath.FromSlash(p.rel)) }
