package bridge

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Version of the plugin.
const Version = "0.1.0"

//go:embed guide.md
var guide string

// Bridge is the plugin's state.
type Bridge struct {
	plugin *sdk.Plugin
	conf   *sdk.Config[settings.Settings]

	mu      sync.Mutex
	servers map[string]*server // by lower-case name
	order   []string           // of the settings, then the registered ones
	run     context.Context    // background work; nil before Activate
	stopped bool
	pins    pins
	recent  recent

	changing sync.Mutex // held while servers are added and removed as a whole
	file     *jsonFile  // the mcp.json; nil = none

	names   names
	pending pending
	tasks   tasks
	// background is what Activate starts and Drain waits for, beside the servers.
	background sync.WaitGroup
}

// Plugin builds the plugin.
func Plugin() *sdk.Plugin { return newBridge().plugin }

func newBridge() *Bridge {
	b := &Bridge{servers: map[string]*server{}}
	b.conf = sdk.NewConfig(settings.Defaults())
	b.conf.Validate = settings.Validate
	b.conf.Configure = b.configure
	b.conf.Reconfigure = b.reconfigure
	b.plugin = &sdk.Plugin{
		Name: "mcp", Version: Version, Settings: b.conf,
		Guides:   []sdk.Guide{{Name: "mcp", Summary: "Using tools, prompts and resources of MCP servers.", Markdown: guide}},
		Grants:   []string{"shared", "tool:llm_generate"},
		Sandbox:  sdk.Sandbox{Profile: "launcher", Network: "all"},
		Swap:     sdk.Handover,
		Activate: b.activate, Drain: b.drain, Health: b.health, Complete: b.complete,
	}
	return b
}

func (b *Bridge) configure(_ context.Context, s *settings.Settings) error {
	if s.Management {
		if err := b.plugin.Offers().Set("management", b.management(s)); err != nil {
			return err
		}
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	b.setFile(s)
	servers := b.wanted(s)
	if err := b.offerFollowers(s, servers); err != nil {
		return err
	}
	b.mu.Lock()
	for _, conf := range servers {
		b.add(conf, conf.Agents).settings.Store(s)
	}
	b.mu.Unlock()
	all := b.all()
	for _, one := range all {
		if one.state != stateRefused {
			one.recall()
		}
	}
	b.plugin.Offers().SetPending(len(all) > 0)
	return nil
}

// setFile takes the mcp.json of the settings over and reads it; b.changing is held.
func (b *Bridge) setFile(s *settings.Settings) {
	b.mu.Lock()
	old, following := b.file, b.run != nil
	b.mu.Unlock()
	var now *jsonFile
	switch {
	case s.MCPJSON == "":
	case old != nil && old.path == s.MCPJSON:
		now = old
	default:
		now = newJSONFile(b, s.MCPJSON)
	}
	if now != nil {
		now.mu.Lock()
		now.load(s)
		now.mu.Unlock()
	}
	if old == now {
		return
	}
	b.mu.Lock()
	b.file = now
	run := b.run
	b.mu.Unlock()
	if old != nil {
		go old.end(following) // it may be waiting for this change to be over
	}
	if now != nil && run != nil {
		go now.follow(run)
	}
}

// wanted are the servers of the settings and of the mcp.json. A block wins over an
// entry of its name, and of entries that are one and the same server one is kept:
// the one a default_server names, else the operator's, else the first by name.
func (b *Bridge) wanted(s *settings.Settings) []settings.Server {
	out := slices.Clone(s.Servers)
	entries := b.entries()
	rank := func(x settings.Server) int {
		switch {
		case slices.ContainsFunc(s.DefaultServers, func(d settings.DefaultServer) bool { return strings.EqualFold(d.Name, x.Name) }):
			return 0
		case !x.Agents:
			return 1
		}
		return 2
	}
	blocks := len(out)
	for _, e := range entries {
		same := slices.IndexFunc(out, func(x settings.Server) bool { return strings.EqualFold(x.Name, e.Name) })
		if same < 0 && e.Problem == "" {
			same = slices.IndexFunc(out, func(x settings.Server) bool { return x.Problem == "" && identity(&x) == identity(&e.Server) })
		}
		switch {
		case same < 0:
			out = append(out, e.Server)
		case same >= blocks && (rank(e.Server) < rank(out[same]) || rank(e.Server) == 2 && rank(out[same]) == 2 && e.Name < out[same].Name):
			b.plugin.Logger().Warn("an entry of the mcp.json is left out: another is the same server", "server", out[same].Name, "kept", e.Name)
			out[same] = e.Server
		default:
			b.plugin.Logger().Warn("an entry of the mcp.json is left out: another has its name or is the same server", "server", e.Name, "kept", out[same].Name)
		}
	}
	for _, d := range s.DefaultServers {
		if !slices.ContainsFunc(out, func(x settings.Server) bool { return sameURL(x.URL, d.URL) }) {
			out = append(out, settings.Server{Name: d.Name, URL: d.URL})
		}
	}
	return out
}

// entries are the servers of the mcp.json.
func (b *Bridge) entries() []settings.FromJSON {
	b.mu.Lock()
	f := b.file
	b.mu.Unlock()
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.servers)
}

// add makes a server; b.mu is held.
func (b *Bridge) add(conf settings.Server, agent bool) *server {
	key := strings.ToLower(conf.Name)
	s := newServer(b, conf, agent)
	b.servers[key] = s
	b.order = append(b.order, key)
	return s
}

func (b *Bridge) activate(ctx context.Context) error {
	registered, err := b.loadRegistered(ctx)
	if err != nil {
		b.plugin.Logger().Warn("registered servers can't be read", "error", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.run = ctx
	for _, conf := range registered {
		if b.servers[strings.ToLower(conf.Name)] == nil {
			b.add(conf, true)
		}
	}
	for _, key := range b.order {
		b.servers[key].start(ctx)
	}
	if f := b.file; f != nil {
		go f.follow(ctx)
	}
	b.background.Go(func() { b.tasks.start(ctx, b) })
	return nil
}

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

// drain stops owners. Connections that calls still use end with these.
func (b *Bridge) drain(ctx context.Context, _ string) error {
	b.mu.Lock()
	b.stopped = true
	all := slices.Collect(maps.Values(b.servers))
	file, following := b.file, b.run != nil
	b.mu.Unlock()
	var wg sync.WaitGroup
	if file != nil {
		wg.Go(func() { file.end(following) })
	}
	wg.Go(func() { b.background.Wait(); b.tasks.end() })
	for _, s := range all {
		wg.Go(s.halt)
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("servers still end: %w", ctx.Err())
	}
}

// all gives the servers in their order.
func (b *Bridge) all() []*server {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]*server, 0, len(b.order))
	for _, key := range b.order {
		out = append(out, b.servers[key])
	}
	return out
}

// find gives a server by name, in any case.
func (b *Bridge) find(name string) (*server, error) {
	b.mu.Lock()
	s := b.servers[strings.ToLower(strings.TrimSpace(name))]
	b.mu.Unlock()
	if s != nil {
		return s, nil
	}
	var names []string
	for _, s := range b.all() {
		names = append(names, s.conf.Name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return nil, sdk.Errorf(sdk.ToolNotFound, "there is no MCP server %q; none is configured", name)
	}
	return nil, sdk.Errorf(sdk.ToolNotFound, "there is no MCP server %q; there are: %s", name, strings.Join(names, ", "))
}

// health names what is not as it should be.
func (b *Bridge) health(context.Context) sdk.Health {
	all := b.all()
	var bad, notes []string
	ready := 0
	for _, s := range all {
		st := s.status()
		switch {
		case st.State == stateReady:
			ready++
			if st.Note != "" {
				notes = append(notes, fmt.Sprintf("%s: %s", s.conf.Name, st.Note))
			}
		case st.Reason != "":
			bad = append(bad, fmt.Sprintf("%s: %s", s.conf.Name, st.Reason))
		default:
			notes = append(notes, fmt.Sprintf("%s: %s", s.conf.Name, st.State))
		}
	}
	b.mu.Lock()
	f := b.file
	b.mu.Unlock()
	if f != nil && f.problem() != "" {
		bad = append(bad, f.problem())
	}
	detail := fmt.Sprintf("%d of %d servers connected", ready, len(all))
	if rest := append(bad, notes...); len(rest) > 0 {
		detail += "; " + strings.Join(rest, "; ")
	}
	return sdk.Health{Degraded: len(bad) > 0, Detail: clip(detail, 4000)}
}

// settled tells the host that no first connect is under way any more.
func (b *Bridge) settled() {
	for _, s := range b.all() {
		if !s.tried() {
			return
		}
	}
	b.plugin.Offers().SetPending(false)
}
