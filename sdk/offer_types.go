package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	runes "unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// Offer is a set of things a plugin offers.
type Offer struct {
	Tools       []*Tool
	Prompts     []Prompt
	Resources   []Resource
	Templates   []ResourceTemplate
	Guides      []Guide
	Orientation []Orientation
}

// Prompt is a prompt. Its handler finds the arguments in call.Arguments and gives
// PromptText, or a Result whose Raw is an MCP GetPromptResult.
type Prompt struct {
	Name, Title, Description string
	Arguments                []PromptArgument
	RawArguments             json.RawMessage // used instead of Arguments when set
	Meta                     json.RawMessage
	Exposure                 Exposure
	Handler                  func(ctx context.Context, call *Call) (Result, error)
}

// PromptArgument is one argument of a prompt; all are strings.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Resource is a resource at a fixed URI. Its handler gives ResourceText,
// ResourceBlob, or a Result whose Raw is an MCP ReadResourceResult.
type Resource struct {
	URI, Name, Title, Description, MIME string
	Size                                int64
	Meta                                json.RawMessage
	Handler                             func(ctx context.Context, call *Call, uri string) (Result, error)
}

// ResourceTemplate is a family of resources. Matches says which URIs are its own.
type ResourceTemplate struct {
	URITemplate, Name, Title, Description, MIME string
	Meta                                        json.RawMessage
	Matches                                     func(uri string) bool
	Handler                                     func(ctx context.Context, call *Call, uri string) (Result, error)
}

// Guide is a page for the model on how to use the plugin's tools.
type Guide struct {
	Name, Summary, Markdown string
}

// Orientation is a text for the model, shown while any of the named tools is listed.
type Orientation struct {
	Text       string   // at most 2,000 characters
	AnyListed  []string // tool names; empty = always
	ModelTiers []string // empty = all
	Order      int      // lower comes first
}

// CompletionTarget is what a completion is asked for.
type CompletionTarget struct {
	Kind     string // prompt or resource
	Ref      string // prompt name or URI template
	Argument string
	Value    string          // what was typed so far
	Context  json.RawMessage // arguments already settled
}

// maxOffered is the most one offered thing may have, in bytes, so that it fits a
// part of a snapshot.
const maxOffered = 1 << 20

// checkOffer names every mistake of an offer by itself: names, schemas, doubles.
func checkOffer(o Offer) error {
	var errs []error
	seen := map[string]bool{}
	double := func(kind, name string) {
		if seen[kind+name] {
			errs = append(errs, fmt.Errorf("%s %q is offered twice", kind, name))
		}
		seen[kind+name] = true
	}
	tooLarge := func(kind, name string, n int) {
		if n > maxOffered {
			errs = append(errs, fmt.Errorf("%s %q has %d bytes; at most %d are allowed", kind, name, n, maxOffered))
		}
	}
	for _, t := range o.Tools {
		errs = append(errs, t.check())
		double("tool", t.spec.name)
	}
	for _, p := range o.Prompts {
		if p.Name == "" || p.Handler == nil {
			errs = append(errs, fmt.Errorf("prompt %q: a name and a handler are needed", p.Name))
		}
		tooLarge("prompt", p.Name, len(p.Description)+len(p.RawArguments)+len(p.Meta))
		double("prompt", p.Name)
	}
	for _, r := range o.Resources {
		if r.URI == "" || r.Name == "" || r.Handler == nil {
			errs = append(errs, fmt.Errorf("resource %q: a URI, a name and a handler are needed", r.URI))
		}
		tooLarge("resource", r.URI, len(r.Description)+len(r.Meta))
		double("resource", r.URI)
	}
	for _, t := range o.Templates {
		if t.URITemplate == "" || t.Handler == nil || t.Matches == nil {
			errs = append(errs, fmt.Errorf("template %q: Matches and a handler are needed", t.URITemplate))
		}
		tooLarge("template", t.URITemplate, len(t.Description)+len(t.Meta))
		double("template", t.URITemplate)
	}
	for _, g := range o.Guides {
		if g.Name == "" || g.Summary == "" || g.Markdown == "" {
			errs = append(errs, fmt.Errorf("guide %q: a name, a summary and a text are needed", g.Name))
		}
		tooLarge("guide", g.Name, len(g.Summary)+len(g.Markdown))
		double("guide", g.Name)
	}
	for i, text := range o.Orientation {
		if n := runes.RuneCountInString(text.Text); n == 0 || n > wire.MaxOrientation {
			errs = append(errs, fmt.Errorf("orientation %d has %d characters; 1 to %d are allowed", i, n, wire.MaxOrientation))
		}
	}
	return errors.Join(errs...)
}
