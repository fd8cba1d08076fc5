package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
)

// tools lists the registry: all of it, or what an agent sees.
func (a *API) tools(r *http.Request, who who) (any, error) {
	snap, id := a.Registry.Snapshot(), r.Header.Get(api.HeaderSession)
	list := snap.Tools()
	all, err := flag(r, "all", false)
	if err != nil {
		return nil, err
	}
	switch {
	case all && !who.operator: // what is on demand too
		list = listing.Callable(snap, who.agent)
	case !who.operator || id != "" || r.Header.Get(api.HeaderAgent) != "":
		var active map[string]bool
		if id != "" {
			s, err := a.Sessions.Lookup(r.Context(), who.agent, id)
			if err != nil {
				return nil, err
			}
			active = s.Active()
		}
		list = listing.List(snap, who.agent, active, a.Budget)
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
	if t.Title != "" {
		m["title"] = t.Title
	}
	if s := content.Valid(t.OutputSchema); s != nil {
		m["outputSchema"] = s
	}
	if s := content.Valid(t.Annotations); s != nil {
		m["annotations"] = s
	}
	return m
}

func (a *API) tool(r *http.Request, who who) (any, error) {
	name, snap := r.PathValue("name"), a.Registry.Snapshot()
	visible := who.agent.Allows
	if who.operator && r.Header.Get(api.HeaderAgent) == "" {
		visible = func(*registry.Tool) bool { return true }
	}
	t, ok := snap.Resolve(name)
	if !ok || !visible(t) {
		return nil, fault.New(fault.UnknownTool, "no tool %.80q%s", name, suggestion(snap.Near(name, 3, visible)))
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
	return fault.New(fault.BadArguments, "unknown format %.40q: mcp, openai or anthropic", format)
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

func (a *API) guides(*http.Request, who) (any, error) {
	out := []api.Guide{}
	for _, g := range a.Registry.Snapshot().Guides {
		out = append(out, api.Guide{Name: g.Name, Summary: g.Summary, Plugin: g.Owner})
	}
	return out, nil
}

func (a *API) guide(r *http.Request, _ who) (any, error) {
	snap := a.Registry.Snapshot()
	g, ok := snap.Guide(r.PathValue("name"))
	if !ok {
		names := make([]string, len(snap.Guides))
		for i, x := range snap.Guides {
			names[i] = x.Name
		}
		return nil, fault.New(fault.UnknownGuide, "no guide %.80q; there are: %s", r.PathValue("name"), strings.Join(names, ", "))
	}
	return api.Guide{Name: g.Name, Summary: g.Summary, Plugin: g.Owner, Markdown: g.Markdown}, nil
}
