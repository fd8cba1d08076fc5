package mcpserver

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Core is what the doors open to. Its fields are set once.
type Core struct {
	Version   string
	Pipeline  *call.Pipeline
	Registry  *registry.Registry
	Sessions  *session.Sessions
	Questions *question.Desk
	Store     *store.Store
	Budget    int           // tools listed at most before fit ones go on demand
	Hold      time.Duration // how long a call waits for an answer before it says so
	Log       hclog.Logger
	// Media gives the files of a tool's result as blocks, and File what one of them
	// holds, by its id, to the agent that got it.
	Media func(a *policy.Agent, session, tool string, r *pluginv1.Result) []json.RawMessage
	File  func(ctx context.Context, a *policy.Agent, id string) (raw []byte, mime string, err error)

	mu    sync.Mutex
	doors map[doorKey]*door
	lists lists
}

// doorKey is an agent on one kind of transport. Clients over HTTP are let in by
// what their agent is, and lose their door with it; those on streams were let in
// by the operator's hand.
type doorKey struct {
	agent string
	http  bool
}

// anyTool is the one tool the library knows. Every call is turned into a call of
// it before the library sees the message, and the handler reads the real name
// from the message as it came: so no plugin's name or schema enters the library,
// and a list of ten thousand tools costs it nothing.
const anyTool = "_"

// door is the library's server for one agent, shared by all its clients.
type door struct {
	core *Core
	name string                       // of the agent
	who  atomic.Pointer[policy.Agent] // as the rules in force have it
	lib  *server.MCPServer
	http *server.StreamableHTTPServer
	ids  *sessionIDs

	mu       sync.Mutex
	revision uint64            // of the snapshot the door was told of
	list     []byte            // tools/list for a session without activations, at revision
	native   map[string]string // schemas of the tools the library knows by name
	told     uint64            // revision up to whose updates clients were told of
	shown    uint64            // print of the tools they were told of
	offered  [32]byte          // fingerprint of prompts, guides, resources and templates
	follow   followers
	pending  pending  // our own requests to clients over HTTP
	open     inFlight // requests of sessions
}

// door returns an agent's door, making it at first use: the agent as the rules in
// force have it, whenever it was found.
func (core *Core) door(name string, http bool) (*door, error) {
	core.mu.Lock()
	defer core.mu.Unlock()
	agent, err := core.Pipeline.Policy.Agent(name)
	if err != nil {
		return nil, err
	}
	key := doorKey{name, http}
	if d := core.doors[key]; d != nil {
		d.takes(agent)
		return d, nil
	}
	if core.doors == nil {
		core.doors = map[doorKey]*door{}
	}
	d := newDoor(core, agent)
	core.doors[key] = d
	return d, nil
}

// takes gives the door its agent as the rules in force have it.
func (d *door) takes(agent *policy.Agent) {
	if d.who.Swap(agent) == agent {
		return
	}
	d.mu.Lock() // so may what it sees
	d.revision = 0
	d.mu.Unlock()
	d.refresh()
}

// Changed closes the doors that agents had by rules that are no longer in force,
// with the sessions behind them. Clients on streams are told what is new to them.
func (core *Core) Changed(c policy.Changes) {
	core.mu.Lock()
	var closed, kept []*door
	for _, name := range slices.Concat(c.Gone, c.Changed) {
		for _, http := range []bool{true, false} {
			key := doorKey{name, http}
			d := core.doors[key]
			switch {
			case d == nil:
			case !http && slices.Contains(c.Changed, name):
				kept = append(kept, d)
			default:
				delete(core.doors, key)
				closed = append(closed, d)
			}
		}
	}
	core.mu.Unlock()
	for _, d := range closed {
		d.close(context.Background()) // nothing in it waits
	}
	for _, d := range kept {
		if agent, err := core.Pipeline.Policy.Agent(d.name); err == nil {
			d.takes(agent)
		}
		d.tellList()
	}
}

// close ends the sessions and streams of the door's clients over HTTP.
func (d *door) close(ctx context.Context) {
	d.http.CloseSessions(ctx)
	if err := d.http.Shutdown(ctx); err != nil {
		d.core.Log.Debug("an MCP door did not close cleanly", "agent", d.name, "error", err)
	}
	d.ids.forget()
	d.follow.close()
}

func newDoor(core *Core, agent *policy.Agent) *door {
	d := &door{core: core, name: agent.Name, follow: followers{sessions: map[string]*follower{}, streams: map[*listening]*follower{}}}
	d.who.Store(agent)
	hooks := &server.Hooks{}
	hooks.AddBeforeListTools(func(ctx context.Context, _ any, _ *mcp.ListToolsRequest) {
		// Many clients ask once and never again: what is about to be ready belongs in it.
		ctx, end := context.WithTimeout(ctx, call.StartWait)
		defer end()
		_ = core.Pipeline.Settled(ctx) // what is not ready by then comes by list_changed
		d.refresh()
	})
	hooks.AddAfterListTools(func(ctx context.Context, _ any, _ *mcp.ListToolsRequest, _ *mcp.ListToolsResult) {
		d.spliceTools(ctx)
	})
	hooks.AddAfterInitialize(func(ctx context.Context, _ any, in *mcp.InitializeRequest, r *mcp.InitializeResult) {
		if text := core.instructions(d.agent()); text != "" {
			r.Instructions = text
		}
		switch c := server.ClientSessionFromContext(ctx).(type) {
		case *client:
			c.SetProtocolVersion(r.ProtocolVersion)
		case server.ClientSession:
			d.ids.initialized(c.SessionID(), in.Params.Capabilities)
		}
	})
	hooks.AddAfterSetLevel(func(ctx context.Context, _ any, r *mcp.SetLevelRequest, _ *mcp.EmptyResult) {
		if c := server.ClientSessionFromContext(ctx); c != nil {
			d.ids.wants(c.SessionID(), r.Params.Level)
		}
	})
	hooks.AddBeforeSubscribe(func(ctx context.Context, _ any, r *mcp.SubscribeRequest) { d.subscribe(ctx, r.Params.URI, true) })
	hooks.AddBeforeUnsubscribe(func(ctx context.Context, _ any, r *mcp.UnsubscribeRequest) { d.subscribe(ctx, r.Params.URI, false) })
	hooks.AddBeforeSubscriptionsListen(func(ctx context.Context, _ any, r *mcp.SubscriptionsListenRequest) {
		d.listen(ctx, r.Params.Notifications)
	})
	hooks.AddOnUnregisterSession(func(_ context.Context, s server.ClientSession) { d.follow.left(s.SessionID()) })
	d.lib = server.NewMCPServer("bulkhead", core.Version,
		server.WithToolCapabilities(true), server.WithPromptCapabilities(true), server.WithResourceCapabilities(true, true),
		server.WithLogging(), server.WithCompletions(), server.WithHooks(hooks), server.WithRecovery(),
		server.WithPromptCompletionProvider(completion{d}), server.WithResourceCompletionProvider(completion{d}))
	d.ids = &sessionIDs{door: d, open: map[string]*httpSession{}}
	d.http = newHTTP(d)
	d.refresh()
	d.shown, d.told = d.print(), core.Registry.Snapshot().Revision
	return d
}

// agent is who the door's clients act as now.
func (d *door) agent() *policy.Agent { return d.who.Load() }

// Run tells every door of changes until ctx ends.
func (core *Core) Run(ctx context.Context) {
	changed, end := core.Registry.Watch()
	defer end()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		for _, d := range core.all() {
			d.changed()
		}
	}
}

// all are the doors that are open now.
func (core *Core) all() []*door {
	core.mu.Lock()
	defer core.mu.Unlock()
	return slices.Collect(maps.Values(core.doors))
}

// Close ends the streams of all clients.
func (core *Core) Close(ctx context.Context) {
	core.mu.Lock()
	defer core.mu.Unlock()
	for _, d := range core.doors {
		d.close(ctx)
	}
	core.doors = nil
}

// changed brings the door up to date and tells its clients what is new to them.
func (d *door) changed() {
	d.refresh()
	d.tellList()
	snap := d.core.Registry.Snapshot()
	d.mu.Lock()
	before := d.told
	d.told = max(d.told, snap.Revision)
	d.mu.Unlock()
	d.tellUpdates(snap, before)
}

// tellList tells the door's clients when what they may list, or activate, is
// another than they were told of.
func (d *door) tellList() {
	print := d.print()
	d.mu.Lock()
	news := d.shown != print
	d.shown = print
	d.mu.Unlock()
	if news {
		d.lib.SendNotificationToAllClients(string(mcp.MethodNotificationToolsListChanged), nil)
	}
}

// print tells one state of the tools from another: what is listed, and what may be.
func (d *door) print() uint64 {
	h := maphash.Hash{}
	h.SetSeed(listSeed)
	_, _ = h.Write(d.listed()) // it never fails
	for _, t := range listing.Callable(d.core.Registry.Snapshot(), d.agent()) {
		entry, err := t.Entry(toolJSON)
		if err != nil {
			continue // it is not listed either
		}
		_, _ = h.Write(entry)
	}
	return h.Sum64()
}

// refresh gives the library what is new in the current snapshot. The library tells
// clients itself of everything it is given, so that is only what changed.
func (d *door) refresh() {
	snap := d.core.Registry.Snapshot()
	d.mu.Lock()
	if d.revision == snap.Revision {
		d.mu.Unlock()
		return
	}
	d.revision, d.list = snap.Revision, nil
	d.mu.Unlock()
	if tools, changed := d.tools(snap); changed {
		d.lib.SetTools(tools...)
	}
	if d.offersChanged(snap) {
		d.lib.SetPrompts(d.prompts(snap)...)
		d.lib.SetResources(d.resources(snap)...)
		d.lib.SetResourceTemplates(d.templates(snap)...)
	}
}

// instructions joins the orientation texts that apply to the agent's list.
func (core *Core) instructions(agent *policy.Agent) string {
	return orientation(core.Registry.Snapshot(), agent, core.Budget)
}

type rawObject = map[string]json.RawMessage
