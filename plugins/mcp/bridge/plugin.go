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
		if err := b.plugin.Offers().Set("management", b.management(s.WrapperMode)); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conf := range declared(s) {
		one := b.add(conf, false)
		one.settings = s
		if conf.Refused() == "" {
			one.recall()
		}
	}
	b.plugin.Offers().SetPending(len(b.servers) > 0)
	return nil
}

// declared are the servers of the settings; a default_server whose URL a block
// has already is that block.
func declared(s *settings.Settings) []settings.Server {
	out := slices.Clone(s.Servers)
	for _, d := range s.DefaultServers {
		if !slices.ContainsFunc(out, func(x settings.Server) bool { return sameURL(x.URL, d.URL) }) {
			out = append(out, settings.Server{Name: d.Name, URL: d.URL})
		}
	}
	return out
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
	return nil
}

// reconfigure takes new settings over: servers whose block is the same go on.
func (b *Bridge) reconfigure(ctx context.Context, old, new *settings.Settings) (bool, error) {
	if old.Management != new.Management {
		return false, nil
	}
	want := map[string]settings.Server{}
	var order []string
	for _, conf := range declared(new) {
		key := strings.ToLower(conf.Name)
		want[key] = conf
		order = append(order, key)
	}
	// What stands beside the blocks acts on all of them.
	general := func(s settings.Settings) settings.Settings {
		s.Servers, s.DefaultServers = nil, nil
		return s
	}
	same := reflect.DeepEqual(general(*old), general(*new))
	b.mu.Lock()
	var gone []*server
	for key, s := range b.servers {
		conf, wanted := want[key]
		switch {
		case s.agent && !wanted:
			order = append(order, key)
		case !wanted || s.agent || !same || !reflect.DeepEqual(s.conf, conf):
			gone = append(gone, s)
			delete(b.servers, key)
		}
	}
	b.order = nil
	var fresh []*server
	for _, key := range order {
		if b.servers[key] != nil {
			b.order = append(b.order, key)
			continue
		}
		one := b.add(want[key], false)
		one.settings = new
		fresh = append(fresh, one)
	}
	run := b.run
	b.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range gone {
		wg.Go(s.halt)
	}
	wg.Wait()
	for _, s := range gone {
		if !slices.ContainsFunc(fresh, func(f *server) bool { return f.conf.Name == s.conf.Name }) {
			b.plugin.Offers().Remove(s.set())
		}
	}
	if run != nil {
		for _, s := range fresh {
			s.start(run)
		}
	}
	if new.Management && old.WrapperMode != new.WrapperMode {
		return true, b.plugin.Offers().Set("management", b.management(new.WrapperMode))
	}
	return true, nil
}

// drain stops owners. Connections that calls still use end with these.
func (b *Bridge) drain(ctx context.Context, _ string) error {
	b.mu.Lock()
	b.stopped = true
	all := slices.Collect(maps.Values(b.servers))
	b.mu.Unlock()
	var wg sync.WaitGroup
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
