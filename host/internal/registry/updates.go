package registry

import "strings"

const (
	// MaxURI is how long a resource's address is at most, in bytes, for its changes
	// to be told.
	MaxURI = 2048
	// keptUpdates is how many changes a snapshot remembers: whoever follows looks
	// after every revision, and sees those it was too slow for.
	keptUpdates = 4096
	// Inbox is the address of the inbox of whoever asks; GuidePrefix begins those of
	// guides. Both are the host's own.
	Inbox       = "inbox://session"
	GuidePrefix = "guide://"
	FilePrefix  = "shared://" // and the id of a result's file
)

// HostsOwn says whether only the host may offer a resource of this address, and say
// that it changed.
func HostsOwn(uri string) bool {
	return uri == Inbox || strings.HasPrefix(uri, GuidePrefix) || strings.HasPrefix(uri, FilePrefix)
}

// updates notes what changed: what owner says of its resources, and guides whose
// text is another. Nobody speaks for a resource that somebody else offers.
func (b *builder) updates(last *Snapshot, owner string, said []string) {
	s := b.snap
	seen := map[string]bool{}
	note := func(owner, uri string) {
		if !seen[uri] && len(uri) <= MaxURI {
			seen[uri] = true
			s.Updates = append(s.Updates, Update{s.Revision, owner, uri})
		}
	}
	s.Updates = last.Updates[:len(last.Updates):len(last.Updates)]
	for _, uri := range said {
		if c, taken := b.next[key("resource", uri)]; !HostsOwn(uri) && (!taken || c.owner == owner) {
			note(owner, uri)
		}
	}
	was := make(map[string]string, len(last.Guides))
	for _, g := range last.Guides {
		was[g.Name] = g.Markdown
	}
	for _, g := range s.Guides {
		if text, known := was[g.Name]; known && text != g.Markdown {
			note(g.Owner, GuidePrefix+g.Name)
		}
	}
	if n := len(s.Updates); n > keptUpdates {
		s.Updates = append([]Update(nil), s.Updates[n-keptUpdates:]...)
	}
}
