package bridge

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/rank"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

type found struct {
	Name        string          `json:"name"`
	Server      string          `json:"server"`
	ServerID    string          `json:"serverId,omitempty"`
	Tool        string          `json:"tool,omitempty"`
	Prompt      string          `json:"prompt,omitempty"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Activated   bool            `json:"activated"`
}

// catalogue is all that can be found, tools first.
func (b *Bridge) catalogue() (tools, prompts []found, toolEntries, promptEntries []rank.Entry) {
	for _, s := range b.all() {
		v := s.last()
		if v == nil {
			continue
		}
		about := s.conf.Name + " " + s.displayName()
		if w := s.written.Load(); w != nil {
			about += " " + w.Text
		}
		for _, t := range v.tools {
			tools = append(tools, found{Name: t.typed, Server: s.conf.Name, ServerID: s.id[:12], Tool: t.Name, Description: t.Description, InputSchema: t.InputSchema})
			toolEntries = append(toolEntries, rank.Entry{Name: t.typed, Leaf: t.Name, Description: t.Title + " " + t.Description, Context: about})
		}
		for _, p := range v.prompts {
			prompts = append(prompts, found{Name: p.typed, Server: s.conf.Name, Prompt: p.Name, Description: p.Description, InputSchema: promptSchema(p.Prompt)})
			promptEntries = append(promptEntries, rank.Entry{Name: p.typed, Leaf: p.Name, Description: p.Title + " " + p.Description, Context: about})
		}
	}
	return tools, prompts, toolEntries, promptEntries
}

func (b *Bridge) findTools(ctx context.Context, call *sdk.Call, a arguments) (sdk.Result, error) {
	query, err := a.text("query", "words for what the tool should do, or its name")
	if err != nil {
		return sdk.Result{}, err
	}
	limit := 10
	if raw := strings.Trim(string(a["limit"]), `" `); raw != "" {
		if n, err := strconv.ParseFloat(raw, 64); err == nil {
			limit = min(max(int(n), 1), 25)
		}
	}
	find := func() (tools, prompts []found, names []string) {
		allTools, allPrompts, toolEntries, promptEntries := b.catalogue()
		for _, i := range rank.Find(query, toolEntries, limit) {
			tools, names = append(tools, allTools[i]), append(names, allTools[i].Name)
		}
		for _, i := range rank.Find(query, promptEntries, limit) {
			prompts, names = append(prompts, allPrompts[i]), append(names, allPrompts[i].Name)
		}
		return tools, prompts, names
	}
	tools, prompts, names := find()
	if b.lostAny(ctx, call, names) {
		tools, prompts, names = find()
	}
	out := struct {
		Query   string  `json:"query"`
		Tools   []found `json:"tools"`
		Prompts []found `json:"prompts,omitempty"`
		Note    string  `json:"note"`
	}{Query: query, Tools: append([]found{}, tools...), Prompts: prompts}
	if len(names) == 0 {
		out.Note = "Nothing here does that. Try other words for what the tool should do, or mcp_list_services for what there is."
		if n := b.missing(); n != "" {
			out.Note += " Not connected at the moment: " + n + "."
		}
		return asText(out)
	}
	on, note := b.activated(ctx, call, names)
	for i := range out.Tools {
		out.Tools[i].Activated = on[out.Tools[i].Name]
	}
	for i := range out.Prompts {
		out.Prompts[i].Activated = on[out.Prompts[i].Name]
	}
	out.Note = note
	return asText(out)
}

// missing names the servers whose tools could not be looked at.
func (b *Bridge) missing() string {
	var names []string
	for _, s := range b.all() {
		if s.last() == nil {
			names = append(names, s.conf.Name)
		}
	}
	return list(names, 20)
}

// index is for other plugins.
func (b *Bridge) index(_ context.Context, _ *sdk.Call, a arguments) (sdk.Result, error) {
	type row struct {
		Name        string   `json:"name"`
		ID          string   `json:"id"`
		DisplayName string   `json:"display_name"`
		Summary     string   `json:"summary"`
		ToolNames   []string `json:"tool_names"`
		Typed       []string `json:"typed_names_for_query,omitempty"`
	}
	query := a.optional("query")
	rows := []row{}
	for _, s := range b.all() {
		v := s.last()
		if v == nil {
			continue
		}
		r := row{Name: s.conf.Name, ID: s.id[:12], DisplayName: s.displayName(), Summary: s.summary(v), ToolNames: v.toolNames()}
		if query != "" {
			entries := make([]rank.Entry, len(v.tools))
			for i, t := range v.tools {
				entries[i] = rank.Entry{Name: t.typed, Leaf: t.Name, Description: t.Description}
			}
			for _, i := range rank.Find(query, entries, 3) {
				r.Typed = append(r.Typed, v.tools[i].typed)
			}
		}
		rows = append(rows, r)
	}
	raw, err := json.Marshal(rows)
	if err != nil {
		return sdk.Result{}, err
	}
	return sdk.RawJSON(raw), nil
}
