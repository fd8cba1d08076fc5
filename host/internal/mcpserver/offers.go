package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const inboxURI = registry.Inbox

// prompts are the plugins' own and one for each guide.
func (d *door) prompts(snap *registry.Snapshot) []server.ServerPrompt {
	var out []server.ServerPrompt
	taken := map[string]bool{}
	for _, p := range snap.Prompts {
		if !listing.Plugin(snap, d.agent(), p.Owner) {
			continue
		}
		prompt := mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Description}
		if len(p.Arguments) > 0 && json.Unmarshal(p.Arguments, &prompt.Arguments) != nil {
			d.core.Log.Warn("a prompt's arguments can't be read", "prompt", p.Name, "plugin", p.Owner)
		}
		taken[p.Name] = true
		out = append(out, server.ServerPrompt{Prompt: prompt, Handler: func(ctx context.Context, _ mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			arguments := exchangeOf(ctx).params.Get("arguments").Raw
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{}}, d.raw(ctx, p.Owner, p.Name, pluginv1.InvokeRequest_KIND_PROMPT, arguments)
		}})
	}
	for _, g := range snap.Guides {
		if !listing.Plugin(snap, d.agent(), g.Owner) {
			continue
		}
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
func (d *door) resources(snap *registry.Snapshot) []server.ServerResource {
	out := []server.ServerResource{{
		Resource: mcp.NewResource(inboxURI, "Inbox of this session", mcp.WithMIMEType("application/json")), Handler: d.readInbox}}
	for _, g := range snap.Guides {
		if !listing.Plugin(snap, d.agent(), g.Owner) {
			continue
		}
		uri := registry.GuidePrefix + g.Name
		out = append(out, server.ServerResource{
			Resource: mcp.NewResource(uri, "Guide: "+g.Name, mcp.WithResourceDescription(g.Summary), mcp.WithMIMEType("text/markdown")),
			Handler: func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: "text/markdown", Text: g.Markdown}}, nil
			}})
	}
	for _, r := range snap.Resources {
		if !listing.Plugin(snap, d.agent(), r.Owner) {
			continue
		}
		if registry.HostsOwn(r.Uri) {
			continue // the host's own names
		}
		out = append(out, server.ServerResource{
			Resource: mcp.NewResource(r.Uri, r.Name, mcp.WithResourceDescription(r.Description), mcp.WithMIMEType(r.Mime)),
			Handler: func(ctx context.Context, _ mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{}, d.raw(ctx, r.Owner, r.Uri, pluginv1.InvokeRequest_KIND_RESOURCE, "")
			}})
	}
	return out
}

// raw asks a plugin for something whose answer is an MCP result already, and puts
// that into the answer as it is.
func (d *door) raw(ctx context.Context, owner, name string, kind pluginv1.InvokeRequest_Kind, arguments string) error {
	x := exchangeOf(ctx)
	reply, err := d.run(ctx, x, call.Request{Tool: name, Owner: owner, Kind: kind, Arguments: []byte(arguments), Raw: true})
	if err != nil || reply == nil {
		return err
	}
	if e := reply.Result.Error; e != nil {
		if e.Code == string(fault.NotFound) && kind == pluginv1.InvokeRequest_KIND_RESOURCE {
			x.failure = noResource(ctx, name, e.Message)
			return nil
		}
		return fmt.Errorf("%s (%s)", e.Message, e.Ref)
	}
	raw := content.Valid(reply.Result.Raw)
	if raw == nil || raw[0] != '{' {
		return errors.New("plugin " + owner + " answered without a result")
	}
	gjson.ParseBytes(raw).ForEach(func(key, value gjson.Result) bool {
		x.splice[gjson.Escape(key.Str)] = json.RawMessage(value.Raw)
		return true
	})
	return nil
}

// noResource is how each era says that a resource is not there.
func noResource(ctx context.Context, uri, message string) *rpcFailure {
	f := &rpcFailure{code: mcp.RESOURCE_NOT_FOUND, message: message, data: map[string]any{"uri": uri}}
	if server.IsModernRequest(ctx) {
		f.code, f.status = mcp.INVALID_PARAMS, http.StatusBadRequest
	}
	return f
}

func (d *door) readInbox(ctx context.Context, _ mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	x := exchangeOf(ctx)
	if x.peer == nil {
		return nil, errNoPeer
	}
	items, err := d.core.Store.InboxTail(ctx, x.peer.session.ID, 100)
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

// readFile gives a file that a result of this agent linked to.
func (d *door) readFile(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	uri := r.Params.URI
	raw, kind, err := d.core.File(ctx, d.agent(), strings.TrimPrefix(uri, registry.FilePrefix))
	if f := fault.From(err); f != nil {
		if f.Class == fault.NotFound {
			exchangeOf(ctx).failure = noResource(ctx, uri, f.Message)
			return []mcp.ResourceContents{}, nil
		}
		return nil, err
	}
	if strings.HasPrefix(kind, "text/") && utf8.Valid(raw) {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: kind, Text: string(raw)}}, nil
	}
	return []mcp.ResourceContents{mcp.BlobResourceContents{URI: uri, MIMEType: kind, Blob: base64.StdEncoding.EncodeToString(raw)}}, nil
}

// templates are that of the files that results link to, and those plugins offer.
func (d *door) templates(snap *registry.Snapshot) []server.ServerResourceTemplate {
	var out []server.ServerResourceTemplate
	if d.core.File != nil {
		out = append(out, server.ServerResourceTemplate{
			Template: mcp.NewResourceTemplate(registry.FilePrefix+"{id}", "A file that a result links to"), Handler: d.readFile})
	}
	for _, t := range snap.Templates {
		if !listing.Plugin(snap, d.agent(), t.Owner) || registry.HostsOwn(t.UriTemplate) {
			continue
		}
		if !acceptableTemplate(t.UriTemplate) {
			d.core.Log.Warn("a resource template can't be read", "template", t.UriTemplate, "plugin", t.Owner)
			continue
		}
		out = append(out, server.ServerResourceTemplate{
			Template: mcp.NewResourceTemplate(t.UriTemplate, t.Name, mcp.WithTemplateDescription(t.Description), mcp.WithTemplateMIMEType(t.Mime)),
			Handler: func(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{}, d.raw(ctx, t.Owner, r.Params.URI, pluginv1.InvokeRequest_KIND_RESOURCE, "")
			}})
	}
	return out
}

// acceptableTemplate tries a template out: the library panics at a bad one.
func acceptableTemplate(uri string) (ok bool) {
	defer func() { ok = recover() == nil }()
	mcp.NewResourceTemplate(uri, "try")
	return true
}

// offersChanged says whether anything but tools is new since the last snapshot.
func (d *door) offersChanged(snap *registry.Snapshot) bool {
	var names []string
	for _, p := range snap.Prompts {
		if !listing.Plugin(snap, d.agent(), p.Owner) {
			continue
		}
		names = append(names, "p", p.Owner, p.Name, p.Title, p.Description, string(p.Arguments))
	}
	for _, g := range snap.Guides {
		if !listing.Plugin(snap, d.agent(), g.Owner) {
			continue
		}
		names = append(names, "g", g.Name, g.Summary, g.Markdown)
	}
	for _, r := range snap.Resources {
		if !listing.Plugin(snap, d.agent(), r.Owner) {
			continue
		}
		names = append(names, "r", r.Owner, r.Uri, r.Name, r.Description, r.Mime)
	}
	for _, t := range snap.Templates {
		if !listing.Plugin(snap, d.agent(), t.Owner) {
			continue
		}
		names = append(names, "t", t.Owner, t.UriTemplate, t.Name, t.Description, t.Mime)
	}
	print := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	d.mu.Lock()
	defer d.mu.Unlock()
	if print == d.offered {
		return false
	}
	d.offered = print
	return true
}

// completion asks the owner of a prompt or template to complete an argument.
type completion struct{ d *door }

// CompletePromptArgument completes an argument of a prompt.
func (c completion) CompletePromptArgument(ctx context.Context, name string, a mcp.CompleteArgument, more mcp.CompleteContext) (*mcp.Completion, error) {
	snap := c.d.core.Registry.Snapshot()
	for _, p := range snap.Prompts {
		if p.Name == name && listing.Plugin(snap, c.d.agent(), p.Owner) {
			return c.complete(ctx, p.Owner, "prompt", name, a, more)
		}
	}
	return &mcp.Completion{Values: []string{}}, nil
}

// CompleteResourceArgument completes a variable of a resource template.
func (c completion) CompleteResourceArgument(ctx context.Context, uri string, a mcp.CompleteArgument, more mcp.CompleteContext) (*mcp.Completion, error) {
	snap := c.d.core.Registry.Snapshot()
	for _, t := range snap.Templates {
		if t.UriTemplate == uri && listing.Plugin(snap, c.d.agent(), t.Owner) {
			return c.complete(ctx, t.Owner, "resource", uri, a, more)
		}
	}
	return &mcp.Completion{Values: []string{}}, nil
}

func (c completion) complete(ctx context.Context, owner, kind, ref string, a mcp.CompleteArgument, more mcp.CompleteContext) (*mcp.Completion, error) {
	x := exchangeOf(ctx)
	if x.peer == nil {
		return nil, errNoPeer
	}
	context, err := json.Marshal(more.Arguments)
	if err != nil {
		return nil, err
	}
	reply := c.d.core.Pipeline.Call(ctx, call.Request{
		Caller: c.d.caller(x.peer, x.params.Get("_meta")), Tool: ref, Owner: owner, Raw: true,
		Kind:       pluginv1.InvokeRequest_KIND_COMPLETE,
		Completion: &pluginv1.CompletionTarget{RefKind: kind, Ref: ref, Argument: a.Name, Value: a.Value, Context: context},
	})
	if e := reply.Result.Error; e != nil {
		return nil, fmt.Errorf("%s (%s)", e.Message, e.Ref)
	}
	var out struct{ Completion mcp.Completion }
	if err := json.Unmarshal(reply.Result.Raw, &out); err != nil {
		return nil, fmt.Errorf("plugin %s completed with something else: %w", owner, err)
	}
	return &out.Completion, nil
}
