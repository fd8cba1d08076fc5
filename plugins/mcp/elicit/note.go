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
}

// Note tells an agent what a server asked during its call, and what to do about
// what was declined. parameters are the tool's own; empty = not known.
func Note(server string, asked []Asked, parameters []string) string {
	if len(asked) == 0 {
		return ""
	}
	var out strings.Builder
	n := "one question"
	if len(asked) > 1 {
		n = fmt.Sprintf("%d questions", len(asked))
	}
	fmt.Fprintf(&out, "[bulkhead] Server %q asked %s during this call.", server, n)
	var known, unknown []string
	declined := false
	for _, a := range asked {
		fmt.Fprintf(&out, "\n- %q", flat(a.Message, 500))
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
