package bridge

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

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
