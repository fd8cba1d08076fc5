package registry

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// claim is who has a name, and how good the claim is.
type claim struct {
	owner string
	rank  int
	stood bool // it had the name before
}

// better orders claims to one name: rank, then who had it, then the owner's name.
// Who was faster at the start does not count.
func (c claim) better(other claim) bool {
	if c.rank != other.rank {
		return c.rank < other.rank
	}
	if c.stood != other.stood {
		return c.stood
	}
	return c.owner < other.owner
}

// builder makes one snapshot: first all names are given to their owners, then
// everyone's offers are taken in.
type builder struct {
	claims map[string]string // of the last snapshot
	next   map[string]claim  // by kind and name
	rater  Rater
	snap   *Snapshot
}

// key is how a name is compared: but for addresses, letters of another case make
// the same name, since callers may write them so.
func key(kind, name string) string {
	if kind != "resource" {
		name = fold(name)
	}
	return kind + " " + name
}

// reserve claims all that owner offers; it returns its good tools.
func (b *builder) reserve(owner string, snap *pluginv1.OfferSnapshot, last *Snapshot) []*Tool {
	take := func(kind, name string) {
		k := key(kind, name)
		c := claim{owner, b.rater.Rank(owner, kind, name), b.claims[k] == owner}
		if owner == Host {
			c.rank = -1
		}
		if has, taken := b.next[k]; !taken || c.better(has) {
			b.next[k] = c
		}
	}
	var tools []*Tool
	seen := map[string]bool{}
	for _, t := range snap.Tools {
		if seen[t.Name] {
			b.refuse("tool", t.Name, owner, owner, fault.New(fault.NameTaken, "plugin %q offers tool %q twice", owner, t.Name))
			continue
		}
		seen[t.Name] = true
		tool, err := newTool(owner, t, b.rater, last.tools[t.Name])
		if err != nil {
			b.refuse("tool", t.Name, "", owner, err)
			continue
		}
		take("tool", t.Name)
		tools = append(tools, tool)
	}
	for _, p := range snap.Prompts {
		take("prompt", p.Name)
	}
	for _, g := range snap.Guides {
		take("guide", g.Name)
	}
	for _, x := range snap.Resources {
		take("resource", x.Uri)
	}
	return tools
}

// has says whether owner has name, and records the refusal when it has not.
func (b *builder) has(kind, name, owner string) bool {
	c := b.next[key(kind, name)]
	if c.owner == owner {
		return true
	}
	b.refuse(kind, name, c.owner, owner, fault.New(fault.NameTaken,
		"%s %q of plugin %q is refused: plugin %q offers that name", kind, name, owner, c.owner))
	return false
}

func (b *builder) refuse(kind, name, owner, refused string, err *fault.Error) {
	b.snap.Conflicts = append(b.snap.Conflicts, Conflict{Kind: kind, Name: name, Owner: owner, Refused: refused, Err: err})
}

func (b *builder) add(owner string, snap *pluginv1.OfferSnapshot, tools []*Tool) {
	for _, t := range tools {
		if b.has("tool", t.Name, owner) {
			b.snap.tools[t.Name] = t
		}
	}
	for _, p := range snap.Prompts {
		if b.has("prompt", p.Name, owner) {
			b.snap.Prompts = append(b.snap.Prompts, Prompt{Owner: owner, Prompt: p})
		}
	}
	for _, x := range snap.Resources {
		if b.has("resource", x.Uri, owner) {
			b.snap.Resources = append(b.snap.Resources, Resource{Owner: owner, Resource: x})
		}
	}
	for _, x := range snap.Templates {
		b.snap.Templates = append(b.snap.Templates, Template{Owner: owner, ResourceTemplate: x})
	}
	for _, g := range snap.Guides {
		if b.has("guide", g.Name, owner) {
			b.snap.Guides = append(b.snap.Guides, Guide{Owner: owner, Guide: g})
		}
	}
	for _, o := range snap.Orientation {
		b.snap.Orientation = append(b.snap.Orientation, Orientation{Owner: owner, Orientation: o})
	}
}

func (b *builder) finish() {
	s := b.snap
	s.ordered = slices.SortedFunc(maps.Values(s.tools), func(a, b *Tool) int {
		return compare(a.Name, b.Name)
	})
	s.alias = map[string]*Tool{}
	s.folded = map[string][]*Tool{}
	for _, t := range s.ordered {
		s.folded[fold(t.Name)] = append(s.folded[fold(t.Name)], t)
	}
	// A native name is never displaced by an alias, nor one alias by that of a
	// lesser owner.
	ranked := slices.Clone(s.ordered)
	sortStable(ranked, func(x, y *Tool) int {
		return cmp.Compare(b.next[key("tool", x.Name)].rank, b.next[key("tool", y.Name)].rank)
	})
	for _, t := range ranked {
		for _, a := range t.NameAliases {
			same := s.folded[fold(a)]
			foreign := slices.ContainsFunc(same, func(o *Tool) bool { return o.Owner != t.Owner })
			if s.tools[a] == nil && s.alias[a] == nil && !foreign {
				s.alias[a] = t
			}
		}
	}
	slices.SortFunc(s.Prompts, func(a, b Prompt) int { return compare(a.Name, b.Name) })
	slices.SortFunc(s.Resources, func(a, b Resource) int { return compare(a.Uri, b.Uri) })
	slices.SortStableFunc(s.Templates, func(a, b Template) int { return compare(a.UriTemplate, b.UriTemplate) })
	slices.SortFunc(s.Guides, func(a, b Guide) int { return compare(a.Name, b.Name) })
	slices.SortStableFunc(s.Orientation, func(a, b Orientation) int { return int(a.Order) - int(b.Order) })
}
