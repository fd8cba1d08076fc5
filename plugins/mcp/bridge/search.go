package bridge

import (
	"context"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/rank"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	searchServices = "search_known_services"
	searchResults  = 5
	searchTools    = 3
)

// searchKnown ranks the servers by what they are and have. It looks at what there
// is now, so nothing has to be kept up to date.
func (b *Bridge) searchKnown(_ context.Context, _ *sdk.Call, a arguments) (sdk.Result, error) {
	query, err := a.text("query", `keywords for the task, such as "reschedule meeting"`)
	if err != nil {
		return sdk.Result{}, err
	}
	type hit struct {
		ID        string   `json:"id"`
		Type      string   `json:"type"`
		Summary   string   `json:"summary"`
		Relevance float64  `json:"relevance_score"`
		TopTools  []string `json:"top_tools"`
	}
	var servers []*server
	var docs []string
	for _, s := range b.all() {
		if v := s.last(); v != nil {
			servers = append(servers, s)
			docs = append(docs, s.document(v))
		}
	}
	hits := []hit{}
	found := rank.Search(query, docs)
	for _, x := range found[:min(len(found), searchResults)] {
		s := servers[x.Index]
		v := s.last()
		if v == nil {
			continue
		}
		hits = append(hits, hit{ID: s.conf.Name, Type: "mcp", Summary: s.summary(v), Relevance: x.Score, TopTools: v.fitting(query, searchTools)})
	}
	return asText(map[string]any{"results": hits})
}

// document is all of a server that a search may find.
func (s *server) document(v *view) string {
	parts := []string{s.conf.Name, s.displayName()}
	if w := s.written.Load(); w != nil {
		parts = append(parts, w.Text)
	}
	for _, t := range v.tools {
		parts = append(parts, t.Name, t.Title, clip(t.Description, 1000))
	}
	for _, p := range v.prompts {
		parts = append(parts, p.Name, p.Title, clip(p.Description, 1000))
	}
	for _, r := range v.surface.Resources[:min(len(v.surface.Resources), 100)] {
		parts = append(parts, r.Name, r.Title, clip(r.Description, 300))
	}
	return strings.Join(parts, " ")
}

// fitting are the tools that fit a query best, and the first others.
func (v *view) fitting(query string, most int) []string {
	entries := make([]rank.Entry, len(v.tools))
	for i, t := range v.tools {
		entries[i] = rank.Entry{Name: t.typed, Leaf: t.Name, Description: t.Title + " " + t.Description}
	}
	out := []string{}
	for _, i := range rank.Find(query, entries, most) {
		out = append(out, v.tools[i].typed)
	}
	if len(out) == 0 {
		out = append(out, v.typedNames()[:min(len(v.tools), most)]...)
	}
	return out
}
