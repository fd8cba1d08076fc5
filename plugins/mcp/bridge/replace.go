package bridge

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
)

// reconfigure takes new settings over: servers whose block is the same go on.
func (b *Bridge) reconfigure(ctx context.Context, old, new *settings.Settings) (bool, error) {
	if old.Management != new.Management {
		return false, nil
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	b.setFile(new)
	b.replace(new, b.wanted(new))
	if new.Management && (old.WrapperMode != new.WrapperMode || !slices.Equal(old.AllowHosts, new.AllowHosts)) {
		return true, b.plugin.Offers().Set("management", b.management(new))
	}
	return true, nil
}

// replace puts servers in place of those there are; those that stay the same go on,
// under the new settings. b.changing is held.
func (b *Bridge) replace(new *settings.Settings, servers []settings.Server) {
	want := map[string]settings.Server{}
	var order []string
	for _, conf := range servers {
		key := strings.ToLower(conf.Name)
		want[key] = conf
		order = append(order, key)
	}
	b.mu.Lock()
	var gone []*server
	for key, s := range b.servers {
		conf, wanted := want[key]
		switch {
		case s.agent && !s.conf.FromFile && !wanted:
			order = append(order, key) // it stands in the state
		case !wanted || (s.agent && !s.conf.FromFile) || !reflect.DeepEqual(s.conf, conf):
			gone = append(gone, s)
			delete(b.servers, key)
		}
	}
	b.order = nil
	var fresh, kept []*server
	for _, key := range order {
		if s := b.servers[key]; s != nil {
			b.order = append(b.order, key)
			kept = append(kept, s)
			continue
		}
		one := b.add(want[key], want[key].Agents)
		one.settings.Store(new)
		fresh = append(fresh, one)
	}
	run := b.run
	b.mu.Unlock()
	b.dropTasks(gone, func(identity string) bool {
		return slices.ContainsFunc(fresh, func(f *server) bool { return f.id == identity && f.conf.Tasks })
	})
	var wg sync.WaitGroup
	for _, s := range gone {
		wg.Go(s.halt)
	}
	wg.Wait()
	for _, s := range gone {
		i := slices.IndexFunc(fresh, func(f *server) bool { return f.set() == s.set() })
		if i < 0 || !fresh[i].inherit(s) {
			b.plugin.Offers().Remove(s.set())
		}
	}
	for _, s := range kept {
		s.adopt(new)
	}
	b.renamed()
	if run != nil {
		for _, s := range fresh {
			s.start(run)
		}
	}
	if err := b.offerFollowers(new, servers); err != nil {
		b.plugin.Logger().Warn("tools that follow the servers are not offered", "error", err)
	}
}

// adopt puts a server that goes on under other settings. Its connection stays, unless
// it was made by what changed.
func (s *server) adopt(new *settings.Settings) {
	if s.inForce() == new {
		return
	}
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	fixed := func() string { return s.fixed(l) }
	before := fixed()
	s.settings.Store(new)
	if full := s.full.Load(); full != nil && !s.hidden() {
		v := s.publish(full) // time-outs and exposures stand in the offer
		if l != nil {
			l.view.Store(v)
		}
	}
	if l != nil && fixed() != before {
		s.renew(l)
	}
	poke(s.retuned)
}

// fixed is what a connection has of the settings beside the server's block, as long as
// it lasts.
func (s *server) fixed(l *link) string {
	c := s.inForce()
	out := fmt.Sprint(s.asks())
	if s.agent {
		out += fmt.Sprint(c.AllowHosts)
	}
	if l != nil && l.conn.Known.Transport == downstream.SSE {
		out += c.CallTimeout(&s.conf).String()
	}
	return out
}

// successor is the server that has taken this one's name; nil = none has.
func (s *server) successor() *server {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if next := s.b.servers[strings.ToLower(s.conf.Name)]; next != s {
		return next
	}
	return nil
}

// inherit offers what an earlier server of the same name had, as far as the new
// settings let it, until the new one has looked for itself: calls wait for it
// meanwhile. It reports whether it did.
func (s *server) inherit(old *server) bool {
	full := old.full.Load()
	source := func(c settings.Server) string {
		c.AllowedTools, c.DeniedTools = nil, nil
		return identity(&c)
	}
	if full == nil || s.status().State == stateRefused || old.hidden() {
		return false
	}
	s.borrowed.Store(source(s.conf) != source(old.conf))
	s.publish(full)
	return true
}
