package sdk

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Offers is what a plugin offers right now: its static offer and any number of
// named sets, such as one for each server a bridge is connected to. Every change
// is one new revision for the host. All methods may be called at any time.
type Offers struct {
	mu       sync.Mutex
	static   Offer
	sets     map[string]Offer
	order    []string // of the sets, as first added: keeps lists stable
	revision uint64
	pending  bool
	updated  []string // resources whose content changed since the last snapshot
	changed  chan struct{}
	index    *offerIndex
}

// offerIndex is an immutable view by name.
type offerIndex struct {
	all       Offer
	tools     map[string]*Tool
	prompts   map[string]Prompt
	resources map[string]Resource
}

func newOffers(static Offer) *Offers {
	o := &Offers{static: static, sets: map[string]Offer{}, changed: make(chan struct{}), revision: 1}
	o.index = o.build()
	return o
}

// Set puts a named set in place of the one it had before. Its tools and prompts
// with a mistake, or with a name that an earlier set offers, are left out and named
// in the error; the rest of the set is offered.
func (o *Offers) Set(name string, offer Offer) error {
	offer, err := soundPart(offer)
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.sets[name]; !ok {
		o.order = append(o.order, name)
	}
	o.sets[name] = offer
	o.bump()
	return errors.Join(err, o.clashes(name))
}

// Remove takes a named set away.
func (o *Offers) Remove(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.sets[name]; !ok {
		return
	}
	delete(o.sets, name)
	o.order = slices.DeleteFunc(o.order, func(n string) bool { return n == name })
	o.bump()
}

// SetPending tells the host that more is expected soon, while servers connect.
func (o *Offers) SetPending(pending bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending != pending {
		o.pending = pending
		o.bump()
	}
}

// ResourceUpdated tells that the content of resources changed.
func (o *Offers) ResourceUpdated(uris ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.updated = append(o.updated, uris...)
	o.bump()
}

// bump publishes a new revision; o.mu is held.
func (o *Offers) bump() {
	o.revision++
	o.index = o.build()
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *Offers) build() *offerIndex {
	ix := &offerIndex{tools: map[string]*Tool{}, prompts: map[string]Prompt{}, resources: map[string]Resource{}}
	add := func(s Offer) {
		for _, t := range s.Tools {
			if _, taken := ix.tools[t.spec.name]; !taken {
				ix.tools[t.spec.name] = t
				ix.all.Tools = append(ix.all.Tools, t)
			}
		}
		for _, p := range s.Prompts {
			if _, taken := ix.prompts[p.Name]; !taken {
				ix.prompts[p.Name] = p
				ix.all.Prompts = append(ix.all.Prompts, p)
			}
		}
		for _, r := range s.Resources {
			if _, taken := ix.resources[r.URI]; !taken {
				ix.resources[r.URI] = r
				ix.all.Resources = append(ix.all.Resources, r)
			}
		}
		ix.all.Templates = append(ix.all.Templates, s.Templates...)
		ix.all.Guides = append(ix.all.Guides, s.Guides...)
		ix.all.Orientation = append(ix.all.Orientation, s.Orientation...)
	}
	add(o.static)
	for _, name := range o.order {
		add(o.sets[name])
	}
	return ix
}

// clashes names what one set offers under a name which is taken: the first keeps it.
func (o *Offers) clashes(of string) error {
	var errs []error
	refuse := func(kind, name, set, first string) {
		if set == of {
			errs = append(errs, fmt.Errorf("%s %q of %q is left out: %q offers that name", kind, name, set, first))
		}
	}
	owner := map[string]string{}
	look := func(set string, s Offer) {
		for _, t := range s.Tools {
			if first, taken := owner["tool "+t.spec.name]; taken {
				refuse("tool", t.spec.name, set, first)
				continue
			}
			owner["tool "+t.spec.name] = set
		}
		for _, p := range s.Prompts {
			if first, taken := owner["prompt "+p.Name]; taken {
				refuse("prompt", p.Name, set, first)
				continue
			}
			owner["prompt "+p.Name] = set
		}
	}
	look("the plugin", o.static)
	for _, name := range o.order {
		look(name, o.sets[name])
	}
	return errors.Join(errs...)
}

// soundPart keeps what has no mistake of its own.
func soundPart(offer Offer) (Offer, error) {
	err := checkOffer(offer)
	if err == nil {
		return offer, nil
	}
	sound := offer
	sound.Tools, sound.Prompts, sound.Resources, sound.Templates, sound.Guides, sound.Orientation = nil, nil, nil, nil, nil, nil
	keep := func(part Offer) bool { return checkOffer(part) == nil }
	for _, t := range offer.Tools {
		if keep(Offer{Tools: []*Tool{t}}) && keep(Offer{Tools: append(slices.Clone(sound.Tools), t)}) {
			sound.Tools = append(sound.Tools, t)
		}
	}
	for _, p := range offer.Prompts {
		if keep(Offer{Prompts: []Prompt{p}}) {
			sound.Prompts = append(sound.Prompts, p)
		}
	}
	for _, r := range offer.Resources {
		if keep(Offer{Resources: []Resource{r}}) {
			sound.Resources = append(sound.Resources, r)
		}
	}
	for _, t := range offer.Templates {
		if keep(Offer{Templates: []ResourceTemplate{t}}) {
			sound.Templates = append(sound.Templates, t)
		}
	}
	for _, g := range offer.Guides {
		if keep(Offer{Guides: []Guide{g}}) {
			sound.Guides = append(sound.Guides, g)
		}
	}
	for _, t := range offer.Orientation {
		if keep(Offer{Orientation: []Orientation{t}}) {
			sound.Orientation = append(sound.Orientation, t)
		}
	}
	return sound, err
}

func (o *Offers) view() *offerIndex {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.index
}
