package scheduling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/book"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/keeper"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
)

// when says in words when a task fires.
func when(v keeper.View) string {
	var text string
	switch {
	case v.Cron != "":
		text = "cron " + v.Cron
	case v.Every > 0:
		text = "every " + short(v.Every)
	default:
		text = "at " + v.At.In(v.Zone).Format("2006-01-02 15:04:05")
	}
	if v.Zone.String() != "Local" && v.Every == 0 {
		text += " " + v.Zone.String()
	}
	if v.Once {
		text += ", once"
	}
	if v.Jitter > 0 {
		text += ", up to " + short(v.Jitter) + " later"
	}
	if !v.Until.IsZero() {
		text += ", until " + v.Until.In(v.Zone).Format("2006-01-02 15:04:05")
	}
	return text
}

// short is a duration without its zero parts.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}

// does says in words what a fire does.
func does(v keeper.View) string {
	switch v.Action.Kind {
	case task.Tool:
		return "calls " + v.Action.Tool
	case task.Webhook:
		return "webhook to " + v.Action.URL
	}
	if v.Inbox == task.InboxSession {
		return "prompt in the session that scheduled it"
	}
	return "prompt in session " + sessionOf(v)
}

// table is the Markdown list of an agent's tasks.
func table(views []keeper.View, past []book.Past, now, fault string) string {
	var b strings.Builder
	b.WriteString(now + "\n")
	if fault != "" {
		b.WriteString("Warning: " + fault + "\n")
	}
	if len(views) == 0 {
		b.WriteString("There are no scheduled tasks.\n")
	} else {
		fmt.Fprintf(&b, "%d scheduled %s:\n\n| name | when | next fire | does | last run | description |\n|---|---|---|---|---|---|\n", len(views), plural(len(views), "task"))
	}
	total := len(views)
	views = soonest(views)
	for _, v := range views {
		next := "none"
		switch {
		case v.Paused != "":
			next = "paused " + v.Paused
		case !v.Next.IsZero():
			next = stamp(v.Next, v.Zone)
			if v.Overdue {
				next = "OVERDUE since " + next
			}
		case len(v.Owed) > 0:
			next = "runs now"
		}
		last := "never"
		if n := len(v.Runs); n > 0 {
			last = outcome(v.Runs[n-1], v.Zone)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", cell(v.Name, 100), cell(when(v), 200), next, cell(does(v), 120), cell(last, 160), cell(v.Description, 120))
	}
	if total > len(views) {
		fmt.Fprintf(&b, "\n%d more are not shown; these are due first.\n", total-len(views))
	}
	if len(past) > 0 {
		b.WriteString("\nOver lately:\n")
		for i := len(past) - 1; i >= max(0, len(past)-5); i-- {
			p := past[i]
			text := p.Why
			if n := len(p.Runs); n > 0 {
				text += ", last run " + outcome(p.Runs[n-1], time.UTC)
			}
			fmt.Fprintf(&b, "- %s: %s\n", cell(p.Name, 100), cell(text, 240))
		}
	}
	return b.String()
}

// maxShown is how many tasks a table shows.
const maxShown = 500

// soonest are the tasks that are due first, if there are too many, in their order.
func soonest(views []keeper.View) []keeper.View {
	if len(views) <= maxShown {
		return views
	}
	order := slices.Clone(views)
	slices.SortStableFunc(order, func(a, b keeper.View) int {
		switch {
		case a.Next.IsZero() && b.Next.IsZero():
			return 0
		case a.Next.IsZero():
			return 1
		case b.Next.IsZero():
			return -1
		}
		return a.Next.Compare(b.Next)
	})
	last := order[maxShown-1]
	var out []keeper.View
	for _, v := range views {
		if len(out) < maxShown && !v.Next.IsZero() && !v.Next.After(last.Next) {
			out = append(out, v)
		}
	}
	if len(out) == 0 { // none of the first is due at all
		return views[:maxShown]
	}
	return out
}

// outcome is a run in words.
func outcome(r task.Run, zone *time.Location) string {
	text := r.Outcome + " " + stamp(r.Ended, zone)
	if r.Count > 1 {
		text += fmt.Sprintf(", %d times", r.Count)
	}
	if r.Again {
		text += ", may have run before"
	}
	if r.Detail != "" && r.Outcome != task.OK {
		text += ": " + r.Detail
	}
	return text
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// cell is text in a row of a Markdown table.
func cell(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		s = string(r[:n-1]) + "…"
	}
	return strings.ReplaceAll(s, "|", "\\|")
}
