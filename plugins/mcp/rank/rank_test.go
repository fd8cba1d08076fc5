package rank

import (
	"fmt"
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
