package registry

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Host is the owner of the host's own tools.
const Host = "host"

// Rater settles what a plugin may only propose.
type Rater interface {
	// Rate gives the group, tier, exposure and timeout of a tool of owner.
	Rate(owner string, tool *pluginv1.Tool) Rating
}

// Registry owns the current snapshot. Its zero value is not usable; see New.
type Registry struct {
	rater Rater

	mu     sync.Mutex
	offers map[string]*pluginv1.OfferSnapshot // by owner
	gens   map[string]uint64
	claims map[string]string // tool, prompt and guide names, prefixed by kind, to owner
	watch  map[chan struct{}]struct{}

	current atomic.Pointer[Snapshot]
}

// New makes an empty registry.
func New(rater Rater) *Registry {
	r := &Registry{
		rater:  rater,
		offers: map[string]*pluginv1.OfferSnapshot{}, gens: map[string]uint64{}, claims: map[string]string{},
		watch: map[chan struct{}]struct{}{},
	}
	r.current.Store(&Snapshot{tools: map[string]*Tool{}})
	return r
}

// Snapshot is the current state; it never changes once returned.
func (r *Registry) Snapshot() *Snapshot { return r.current.Load() }

// Publish replaces all that owner offers. An older generation's offer is ignored.
func (r *Registry) Publish(owner string, generation uint64, snap *pluginv1.OfferSnapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if generation < r.gens[owner] {
		return
	}
	r.gens[owner] = generation
	r.offers[owner] = snap
	r.rebuild(snap.GetUpdatedResourceUris())
}

// Withdraw removes all that owner offers and frees its names.
func (r *Registry) Withdraw(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.offers[owner]; !ok {
		return
	}
	delete(r.offers, owner)
	r.rebuild(nil)
}

// Rerate rebuilds the snapshot after the rules of the rater changed.
func (r *Registry) Rerate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rebuild(nil)
}

func (r *Registry) rebuild(updated []string) {
	b := builder{claims: r.claims, next: map[string]string{}, snap: &Snapshot{
		Revision: r.current.Load().Revision + 1, UpdatedURIs: updated, tools: map[string]*Tool{},
	}}
	// Standing claims first, so that a name never moves while its owner offers it.
	owners := slices.Sorted(maps.Keys(r.offers))
	for _, owner := range owners {
		b.reserve(owner, r.offers[owner])
	}
	for _, owner := range owners {
		b.add(owner, r.offers[owner], r.rater, r.current.Load())
	}
	b.finish()
	r.claims = b.next
	r.current.Store(b.snap)
	for ch := range r.watch {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Watch returns a channel that gets a value after the snapshot changed; end
// releases it.
func (r *Registry) Watch() (changed <-chan struct{}, end func()) {
	ch := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch[ch] = struct{}{}
	return ch, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watch, ch)
	}
}

// Conflict is an offer that was refused.
type Conflict struct {
	Kind, Name     string
	Owner, Refused string // Owner is empty when the offer itself was bad
	Err            *fault.Error
}

type builder struct {
	claims, next map[string]string
	snap         *Snapshot
}

func (b *builder) reserve(owner string, snap *pluginv1.OfferSnapshot) {
	keep := func(kind, name string) {
		if b.claims[kind+name] == owner {
			b.next[kind+name] = owner
		}
	}
	for _, t := range snap.Tools {
		keep("tool ", t.Name)
	}
	for _, p := range snap.Prompts {
		keep("prompt ", p.Name)
	}
	for _, g := range snap.Guides {
		keep("guide ", g.Name)
	}
	for _, x := range snap.Resources {
		keep("resource ", x.Uri)
	}
}

// claim says whether owner has name, and records the refusal when it has not.
func (b *builder) claim(kind, name, owner string) bool {
	switch first, taken := b.next[kind+name]; {
	case !taken:
		b.next[kind+name] = owner
		return true
	case first == owner:
		return true
	default:
		b.refuse(kind, name, first, owner, fault.New(fault.NameTaken,
			"%s%q of plugin %q is refused: plugin %q already offers that name", kind, name, owner, first))
		return false
	}
}

func (b *builder) refuse(kind, name, owner, refused string, err *fault.Error) {
	b.snap.Conflicts = append(b.snap.Conflicts, Conflict{Kind: kind[:len(kind)-1], Name: name, Owner: owner, Refused: refused, Err: err})
}

func (b *builder) add(owner string, snap *pluginv1.OfferSnapshot, rater Rater, last *Snapshot) {
	seen := map[string]bool{}
	for _, t := range snap.Tools {
		if seen[t.Name] {
			b.refuse("tool ", t.Name, owner, owner, fault.New(fault.NameTaken, "plugin %q offers tool %q twice", owner, t.Name))
			continue
		}
		seen[t.Name] = true
		tool, err := newTool(owner, t, rater, last.tools[t.Name])
		if err != nil {
			b.refuse("tool ", t.Name, "", owner, err)
			continue
		}
		if b.claim("tool ", t.Name, owner) {
			b.snap.tools[t.Name] = tool
		}
	}
	for _, p := range snap.Prompts {
		if b.claim("prompt ", p.Name, owner) {
			b.snap.Prompts = append(b.snap.Prompts, Prompt{Owner: owner, Prompt: p})
		}
	}
	for _, x := range snap.Resources {
		if b.claim("resource ", x.Uri, owner) {
			b.snap.Resources = append(b.snap.Resources, Resource{Owner: owner, Resource: x})
		}
	}
	for _, x := range snap.Templates {
		b.snap.Templates = append(b.snap.Templates, Template{Owner: owner, ResourceTemplate: x})
	}
	for _, g := range snap.Guides {
		if b.claim("guide ", g.Name, owner) {
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
		for _, a := range t.NameAliases {
			// A native name, and the first claim of an alias, are never displaced.
			if s.tools[a] == nil && s.alias[a] == nil {
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

func (c Conflict) String() string { return fmt.Sprintf("%s (%s)", c.Err.Message, c.Err.Ref) }
