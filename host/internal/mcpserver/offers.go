package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const inboxURI = "inbox://session"

// prompts are the plugins' own and one for each guide.
func (cl *client) prompts(snap *registry.Snapshot) []server.ServerPrompt {
	var out []server.ServerPrompt
	taken := map[string]bool{}
	for _, p := range snap.Prompts {
		prompt := mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Description}
		if len(p.Arguments) > 0 && json.Unmarshal(p.Arguments, &prompt.Arguments) != nil {
			cl.core.Log.Warn("a prompt's arguments can't be read", "prompt", p.Name, "plugin", p.Owner)
		}
		taken[p.Name] = true
		out = append(out, server.ServerPrompt{Prompt: prompt, Handler: func(ctx context.Context, _ mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			raw, err := cl.raw(ctx, p.Owner, p.Name, pluginv1.InvokeRequest_KIND_PROMPT, gjson.GetBytes(exchangeOf(ctx).message, "params.arguments").Raw)
			if err != nil {
				return nil, err
			}
			spliceAll(ctx, raw)
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{}}, nil
		}})
	}
	for _, g := range snap.Guides {
		name := "guide-" + g.Name
		if taken[name] {
			continue
		}
		out = append(out, server.ServerPrompt{Prompt: mcp.Prompt{Name: name, Description: g.Summary},
			Handler: func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return mcp.NewGetPromptResult(g.Summary, []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(g.Markdown))}), nil
			}})
	}
	return out
}

// resources are the guides, the session's inbox and what plugins offer.
func (cl *client) resources(snap *registry.Snapshot) []server.ServerResource {
	out := []server.ServerResource{{
		Resource: mcp.NewResource(inboxURI, "Inbox of this session", mcp.WithMIMEType("application/json")), Handler: cl.readInbox}}
	for _, g := range snap.Guides {
		uri := "guide://" + g.Name
		out = append(out, server.ServerResource{
			Resource: mcp.NewResource(uri, "Guide: "+g.Name, mcp.WithResourceDescription(g.Summary), mcp.WithMIMEType("text/markdown")),
			Handler: func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: "text/markdown", Text: g.Markdown}}, nil
			}})
	}
	for _, r := range snap.Resources {
		if strings.HasPrefix(r.Uri, "guide://") || r.Uri == inboxURI {
			continue // the host's own names
		}
		out = append(out, server.ServerResource{
			Resource: mcp.NewResource(r.Uri, r.Name, mcp.WithResourceDescription(r.Description), mcp.WithMIMEType(r.Mime)),
			Handler: func(ctx context.Context, _ mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				raw, err := cl.raw(ctx, r.Owner, r.Uri, pluginv1.InvokeRequest_KIND_RESOURCE, "")
				if err != nil {
					return nil, err
				}
				spliceAll(ctx, raw)
				return []mcp.ResourceContents{}, nil
			}})
	}
	return out
}

// raw asks a plugin for something whose answer is an MCP result already.
func (cl *client) raw(ctx context.Context, owner, name string, kind pluginv1.InvokeRequest_Kind, arguments string) (json.RawMessage, error) {
	reply := cl.core.Pipeline.Call(ctx, call.Request{
		Caller: call.Caller{Agent: cl.agent, Session: cl.session, Run: cl.session.ID, ModelTier: cl.agent.ModelTier, Door: "mcp"},
		Tool:   name, Owner: owner, Kind: kind, Arguments: []byte(arguments), Raw: true,
	})
	if e := reply.Result.Error; e != nil {
		return nil, fmt.Errorf("%s (%s)", e.Message, e.Ref)
	}
	raw := content.Valid(reply.Result.Raw)
	if raw == nil || raw[0] != '{' {
		return nil, errors.New("plugin " + owner + " answered without a result")
	}
	return raw, nil
}

// spliceAll puts every member of a result object into the answer.
func spliceAll(ctx context.Context, raw json.RawMessage) {
	x := exchangeOf(ctx)
	gjson.ParseBytes(raw).ForEach(func(key, value gjson.Result) bool {
		x.splice[gjson.Escape(key.Str)] = json.RawMessage(value.Raw)
		return true
	})
}

func (cl *client) readInbox(ctx context.Context, _ mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	items, err := cl.core.Store.InboxRead(ctx, cl.session.ID, 0, 100)
	if err != nil {
		return nil, err
	}
	type entry struct {
		Seq  uint64    `json:"seq"`
		At   time.Time `json:"at"`
		Kind string    `json:"kind"`
		Text string    `json:"text"`
	}
	out := make([]entry, len(items))
	for i, it := range items {
		out[i] = entry{it.Seq, it.At, it.Kind, it.Text}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: inboxURI, MIMEType: "application/json", Text: string(raw)}}, nil
}
