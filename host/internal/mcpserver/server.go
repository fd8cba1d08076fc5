package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
)

// Core is what the door opens to. Its fields are set once.
type Core struct {
	Version   string
	Pipeline  *call.Pipeline
	Registry  *registry.Registry
	Questions *question.Desk
	Store     *store.Store
	Budget    int           // tools listed at most before fit ones go on demand
	Hold      time.Duration // how long a call waits for an answer before it says so
	Log       hclog.Logger
}

// Serve speaks MCP on a pair of streams, as agent and in session s, until the
// input ends or ctx does. The caller closes the streams.
func (core *Core) Serve(ctx context.Context, agent *policy.Agent, s *session.Session, in io.Reader, out io.Writer) error {
	cl := &client{core: core, agent: agent, session: s, notify: make(chan mcp.JSONRPCNotification, 64), level: mcp.LoggingLevelInfo}
	hooks := &server.Hooks{}
	hooks.AddBeforeListTools(func(ctx context.Context, _ any, _ *mcp.ListToolsRequest) {
		// Many clients ask once and never again: what is about to be ready belongs in it.
		ctx, end := context.WithTimeout(ctx, call.StartWait)
		defer end()
		_ = core.Pipeline.Settled(ctx) // what is not ready by then comes by list_changed
	})
	hooks.AddAfterListTools(func(ctx context.Context, _ any, _ *mcp.ListToolsRequest, _ *mcp.ListToolsResult) {
		cl.spliceTools(ctx)
	})
	hooks.AddAfterInitialize(func(_ context.Context, _ any, _ *mcp.InitializeRequest, r *mcp.InitializeResult) {
		cl.SetProtocolVersion(r.ProtocolVersion)
	})
	lib := server.NewMCPServer("bulkhead", core.Version,
		server.WithToolCapabilities(true), server.WithPromptCapabilities(true), server.WithResourceCapabilities(false, true),
		server.WithLogging(), server.WithHooks(hooks), server.WithInstructions(core.instructions(agent)))
	c := &conn{lib: lib, client: cl, in: bufio.NewReaderSize(in, 64<<10), out: out,
		slots: make(chan struct{}, maxInFlight), pending: map[string]chan answered{}}
	cl.conn = c
	if err := lib.RegisterSession(ctx, cl); err != nil {
		return err
	}
	defer lib.UnregisterSession(ctx, cl.SessionID())

	changed, end := core.Registry.Watch()
	defer end()
	active, endActive := s.Watch()
	defer endActive()
	cl.offer()
	ctx, cancel := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		for {
			select {
			case <-changed:
				cl.offer()
			case <-active:
				cl.listChanged()
			case <-ctx.Done():
				return
			}
		}
	}()
	err := c.serve(ctx)
	cancel()
	<-followed
	return err
}

// instructions joins the orientation texts that apply to the agent's list.
func (core *Core) instructions(agent *policy.Agent) string {
	snap := core.Registry.Snapshot()
	listed := map[string]bool{}
	for _, t := range listing.List(snap, agent, nil, core.Budget) {
		listed[t.Name] = true
	}
	var parts []string
	for _, o := range snap.Orientation {
		applies := len(o.AnyListed) == 0
		for _, n := range o.AnyListed {
			applies = applies || listed[n]
		}
		if len(o.ModelTiers) > 0 && !contains(o.ModelTiers, agent.ModelTier) {
			applies = false
		}
		if applies {
			parts = append(parts, o.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// offer tells the library which names there are. It gets every tool the agent may
// call, listed or not, so that a call by name always finds its way; the list
// itself is spliced in by spliceTools.
func (cl *client) offer() {
	snap := cl.core.Registry.Snapshot()
	var tools []server.ServerTool
	for _, t := range listing.Callable(snap, cl.agent) {
		tools = append(tools, server.ServerTool{
			Tool: mcp.Tool{Name: t.Name, RawInputSchema: json.RawMessage(`{"type":"object"}`)}, Handler: cl.callTool})
	}
	cl.conn.lib.SetTools(tools...)
	cl.conn.lib.SetPrompts(cl.prompts(snap)...)
	cl.conn.lib.SetResources(cl.resources(snap)...)
}

// listChanged tells a client of the session era that its own list changed. A
// client of 2026-07-28 has a list that does not depend on its session.
func (cl *client) listChanged() {
	cl.mu.Lock()
	version := cl.session.Version()
	news := version != cl.seen && cl.version != "" && !mcp.IsModernProtocol(cl.version)
	cl.seen = version
	cl.mu.Unlock()
	if news {
		// A client that can't be written to shows at the next read.
		_ = cl.conn.send(map[string]any{"jsonrpc": "2.0", "method": mcp.MethodNotificationToolsListChanged})
	}
}

// spliceTools puts the list this agent sees into the answer, as the plugins'
// own bytes.
func (cl *client) spliceTools(ctx context.Context) {
	var active map[string]bool
	if !server.IsModernRequest(ctx) {
		active = cl.session.Active()
	}
	listed := listing.List(cl.core.Registry.Snapshot(), cl.agent, active, cl.core.Budget)
	items := make([]json.RawMessage, 0, len(listed))
	for _, t := range listed {
		item, err := toolJSON(t)
		if err != nil {
			cl.core.Log.Warn("a tool could not be listed", "tool", t.Name, "plugin", t.Owner, "error", err)
			continue
		}
		items = append(items, item)
	}
	raw, err := json.Marshal(items)
	if err != nil {
		cl.core.Log.Error("the tool list could not be written", "error", err)
		return
	}
	x := exchangeOf(ctx)
	x.splice["tools"], x.splice["nextCursor"] = raw, nil
}

// toolJSON is one entry of tools/list.
func toolJSON(t *registry.Tool) (json.RawMessage, error) {
	entry := struct {
		Name         string          `json:"name"`
		Title        string          `json:"title,omitempty"`
		Description  string          `json:"description,omitempty"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
		Annotations  json.RawMessage `json:"annotations,omitempty"`
		Meta         json.RawMessage `json:"_meta,omitempty"`
		Icons        json.RawMessage `json:"icons,omitempty"`
		Execution    json.RawMessage `json:"execution,omitempty"`
	}{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema,
		OutputSchema: content.Valid(t.OutputSchema), Annotations: content.Valid(t.Annotations)}
	var extra struct {
		Meta      json.RawMessage `json:"_meta"`
		Icons     json.RawMessage `json:"icons"`
		Execution json.RawMessage `json:"execution"`
	}
	if len(t.Meta) > 0 {
		if err := json.Unmarshal(t.Meta, &extra); err != nil {
			return nil, fmt.Errorf("meta: %w", err)
		}
	}
	entry.Meta, entry.Icons, entry.Execution = extra.Meta, extra.Icons, extra.Execution
	return json.Marshal(entry)
}
