package bridge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// look leases the server's link for as long as f looks at it.
func (s *server) look(ctx context.Context, f func(*link, *view) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.inForce().CallTimeout(&s.conf), errTimeUp)
	defer cancel()
	l, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer l.release()
	return f(l, l.view.Load())
}

// getPrompt fills in a prompt and gives the server's own result.
func (s *server) getPrompt(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	var p promptEntry
	err := s.look(ctx, func(_ *link, v *view) error {
		var ok bool
		if p, ok = v.prompt(name); !ok {
			var names []string
			for _, x := range v.prompts {
				names = append(names, x.Name)
			}
			return sdk.Errorf(sdk.NotFound, "server %q has no prompt %q; it has: %s", s.conf.Name, name, orElse(list(names, 40), "none"))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	args := promptArguments(arguments)
	var missing []string
	for _, a := range p.Arguments {
		if _, ok := args[a.Name]; a.Required && !ok {
			missing = append(missing, a.Name)
		}
	}
	if len(missing) > 0 {
		return nil, sdk.Errorf(sdk.InvalidArguments, "prompt %q of %q needs %s; it takes %s", p.Name, s.conf.Name, strings.Join(missing, ", "), clip(string(promptSchema(p.Prompt)), 2000))
	}
	params := json.RawMessage(`{"name":` + string(quote(p.Name)) + `,"arguments":` + string(quote(args)) + `}`)
	return s.simple(ctx, fmt.Sprintf("the prompt %q", p.Name), "prompts/get", params)
}

// promptArguments are all strings: what is none is sent as its JSON, null is left out.
func promptArguments(raw json.RawMessage) map[string]string {
	out := map[string]string{}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return out
	}
	for k, v := range m {
		var s string
		switch {
		case string(bytes.TrimSpace(v)) == "null":
		case json.Unmarshal(v, &s) == nil:
			out[k] = s
		default:
			out[k] = string(v)
		}
	}
	return out
}

// promptText is a prompt's messages for callers that have tools only.
func (s *server) promptText(ctx context.Context, name string, arguments json.RawMessage) (sdk.Result, error) {
	raw, err := s.getPrompt(ctx, name, arguments)
	if err != nil {
		return sdk.Result{}, err
	}
	var r struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return sdk.Result{}, sdk.Errorf(sdk.ExecutionFailed, "the prompt's messages can't be read: %v", err)
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
		Type    string `json:"contentType"`
	}
	out := []message{}
	for _, m := range r.Messages {
		var c struct{ Type, Text string }
		if json.Unmarshal(m.Content, &c) != nil || c.Type != "text" {
			c.Text = string(m.Content)
		}
		out = append(out, message{m.Role, c.Text, c.Type})
	}
	return asText(out)
}

// readOffered reads a resource for callers that have resources.
func (s *server) readOffered(ctx context.Context, _ *sdk.Call, uri string) (sdk.Result, error) {
	raw, err := s.read(ctx, uri)
	if err != nil {
		return sdk.Result{}, err
	}
	if len(raw) > maxInline {
		return sdk.Result{}, sdk.Errorf(sdk.TooLarge, "resource %s has %d bytes; mcp_read_resource puts it into a file", uri, len(raw))
	}
	return sdk.Result{Raw: raw}, nil
}

func (s *server) read(ctx context.Context, uri string) (json.RawMessage, error) {
	return s.simple(ctx, "the resource "+uri, "resources/read", json.RawMessage(`{"uri":`+string(quote(uri))+`}`))
}

// readResource reads a resource for callers that have tools only: text inline,
// unless it is long, all else as files.
func (s *server) readResource(ctx context.Context, uri string) (sdk.Result, error) {
	var v *view
	var has bool
	if err := s.look(ctx, func(l *link, x *view) error { v, has = x, l.conn.Info.Has("resources"); return nil }); err != nil {
		return sdk.Result{}, err
	}
	if !admits(s.conf.AllowedResources, s.conf.DeniedResources, uri) {
		return sdk.Result{}, sdk.Errorf(sdk.Denied, "resource %s of %q is shut out by the server's settings", uri, s.conf.Name)
	}
	raw, err := s.read(ctx, uri)
	if err != nil {
		return sdk.Result{}, s.resourceHint(v, has, uri, err)
	}
	var r struct {
		Contents []struct {
			URI  string  `json:"uri"`
			MIME string  `json:"mimeType"`
			Text *string `json:"text"`
			Blob *string `json:"blob"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return sdk.Result{}, sdk.Errorf(sdk.ExecutionFailed, "the resource can't be read: %v", err)
	}
	type item struct {
		URI  string `json:"uri"`
		MIME string `json:"mimeType,omitempty"`
		Text string `json:"text,omitempty"`
		Path string `json:"path,omitempty"`
		Size int64  `json:"size,omitempty"`
		Note string `json:"note,omitempty"`
	}
	out := struct {
		Server   string `json:"server"`
		URI      string `json:"uri"`
		Contents []item `json:"contents"`
	}{s.conf.Name, uri, []item{}}
	for _, c := range r.Contents {
		it := item{URI: c.URI, MIME: c.MIME}
		var data []byte
		switch {
		case c.Text != nil && utf8.RuneCountInString(*c.Text) <= s.inForce().ResourceInlineLimit:
			it.Text = *c.Text
		case c.Text != nil:
			data = []byte(*c.Text)
			if it.MIME == "" {
				it.MIME = "text/plain"
			}
		case c.Blob != nil:
			if data, err = base64.StdEncoding.DecodeString(*c.Blob); err != nil {
				it.Note = fmt.Sprintf("binary content of %d characters is not base64 and was left out", len(*c.Blob))
			}
		}
		if data != nil {
			ref, err := s.b.store("attachments", s.conf.Name+"-resource", it.MIME, data)
			it.Path, it.Size = ref.Path, int64(len(data))
			if err != nil {
				it.Path, it.Note = "", fmt.Sprintf("%d bytes could not be put into a file: %v", len(data), err)
			}
		}
		out.Contents = append(out.Contents, it)
	}
	return asText(out)
}

// resourceHint adds what there is to a refusal of what was never declared.
func (s *server) resourceHint(v *view, has bool, uri string, err error) error {
	if !has {
		return sdk.Errorf(sdk.NotFound, "server %q exposes no resources: %v", s.conf.Name, err)
	}
	var own *sdk.Error
	if !errors.As(err, &own) || own.Code != sdk.ExecutionFailed {
		return err
	}
	var uris []string
	for _, r := range v.surface.Resources {
		if r.URI == uri {
			return err
		}
		uris = append(uris, r.URI)
	}
	for _, t := range v.surface.Templates {
		if downstream.Matcher(t.URITemplate)(uri) {
			return err
		}
		uris = append(uris, t.URITemplate)
	}
	slices.Sort(uris)
	return sdk.Errorf(sdk.NotFound, "%s\nResources of %q: %s", own.Message, s.conf.Name, orElse(list(slices.Compact(uris), 50), "none"))
}

// complete asks the server that a prompt or template is of.
func (b *Bridge) complete(ctx context.Context, _ *sdk.Call, target sdk.CompletionTarget) (sdk.Result, error) {
	for _, s := range b.all() {
		s.mu.Lock()
		l := s.link
		s.mu.Unlock()
		if l == nil || !l.conn.Info.Has("completions") {
			continue
		}
		ref := ""
		v := l.view.Load()
		if target.Kind == "prompt" {
			for _, p := range v.prompts {
				if p.name == target.Ref {
					ref = `{"type":"ref/prompt","name":` + string(quote(p.Name)) + `}`
				}
			}
		} else if slices.ContainsFunc(v.surface.Templates, func(t downstream.Resource) bool { return t.URITemplate == target.Ref }) {
			ref = `{"type":"ref/resource","uri":` + string(quote(target.Ref)) + `}`
		}
		if ref == "" {
			continue
		}
		params := `{"ref":` + ref + `,"argument":` + string(quote(map[string]string{"name": target.Argument, "value": target.Value}))
		if bytes.HasPrefix(bytes.TrimSpace(target.Context), []byte("{")) {
			params += `,"context":{"arguments":` + string(target.Context) + `}`
		}
		raw, err := s.simple(ctx, "a completion", "completion/complete", json.RawMessage(params+"}"))
		return sdk.Result{Raw: raw}, err
	}
	return sdk.Completion(), nil
}

// asText is v as JSON text; what is in it is strings, numbers and lists of them.
func asText(v any) (sdk.Result, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return sdk.Result{}, err
	}
	return sdk.TextResult(strings.TrimSpace(out.String())), nil
}
