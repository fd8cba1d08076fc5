package elicit

import (
	"fmt"
	"slices"
	"strings"
)

// Asked is one question and what came of it.
type Asked struct {
	Message string
	Fields  []string
	Action  string // accept, decline or cancel
	Why     string
	Times   int // that it was asked in a row with the same outcome; 0 is once
}

// MaxNoted is how many questions of a call are kept and told one by one.
const MaxNoted = 5

// Add adds a question to those of a call. One that is asked again is counted, and of
// many only the first are kept, the rest as one that says how many there were.
func Add(asked []Asked, q Asked) []Asked {
	if n := len(asked); n > 0 {
		last := &asked[n-1]
		rest := n > MaxNoted
		if rest || last.Message == q.Message && last.Action == q.Action && last.Why == q.Why {
			last.Times = max(last.Times, 1) + 1
			if rest && last.Action == "accept" {
				last.Action = q.Action // that not all were answered is what matters
			}
			return asked
		}
		if n == MaxNoted {
			return append(asked, Asked{Action: q.Action, Times: 1})
		}
	}
	return append(asked, q)
}

// Note tells an agent what a server asked during its call, and what to do about
// what was declined. parameters are the tool's own; empty = not known.
func Note(server string, asked []Asked, parameters []string) string {
	if len(asked) == 0 {
		return ""
	}
	var out strings.Builder
	total := 0
	for _, a := range asked {
		total += max(a.Times, 1)
	}
	n := "one question"
	if total > 1 {
		n = fmt.Sprintf("%d questions", total)
	}
	fmt.Fprintf(&out, "[bulkhead] Server %q asked %s during this call.", server, n)
	var known, unknown []string
	declined := false
	for i, a := range asked {
		if i == MaxNoted {
			fmt.Fprintf(&out, "\n- and %d more, %s", a.Times, past[a.Action])
			declined = declined || a.Action != "accept"
			continue
		}
		fmt.Fprintf(&out, "\n- %q", flat(a.Message, 500))
		if a.Times > 1 {
			fmt.Fprintf(&out, " (%d times)", a.Times)
		}
		if len(a.Fields) > 0 {
			fmt.Fprintf(&out, " (fields: %s)", flat(strings.Join(a.Fields, ", "), 500))
		}
		fmt.Fprintf(&out, " - %s: %s", past[a.Action], flat(a.Why, 500))
		if a.Action == "accept" {
			continue
		}
		declined = true
		for _, f := range a.Fields {
			if slices.ContainsFunc(parameters, func(p string) bool { return strings.EqualFold(p, f) }) {
				known = append(known, f)
			} else {
				unknown = append(unknown, f)
			}
		}
	}
	switch {
	case !declined:
	case len(known) > 0:
		fmt.Fprintf(&out, "\nThe tool has parameters for this: pass %s the next time.", flat(strings.Join(known, ", "), 500))
	case len(parameters) > 0 && len(unknown) > 0:
		out.WriteString("\nThese are no parameters of the tool: the same call would be asked the same again. Ask the user what to do.")
	default:
		out.WriteString("\nIf the answer can be passed as an argument, do so the next time; else ask the user.")
	}
	return out.String()
}

var past = map[string]string{"accept": "answered", "decline": "declined", "cancel": "cancelled"}

// flat is a server's text on one line, so that it can't look like lines of ours.
func flat(s string, n int) string { return clip(strings.Join(strings.Fields(s), " "), n) }
