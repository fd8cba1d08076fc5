package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	// slack is what the host waits beyond the bridge's own time-out, so that the
	// error that names the setting is the one the caller sees.
	slack = 2 * time.Second
	// hostMax is the most the host gives a call.
	hostMax = 900 * time.Second
	// maxDescription keeps one server from filling every list.
	maxDescription = 16 << 10
)

// offer offers what a view holds; the error names what is left out.
func (s *server) offer(v *view) error {
	s.newest.Store(v)
	var o sdk.Offer
	for _, t := range v.tools {
		o.Tools = append(o.Tools, s.typedTool(t))
	}
	for _, p := range v.prompts {
		o.Tools = append(o.Tools, s.promptTool(p))
		if p.name != "" {
			o.Prompts = append(o.Prompts, s.prompt(p))
		}
	}
	for _, r := range v.surface.Resources {
		if ours(r.URI) {
			o.Resources = append(o.Resources, sdk.Resource{
				URI: r.URI, Name: orElse(r.Name, r.URI), Title: r.Title, Description: clip(r.Description, maxDescription), MIME: r.MIME, Size: r.Size, Meta: r.Extra,
				Handler: s.readOffered,
			})
		}
	}
	for _, r := range v.surface.Templates {
		if ours(r.URITemplate) && !strings.HasPrefix(r.URITemplate, "{") {
			o.Templates = append(o.Templates, sdk.ResourceTemplate{
				URITemplate: r.URITemplate, Name: orElse(r.Name, r.URITemplate), Title: r.Title, Description: clip(r.Description, maxDescription), MIME: r.MIME, Meta: r.Extra,
				Matches: downstream.Matcher(r.URITemplate), Handler: s.readOffered,
			})
		}
	}
	return s.b.plugin.Offers().Set(s.set(), o)
}

// source is what the host knows the server's tools by.
func (s *server) source() string { return "mcp:" + s.conf.Name }

// ours reports whether a server may own a URI: some schemes are the host's.
func ours(uri string) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(uri), ":")
	return !slices.Contains([]string{"guide", "inbox", "shared"}, scheme)
}

func (s *server) options(extra ...sdk.ToolOption) []sdk.ToolOption {
	c := s.inForce()
	timeout := c.CallTimeout(&s.conf) + slack
	out := append([]sdk.ToolOption{
		sdk.WithSource(s.source()), sdk.WithGroup("mcp"), sdk.WithTimeout(min(timeout, hostMax)),
		sdk.WithTier(settings.Tiers[s.conf.Tier]), sdk.OpenWorld(),
	}, extra...)
	return out
}

func (s *server) typedTool(t entry) *sdk.Tool {
	exposure, byTier := s.inForce().Exposure(&s.conf)
	opts := s.options(sdk.WithExposure(exposure), sdk.WithDownstreamName(t.Name))
	for tier, e := range byTier {
		opts = append(opts, sdk.WithExposureFor(tier, e))
	}
	if t.Title != "" {
		opts = append(opts, sdk.WithTitle(t.Title))
	}
	if len(t.OutputSchema) > 0 {
		opts = append(opts, sdk.WithOutputSchema(t.OutputSchema))
	}
	if len(t.Annotations) > 0 {
		opts = append(opts, sdk.WithAnnotations(t.Annotations))
	}
	if len(t.Extra) > 0 {
		opts = append(opts, sdk.WithMeta(t.Extra))
	}
	name := t.Name
	return sdk.RawTool(t.typed, describe(s.conf.Name, "", t.Description, t.Name), t.InputSchema,
		func(ctx context.Context, call *sdk.Call) (sdk.Result, error) { return s.callTyped(ctx, call, name) }, opts...)
}

// promptTool is a prompt for agents that have tools only.
func (s *server) promptTool(p promptEntry) *sdk.Tool {
	name := p.Name
	return sdk.RawTool(p.typed, describe(s.conf.Name, "Prompt: ", p.Description, p.Name)+" Returns messages with instructions to follow.", promptSchema(p.Prompt),
		func(ctx context.Context, call *sdk.Call) (sdk.Result, error) {
			return s.promptText(ctx, name, call.Arguments)
		}, s.options(sdk.WithExposure(sdk.OnDemand), sdk.WithDownstreamName(p.Name))...)
}

func (s *server) prompt(p promptEntry) sdk.Prompt {
	name := p.Name
	return sdk.Prompt{
		Name: p.name, Title: p.Title, Description: describe(s.conf.Name, "", p.Description, p.Name), RawArguments: p.RawArguments, Meta: p.Extra,
		Handler: func(ctx context.Context, call *sdk.Call) (sdk.Result, error) {
			raw, err := s.getPrompt(ctx, name, call.Arguments)
			return sdk.Result{Raw: raw}, err
		},
	}
}

// promptSchema is an object of strings, in the server's order.
func promptSchema(p *downstream.Prompt) json.RawMessage {
	var props, required []string
	for _, a := range p.Arguments {
		entry := map[string]string{"type": "string"}
		if d := strings.TrimSpace(a.Description); d != "" {
			entry["description"] = clip(d, 2000)
		}
		props = append(props, string(quote(a.Name))+":"+string(quote(entry)))
		if a.Required {
			required = append(required, a.Name)
		}
	}
	out := `{"type":"object","properties":{` + strings.Join(props, ",") + `}`
	if len(required) > 0 {
		out += `,"required":` + string(quote(required))
	}
	return json.RawMessage(out + "}")
}

func describe(server, kind, description, name string) string {
	text := strings.TrimSpace(strings.ToValidUTF8(description, "\uFFFD"))
	if text == "" {
		text = name
	}
	return fmt.Sprintf("[%s] %s%s", server, kind, clip(text, maxDescription))
}

// quote is v as JSON; v is of strings only.
func quote(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
