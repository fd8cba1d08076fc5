package bridge

import (
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/naming"
)

// view is what is offered of a server: immutable, made anew with each look.
type view struct {
	of      *downstream.Surface // what it is a view of
	surface *downstream.Surface // without what the filters leave out
	tools   []entry
	prompts []promptEntry
}

// entry is a tool with the name agents have for it.
type entry struct {
	*downstream.Tool
	typed string
}

// promptEntry is a prompt: typed is its tool's name, name that of the prompt.
type promptEntry struct {
	*downstream.Prompt
	typed, name string
}

// viewOf makes a view; taken are names that a server with bare ones can't have.
func (s *server) viewOf(full *downstream.Surface, taken *takenNames) *view {
	surface := *full
	surface.Tools = slices.DeleteFunc(slices.Clone(full.Tools), func(t downstream.Tool) bool {
		return !admits(s.conf.AllowedTools, s.conf.DeniedTools, t.Name)
	})
	surface.Prompts = slices.DeleteFunc(slices.Clone(full.Prompts), func(p downstream.Prompt) bool {
		return !admits(s.conf.AllowedPrompts, s.conf.DeniedPrompts, p.Name)
	})
	byURI := func(r downstream.Resource) bool {
		return !admits(s.conf.AllowedResources, s.conf.DeniedResources, r.URI+r.URITemplate)
	}
	surface.Resources = slices.DeleteFunc(slices.Clone(full.Resources), byURI)
	surface.Templates = slices.DeleteFunc(slices.Clone(full.Templates), byURI)

	v := &view{of: full, surface: &surface}
	scheme := naming.Scheme{Server: s.conf.Name, Bare: s.bare()}
	prompts := scheme
	if taken != nil && s.bare() {
		scheme.Taken = func(n string) bool { return taken.tools[strings.ToLower(n)] }
		prompts.Taken = func(n string) bool { return taken.prompts[strings.ToLower(n)] }
	}
	names := make([]string, len(surface.Tools))
	for i, t := range surface.Tools {
		names[i] = t.Name
	}
	typed := scheme.Tools(names)
	for i := range surface.Tools {
		if typed[i] != "" {
			v.tools = append(v.tools, entry{&surface.Tools[i], typed[i]})
		}
	}
	names = names[:0]
	for _, p := range surface.Prompts {
		names = append(names, p.Name)
	}
	asTools, asPrompts := scheme.Prompts(names, typed), prompts.Tools(names)
	for i := range surface.Prompts {
		if asTools[i] != "" {
			v.prompts = append(v.prompts, promptEntry{&surface.Prompts[i], asTools[i], asPrompts[i]})
		}
	}
	return v
}

// admits applies allowed and denied lists; * stands for any characters, case does
// not count, and an allowed list shuts out all it does not name.
func admits(allowed, denied []string, name string) bool {
	if len(allowed) > 0 {
		return matches(allowed, name)
	}
	return !matches(denied, name)
}

func matches(patterns []string, name string) bool {
	// A URI's slashes are no borders here.
	flat := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "/", "\x00") }
	for _, p := range patterns {
		if strings.EqualFold(p, name) {
			return true
		}
		if ok, err := path.Match(flat(p), flat(name)); err == nil && ok {
			return true
		}
	}
	return false
}

// tool finds a tool by the server's name or the typed one, in any case.
func (v *view) tool(name string) (entry, bool) {
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for _, t := range v.tools {
			if same(t.Name, name) {
				return t, true
			}
		}
		for _, t := range v.tools {
			if same(t.typed, name) {
				return t, true
			}
		}
	}
	return entry{}, false
}

func (v *view) prompt(name string) (promptEntry, bool) {
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for _, p := range v.prompts {
			if same(p.Name, name) || same(p.typed, name) || same(p.name, name) {
				return p, true
			}
		}
	}
	return promptEntry{}, false
}

func (v *view) toolNames() []string {
	out := make([]string, len(v.tools))
	for i, t := range v.tools {
		out[i] = t.Name
	}
	return out
}

func (v *view) typedNames() []string {
	out := make([]string, len(v.tools))
	for i, t := range v.tools {
		out[i] = t.typed
	}
	return out
}

// promptTools are the names of the tools that stand for prompts.
func (v *view) promptTools() []string {
	out := make([]string, len(v.prompts))
	for i, p := range v.prompts {
		out[i] = p.typed
	}
	return out
}

// sameNames reports whether two views have the same things under the same names.
func (v *view) sameNames(other *view) bool {
	return other != nil && v.of == other.of && slices.Equal(v.typedNames(), other.typedNames()) && slices.Equal(v.promptTools(), other.promptTools()) &&
		slices.EqualFunc(v.prompts, other.prompts, func(a, b promptEntry) bool { return a.name == b.name })
}

// last is the newest view there was, also of a server that is down.
func (s *server) last() *view { return s.newest.Load() }

func (s *server) displayName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil {
		return orElse(s.link.conn.Info.Title, orElse(s.link.conn.Info.Name, s.conf.Name))
	}
	return s.conf.Name
}
