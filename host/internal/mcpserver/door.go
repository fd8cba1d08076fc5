package mcpserver

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
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

	mu    sync.Mutex
	doors map[string]*door // by agent
	lists lists
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
	revision uint64 // of the snapshot the door was told of
	list     []byte // tools/list for a session without activations, at revision
	native   map[string]bool
	offered  [32]byte                   // fingerprint of prompts, guides, resources and templates
	follow   map[string]map[string]bool // session → resources it subscribed to
	pending  pending                    // our own requests to clients over HTTP
	cancels  cancels                    // calls that did not pass through the library
}

// door returns the agent's door, making it at first use.
func (core *Core) door(agent *policy.Agent) *door {
	core.mu.Lock()
	defer core.mu.Unlock()
	if d := core.doors[agent.Name]; d != nil {
		if d.who.Swap(agent) != agent { // the rules changed: so may what it sees
			d.mu.Lock()
			d.revision = 0
			d.mu.Unlock()
			d.refresh()
		}
		return d
	}
	if core.doors == nil {
		core.doors = map[string]*door{}
	}
	d := newDoor(core, agent)
	core.doors[agent.Name] = d
	return d
}

func newDoor(core *Core, agent *policy.Agent) *door {
	d := &door{core: core, name: agent.Name, native: map[string]bool{}, follow: map[string]map[string]bool{}}
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
	hooks.AddOnUnregisterSession(func(_ context.Context, s server.ClientSession) {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.follow, s.SessionID())
	})
	d.lib = server.NewMCPServer("bulkhead", core.Version,
		server.WithToolCapabilities(true), server.WithPromptCapabilities(true), server.WithResourceCapabilities(true, true),
		server.WithLogging(), server.WithCompletions(), server.WithHooks(hooks), server.WithRecovery(),
		server.WithPromptCompletionProvider(completion{d}), server.WithResourceCompletionProvider(completion{d}))
	d.ids = &sessionIDs{door: d, open: map[string]*httpSession{}}
	d.http = newHTTP(d)
	d.refresh()
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
		core.mu.Lock()
		doors := make([]*door, 0, len(core.doors))
		for _, d := range core.doors {
			doors = append(doors, d)
		}
		core.mu.Unlock()
		for _, d := range doors {
			d.changed()
		}
	}
}

// Close ends the streams of all clients.
func (core *Core) Close(ctx context.Context) {
	core.mu.Lock()
	defer core.mu.Unlock()
	for _, d := range core.doors {
		d.http.CloseSessions(ctx)
		if err := d.http.Shutdown(ctx); err != nil {
			core.Log.Debug("an MCP door did not close cleanly", "agent", d.name, "error", err)
		}
	}
	core.doors = nil
}

// changed brings the door up to date and tells its clients what is new to them.
func (d *door) changed() {
	before := d.listed()
	if !d.refresh() {
		return
	}
	if string(before) != string(d.listed()) {
		d.lib.SendNotificationToAllClients(string(mcp.MethodNotificationToolsListChanged), nil)
	}
	for _, uri := range d.core.Registry.Snapshot().UpdatedURIs {
		d.updated(uri)
	}
}

// refresh gives the library the prompts and resources of the current snapshot; it
// reports whether there was anything new. The library tells clients itself.
func (d *door) refresh() bool {
	snap := d.core.Registry.Snapshot()
	d.mu.Lock()
	if d.revision == snap.Revision {
		d.mu.Unlock()
		return false
	}
	d.revision, d.list = snap.Revision, nil
	d.mu.Unlock()
	d.lib.SetTools(d.tools(snap)...)
	if d.offersChanged(snap) {
		d.lib.SetPrompts(d.prompts(snap)...)
		d.lib.SetResources(d.resources(snap)...)
		d.lib.SetResourceTemplates(d.templates(snap)...)
	}
	return true
}

// subscribe notes which session wants to hear of which resource.
func (d *door) subscribe(ctx context.Context, uri string, on bool) {
	s := server.ClientSessionFromContext(ctx)
	if s == nil || s.SessionID() == "" || len(uri) > 2048 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	set := d.follow[s.SessionID()]
	switch {
	case !on:
		delete(set, uri)
	case set == nil:
		d.follow[s.SessionID()] = map[string]bool{uri: true}
	case len(set) < maxSubscriptions:
		set[uri] = true
	}
}

const maxSubscriptions = 500 // resources one session may follow

func (d *door) updated(uri string) {
	d.mu.Lock()
	var sessions []string
	for s, set := range d.follow {
		if set[uri] {
			sessions = append(sessions, s)
		}
	}
	d.mu.Unlock()
	for _, s := range sessions {
		// A session that is gone or full has its own way to notice.
		_ = d.lib.SendNotificationToSpecificClient(s, "notifications/resources/updated", map[string]any{"uri": uri})
	}
}

// instructions joins the orientation texts that apply to the agent's list.
func (core *Core) instructions(agent *policy.Agent) string {
	return orientation(core.Registry.Snapshot(), agent, core.Budget)
}

type rawObject = map[string]json.RawMessage
