package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/memory"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Tools runs the host's own tools; it is the pipeline's Own.
type Tools struct {
	Registry *registry.Registry
	Memory   *memory.Memory
	Store    *store.Store
}

// Invoke runs one of the host's tools. The arguments already fit its schema.
func (b *Tools) Invoke(ctx context.Context, who call.Caller, tool string, arguments []byte) (*pluginv1.Result, error) {
	var in struct {
		Key, Data, Category, Query, Name string
		TTLMinutes                       float64 `json:"ttl_minutes"`
		Tags                             []string
		Offset, Length, After            int64
		Limit                            int
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, fault.New(fault.BadArguments, "%s: %w", tool, err)
	}
	switch tool {
	case "list_tool_guides":
		return b.guides(who), nil
	case "get_tool_guide":
		return b.guide(who, in.Name), nil
	}
	if who.Session == nil {
		return nil, fault.New(fault.UnknownSession, "%s works within a session, and this call has none", tool)
	}
	namespace := who.Session.Namespace
	switch tool {
	case "save_to_working_memory":
		ttl := time.Duration(in.TTLMinutes * float64(time.Minute))
		key, err := b.Memory.Put(namespace, in.Key, []byte(in.Data), ttl, in.Category, in.Tags)
		if err != nil {
			return nil, err
		}
		return call.Text(fmt.Sprintf("Saved %d bytes under %s", len(in.Data), key)), nil
	case "get_from_working_memory":
		return b.get(namespace, in.Key, in.Offset, in.Length)
	case "delete_from_working_memory":
		found, err := b.Memory.Delete(namespace, in.Key, nil)
		if err != nil {
			return nil, err
		}
		if !found {
			return call.Text("There was nothing under " + in.Key), nil
		}
		return call.Text("Deleted " + in.Key), nil
	case "search_working_memory":
		if in.Limit == 0 {
			in.Limit = 20
		}
		return call.Text(hits(b.Memory.Search(namespace, in.Query, in.Category, in.Tags, in.Limit))), nil
	case "inbox_read":
		if in.Limit == 0 {
			in.Limit = 20
		}
		return b.inbox(ctx, who, uint64(in.After), in.Limit)
	}
	return nil, fault.New(fault.UnknownTool, "the host has no tool %q", tool)
}

func (b *Tools) get(namespace, key string, offset, length int64) (*pluginv1.Result, error) {
	value, total, found, err := b.Memory.Get(namespace, key, offset, length, nil)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fault.New(fault.KeyNotFound, "nothing under %q: it was never saved, or has expired", key)
	}
	text := string(value)
	if end := offset + int64(len(value)); offset > 0 || end < total {
		text += fmt.Sprintf("\n[bytes %d to %d of %d]", offset, end, total)
	}
	return call.Text(text), nil
}

func hits(found []memory.Hit) string {
	if len(found) == 0 {
		return "Nothing found."
	}
	var out strings.Builder
	for _, h := range found {
		fmt.Fprintf(&out, "- %s (%d bytes, expires in %s", h.Key, h.Size, h.ExpiresIn.Round(time.Second))
		if h.Category != "" {
			fmt.Fprintf(&out, ", %s", h.Category)
		}
		if len(h.Tags) > 0 {
			fmt.Fprintf(&out, ", tags %s", strings.Join(h.Tags, " "))
		}
		fmt.Fprintf(&out, "): %s\n", h.Preview)
	}
	return out.String()
}

// open are the guides of what the caller may use.
func (b *Tools) open(who call.Caller) []registry.Guide {
	snap := b.Registry.Snapshot()
	return slices.DeleteFunc(slices.Clone(snap.Guides), func(g registry.Guide) bool {
		return who.Agent != nil && !listing.Plugin(snap, who.Agent, g.Owner)
	})
}

func (b *Tools) guides(who call.Caller) *pluginv1.Result {
	all := b.open(who)
	var out strings.Builder
	fmt.Fprintf(&out, "%d tool guides; read one with get_tool_guide(name):\n", len(all))
	for _, g := range all {
		fmt.Fprintf(&out, "- %s: %s\n", g.Name, g.Summary)
	}
	return call.Text(out.String())
}

func (b *Tools) guide(who call.Caller, name string) *pluginv1.Result {
	var names []string
	for _, g := range b.open(who) {
		if strings.EqualFold(g.Name, name) {
			return call.Text(g.Markdown)
		}
		names = append(names, g.Name)
	}
	return call.Text(fmt.Sprintf("No guide %q. There are: %s", name, strings.Join(names, ", ")))
}

func (b *Tools) inbox(ctx context.Context, who call.Caller, after uint64, limit int) (*pluginv1.Result, error) {
	items, err := b.Store.InboxRead(ctx, who.Session.ID, after, limit)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return call.Text("The inbox has nothing new."), nil
	}
	var out strings.Builder
	for _, it := range items {
		fmt.Fprintf(&out, "[%d] %s %s: %s\n", it.Seq, it.At.Format(time.RFC3339), it.Kind, it.Text)
	}
	return call.Text(out.String()), nil
}
