package httpapi

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
)

// tools lists the registry: all of it, or what an agent sees.
func (a *API) tools(r *http.Request) (any, error) {
	list := a.Registry.Snapshot().Tools()
	if r.Header.Get(api.HeaderAgent) != "" || r.Header.Get(api.HeaderSession) != "" {
		agent, err := a.agent(r)
		if err != nil {
			return nil, err
		}
		var active map[string]bool
		if id := r.Header.Get(api.HeaderSession); id != "" {
			s, err := a.Sessions.Lookup(r.Context(), agent, id)
			if err != nil {
				return nil, err
			}
			active = s.Active()
		}
		list = listing.List(a.Registry.Snapshot(), agent, active, a.Budget)
	}
	switch format := r.URL.Query().Get("format"); format {
	case "":
		out := make([]api.Tool, len(list))
		for i, t := range list {
			out[i] = toolView(t)
		}
		return out, nil
	case "mcp", "openai", "anthropic":
		out := []any{}
		for _, t := range list {
			if !t.Internal() {
				out = append(out, formatted(t, format))
			}
		}
		return out, nil
	default:
		return nil, badFormat(format)
	}
}

func formatted(t *registry.Tool, format string) any {
	schema := json.RawMessage(t.InputSchema)
	switch format {
	case "openai":
		return map[string]any{"type": "function", "function": map[string]any{"name": t.Name, "description": t.Description, "parameters": schema}}
	case "anthropic":
		return map[string]any{"name": t.Name, "description": t.Description, "input_schema": schema}
	}
	m := map[string]any{"name": t.Name, "description": t.Description, "inputSchema": schema}
	if s := content.Valid(t.OutputSchema); s != nil {
		m["outputSchema"] = s
	}
	if s := content.Valid(t.Annotations); s != nil {
		m["annotations"] = s
	}
	return m
}

func (a *API) tool(r *http.Request) (any, error) {
	name, snap := r.PathValue("name"), a.Registry.Snapshot()
	visible := func(*registry.Tool) bool { return true }
	if r.Header.Get(api.HeaderAgent) != "" {
		agent, err := a.agent(r)
		if err != nil {
			return nil, err
		}
		visible = agent.Allows
	}
	t, ok := snap.Resolve(name)
	if !ok || !visible(t) {
		return nil, fault.New(fault.UnknownTool, "no tool %q%s", name, suggestion(snap.Near(name, 3, visible)))
	}
	switch format := r.URL.Query().Get("format"); format {
	case "":
		return toolView(t), nil
	case "mcp", "openai", "anthropic":
		return formatted(t, format), nil
	default:
		return nil, badFormat(format)
	}
}

func badFormat(format string) error {
	return fault.New(fault.BadArguments, "unknown format %q: mcp, openai or anthropic", format)
}

func suggestion(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, ", ") + "?"
}

func toolView(t *registry.Tool) api.Tool {
	word := func(enum, prefix string) string { return strings.ToLower(strings.TrimPrefix(enum, prefix)) }
	v := api.Tool{Name: t.Name, Description: t.Description, Source: t.Source, Plugin: t.Owner, Group: t.Rating.Group,
		Tier: word(t.Rating.Tier.String(), "TIER_"), Exposure: word(t.Rating.Exposure.String(), "EXPOSURE_"), Visibility: "agents",
		InputSchema: t.InputSchema, OutputSchema: content.Valid(t.OutputSchema), Annotations: content.Valid(t.Annotations), Note: t.Mended}
	if t.Internal() {
		v.Visibility = "internal"
	}
	if v.Source == "" {
		v.Source = t.Owner
	}
	return v
}

func (a *API) guides(*http.Request) (any, error) {
	out := []api.Guide{}
	for _, g := range a.Registry.Snapshot().Guides {
		out = append(out, api.Guide{Name: g.Name, Summary: g.Summary, Plugin: g.Owner})
	}
	return out, nil
}

func (a *API) guide(r *http.Request) (any, error) {
	snap := a.Registry.Snapshot()
	g, ok := snap.Guide(r.PathValue("name"))
	if !ok {
		names := make([]string, len(snap.Guides))
		for i, x := range snap.Guides {
			names[i] = x.Name
		}
		return nil, fault.New(fault.UnknownGuide, "no guide %q; there are: %s", r.PathValue("name"), strings.Join(names, ", "))
	}
	return api.Guide{Name: g.Name, Summary: g.Summary, Plugin: g.Owner, Markdown: g.Markdown}, nil
}

func (a *API) inbox(r *http.Request) (any, error) {
	agent, err := a.agent(r)
	if err != nil {
		return nil, err
	}
	s, err := a.Sessions.Lookup(r.Context(), agent, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	after, err := number(r, "after")
	if err != nil {
		return nil, err
	}
	items, err := a.Store.InboxRead(r.Context(), s.ID, after, 1000)
	if err != nil {
		return nil, err
	}
	out := make([]api.InboxItem, len(items))
	for i, it := range items {
		out[i] = api.InboxItem{Seq: it.Seq, At: it.At, Kind: it.Kind, Text: it.Text, Data: content.Valid(it.Data)}
	}
	return out, nil
}

func number(r *http.Request, name string) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fault.New(fault.BadArguments, "%s is a number, not %q", name, text)
	}
	return n, nil
}

// events answers the kept tail as JSON lines; with follow=true it goes on.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	after, err := number(r, "after")
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", ndjson)
	out := lines{w: w, rc: http.NewResponseController(w)}
	var tail []event.Event
	var next <-chan event.Event
	if r.URL.Query().Get("follow") == "true" {
		var end func()
		tail, next, end = a.Events.Follow(after)
		defer end()
	} else {
		tail = a.Events.Tail(after)
	}
	for _, e := range tail {
		out.send(e)
	}
	keepalive := time.NewTicker(15 * time.Second)
	defer keepalive.Stop()
	for next != nil {
		select {
		case e := <-next:
			out.send(e)
		case <-keepalive.C:
			out.send(struct{}{})
		case <-r.Context().Done():
			return
		}
	}
}

// mcp turns the connection into a stream of MCP messages, for a client that
// speaks stdio to `bulkhead mcp`.
func (a *API) mcp(w http.ResponseWriter, r *http.Request) {
	agent, err := a.agent(r)
	if err != nil {
		fail(w, err)
		return
	}
	s, err := a.Sessions.Open(r.Context(), agent, r.Header.Get(api.HeaderSession))
	if err != nil {
		fail(w, err)
		return
	}
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		fail(w, err)
		return
	}
	defer c.Close()
	if err := c.SetDeadline(time.Time{}); err != nil {
		return
	}
	if _, err := c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mcp\r\n\r\n")); err != nil {
		return
	}
	stop := contextClose(r.Context(), c)
	defer stop()
	// The server's own reader ends the request's context with its input, and what
	// is in flight would get no answer: only what it holds already comes from it.
	early, err := buffered.Peek(buffered.Reader.Buffered())
	if err != nil {
		return
	}
	in := io.MultiReader(bytes.NewReader(early), c)
	if err := a.MCP.Serve(r.Context(), agent, s, in, c); err != nil {
		a.Log.Debug("an MCP client left", "session", s.ID, "error", err)
	}
}
