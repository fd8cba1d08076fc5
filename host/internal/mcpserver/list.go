package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
)

// listed is the tool list of a session without activations, which is every
// session of 2026-07-28. It is made once a revision, and agents who see the same
// share it.
func (d *door) listed() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.list == nil {
		snap := d.core.Registry.Snapshot()
		d.list = d.core.shared(snap.Revision, listing.List(snap, d.agent(), nil, d.core.Budget), d.marshal)
	}
	return d.list
}

// lists are the tool lists of one revision, by what is on them.
type lists struct {
	mu       sync.Mutex
	revision uint64
	made     map[uint64][]byte
}

func (core *Core) shared(revision uint64, tools []*registry.Tool, write func([]*registry.Tool) []byte) []byte {
	h := maphash.Hash{}
	h.SetSeed(listSeed)
	for _, t := range tools {
		maphash.WriteComparable(&h, t)
	}
	key := h.Sum64()
	l := &core.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil || l.revision < revision {
		l.revision, l.made = revision, map[uint64][]byte{}
	}
	if list, ok := l.made[key]; ok && l.revision == revision {
		return list
	}
	list := write(tools)
	if l.revision == revision {
		l.made[key] = list
	}
	return list
}

var listSeed = maphash.MakeSeed()

// spliceTools puts the list this client sees into the answer, as the plugins'
// own bytes.
func (d *door) spliceTools(ctx context.Context) {
	x := exchangeOf(ctx)
	x.splice["nextCursor"] = nil
	if p := x.peer; p != nil && !server.IsModernRequest(ctx) && p.session != nil {
		if active := p.session.Active(); len(active) > 0 {
			x.splice["tools"] = d.marshal(listing.List(d.core.Registry.Snapshot(), d.agent(), active, d.core.Budget))
			return
		}
	}
	x.splice["tools"] = d.listed()
}

// marshal writes a list of tools. Each entry is written once and kept with its tool.
func (d *door) marshal(tools []*registry.Tool) []byte {
	var out bytes.Buffer
	out.WriteByte('[')
	for _, t := range tools {
		entry, err := t.Entry(toolJSON)
		if err != nil {
			d.core.Log.Warn("a tool could not be listed", "tool", t.Name, "plugin", t.Owner, "error", err)
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(entry)
	}
	out.WriteByte(']')
	return out.Bytes()
}

// toolJSON is one entry of tools/list.
func toolJSON(t *registry.Tool) ([]byte, error) {
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
	if len(t.Meta) > 0 {
		var extra struct {
			Meta      json.RawMessage `json:"_meta"`
			Icons     json.RawMessage `json:"icons"`
			Execution json.RawMessage `json:"execution"`
		}
		if err := json.Unmarshal(t.Meta, &extra); err != nil {
			return nil, fmt.Errorf("meta: %w", err)
		}
		entry.Meta, entry.Icons, entry.Execution = extra.Meta, extra.Icons, extra.Execution
	}
	return content.Marshal(entry)
}

// tools is what the library is told of: the one tool every call is turned into,
// and those whose parameters travel in headers too, since checking these against
// each other is the library's business. changed says whether these are others than
// before.
func (d *door) tools(snap *registry.Snapshot) (out []server.ServerTool, changed bool) {
	open := json.RawMessage(`{"type":"object"}`)
	out = []server.ServerTool{{Tool: mcp.Tool{Name: anyTool, RawInputSchema: open}, Handler: d.callTool}}
	native := map[string]string{}
	for _, t := range listing.Callable(snap, d.agent()) {
		if !bytes.Contains(t.InputSchema, []byte(`"x-mcp-header"`)) {
			continue
		}
		tool := server.ServerTool{Tool: mcp.Tool{Name: t.Name, RawInputSchema: t.InputSchema}, Handler: d.callTool}
		if !acceptable(tool) {
			d.core.Log.Warn("a tool's header annotations are not valid and bind nobody", "tool", t.Name, "plugin", t.Owner)
			continue
		}
		native[t.Name] = string(t.InputSchema)
		out = append(out, tool)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	changed = d.native == nil || !maps.Equal(d.native, native)
	d.native = native
	return out, changed
}

// acceptable tries a tool out: the library panics at annotations it refuses.
func acceptable(t server.ServerTool) (ok bool) {
	defer func() { ok = recover() == nil }()
	server.NewMCPServer("try", "0").SetTools(t)
	return true
}

func (d *door) isNative(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.native[name]
	return known
}

// orientation joins the texts that apply to what the agent sees.
func orientation(snap *registry.Snapshot, agent *policy.Agent, budget int) string {
	return strings.Join(listing.Orientation(snap, agent, nil, budget), "\n\n")
}
