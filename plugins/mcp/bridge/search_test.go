package bridge

import (
	"encoding/json"
	"testing"
)

func TestSearchKnownServices(t *testing.T) {
	s := start(t, nil, bad(t, "bad"), bad(t, "files", "files"), conf{"name": "gone", "url": "http://127.0.0.1:1/"})
	awaitTool(t, s, "bad__echo")
	awaitTool(t, s, "files__uploads")
	type hit struct {
		ID, Type, Summary string
		Relevance         float64  `json:"relevance_score"`
		Top               []string `json:"top_tools"`
	}
	search := func(query string) []hit {
		t.Helper()
		var out struct{ Results []hit }
		r := s.Call("search_known_services", string(quote(map[string]string{"query": query})))
		if err := json.Unmarshal([]byte(r.Text), &out); err != nil || out.Results == nil {
			t.Fatalf("%v %s", err, r.Text)
		}
		return out.Results
	}
	// Descriptions of tools are searched, not only their names.
	got := search("uploaded and deleted")
	if len(got) != 1 || got[0].ID != "files" || got[0].Type != "mcp" || got[0].Relevance != 1 || got[0].Summary == "" || len(got[0].Top) == 0 || got[0].Top[0] != "files__uploads" {
		t.Errorf("%+v", got)
	}
	if got := search("send gmail email"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := search("uploads to gmail"); len(got) > 0 && got[0].Relevance > 0.7 {
		t.Errorf("a weak match looks like a good one: %+v", got)
	}
	for _, args := range []string{`{}`, `{"query":" "}`, `{"query":5}`} {
		s.Call("search_known_services", args).WantError("invalid_arguments", "query")
	}
	empty := start(t, nil)
	if r := empty.Call("search_known_services", `{"query":"anything"}`); r.Text != `{"results":[]}` {
		t.Error(r.Text)
	}
}
