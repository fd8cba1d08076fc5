package registry

import (
	"cmp"
	"strings"

	"github.com/agext/levenshtein"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Snapshot is everything offered at one revision, in a stable order.
type Snapshot struct {
	Revision    uint64
	Prompts     []Prompt
	Resources   []Resource
	Templates   []Template
	Guides      []Guide
	Orientation []Orientation
	Conflicts   []Conflict
	Updates     []Update // resources whose content changed, up to this revision, the latest last

	tools   map[string]*Tool
	alias   map[string]*Tool
	folded  map[string][]*Tool
	ordered []*Tool
}

// The offers that are not tools, each with its owner.
type (
	Prompt struct {
		Owner string
		*pluginv1.Prompt
	}
	Resource struct {
		Owner string
		*pluginv1.Resource
	}
	Template struct {
		Owner string
		*pluginv1.ResourceTemplate
	}
	Guide struct {
		Owner string
		*pluginv1.Guide
	}
	Orientation struct {
		Owner string
		*pluginv1.Orientation
	}
)

// Update is a resource whose content changed.
type Update struct {
	Revision   uint64 // with which that was said
	Owner, URI string
}

// Tools lists all tools by name. The slice must not be changed.
func (s *Snapshot) Tools() []*Tool { return s.ordered }

// Tool finds a tool by its exact name.
func (s *Snapshot) Tool(name string) (*Tool, bool) {
	t, ok := s.tools[name]
	return t, ok
}

// Resolve finds a tool as a caller may write it: the exact name, a declared
// alias, else the one name that differs only in case.
func (s *Snapshot) Resolve(name string) (*Tool, bool) {
	if t, ok := s.tools[name]; ok {
		return t, true
	}
	if t, ok := s.alias[name]; ok {
		return t, true
	}
	if same := s.folded[fold(name)]; len(same) == 1 {
		return same[0], true
	}
	return nil, false
}

// Near lists at most n names like name among the tools that admit accepts,
// nearest first.
func (s *Snapshot) Near(name string, n int, admit func(*Tool) bool) []string {
	type hit struct {
		name string
		dist int
	}
	if len(name) > 128 {
		name = name[:128]
	}
	want, hits := fold(name), []hit(nil)
	for _, t := range s.ordered {
		if !admit(t) {
			continue
		}
		have := fold(t.Name)
		d := levenshtein.Distance(want, have, nil)
		if strings.Contains(have, want) || strings.Contains(want, have) {
			d = min(d, 2)
		}
		if d <= 2 || d <= len(want)/3 {
			hits = append(hits, hit{t.Name, d})
		}
	}
	sortStable(hits, func(a, b hit) int { return cmp.Or(a.dist-b.dist, compare(a.name, b.name)) })
	var names []string
	for _, h := range hits[:min(n, len(hits))] {
		names = append(names, h.name)
	}
	return names
}

// Guide finds a guide by name, in any case.
func (s *Snapshot) Guide(name string) (Guide, bool) {
	for _, g := range s.Guides {
		if strings.EqualFold(g.Name, name) {
			return g, true
		}
	}
	return Guide{}, false
}
