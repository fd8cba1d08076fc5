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
	// Rank orders owners that offer the same name; the lowest has it. kind is
	// "tool", "prompt", "guide" or "resource".
	Rank(owner, kind, name string) int
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
	r.rebuild(owner, snap.GetUpdatedResourceUris())
}

// Withdraw removes all that owner offers and frees its names.
func (r *Registry) Withdraw(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.offers[owner]; !ok {
		return
	}
	delete(r.offers, owner)
	r.rebuild("", nil)
}

// Rerate rebuilds the snapshot after the rules of the rater changed.
func (r *Registry) Rerate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rebuild("", nil)
}

func (r *Registry) rebuild(owner string, updated []string) {
	last := r.current.Load()
	b := builder{claims: r.claims, next: map[string]claim{}, rater: r.rater, snap: &Snapshot{
		Revision: last.Revision + 1, tools: map[string]*Tool{},
	}}
	owners := slices.Sorted(maps.Keys(r.offers))
	tools := map[string][]*Tool{}
	for _, owner := range owners {
		tools[owner] = b.reserve(owner, r.offers[owner], last)
	}
	for _, owner := range owners {
		b.add(owner, r.offers[owner], tools[owner])
	}
	b.finish()
	b.updates(last, owner, updated)
	r.claims = map[string]string{}
	for name, c := range b.next {
		r.claims[name] = c.owner
	}
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

func (c Conflict) String() string { return fmt.Sprintf("%s (%s)", c.Err.Message, c.Err.Ref) }
