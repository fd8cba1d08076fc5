package downstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	maxPages = 1000
	maxItems = 10_000
	maxList  = 64 << 20 // bytes of one kind of list
)

// Tool is one tool as its server describes it. The raw members are the server's
// own bytes.
type Tool struct {
	Name, Title, Description string
	InputSchema              json.RawMessage
	OutputSchema             json.RawMessage
	Annotations              json.RawMessage
	Extra                    json.RawMessage // _meta, icons, execution and what nobody here knows, as one object
	Repeatable               bool            // read-only or idempotent, says the server
	Required                 []string        // top-level required arguments
	// Fingerprint moves when the tool's meaning to a caller may have.
	Fingerprint string
}

// Prompt is one prompt.
type Prompt struct {
	Name, Title, Description string
	Arguments                []PromptArgument
	RawArguments             json.RawMessage
	Extra                    json.RawMessage
}

// PromptArgument is one argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Resource is a resource, or a template when URITemplate is set.
type Resource struct {
	URI         string `json:"uri,omitempty"`
	URITemplate string `json:"uriTemplate,omitempty"`
	Name        string `json:"name,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIME        string `json:"mimeType,omitempty"`
	Size        int64  `json:"size,omitempty"`

	Extra json.RawMessage `json:"-"`
}

// Surface is all a server offers.
type Surface struct {
	Tools     []Tool
	Prompts   []Prompt
	Resources []Resource
	Templates []Resource
	// Notes say what was left out or mended, for the operator.
	Notes []string
	// Fingerprint moves when anything of it does; empty = a list could not be read.
	Fingerprint string
}

// List reads all a server offers. A list that can't be read is taken over from
// before; only an unreadable list of tools is an error.
func (c *Conn) List(ctx context.Context, before *Surface) (*Surface, error) {
	s := &Surface{}
	whole := true
	if c.Info.Has("tools") || len(c.Info.Capabilities) == 0 {
		items, err := c.pages(ctx, "tools/list", "tools")
		if err != nil && !MethodNotFound(err) {
			return nil, fmt.Errorf("tools/list: %w", err)
		}
		for i, raw := range items {
			t, note := parseTool(raw)
			if note != "" {
				s.Notes = append(s.Notes, fmt.Sprintf("tool %d: %s", i, note))
			}
			if t != nil && c.modernHTTP() {
				if err := mcp.ValidateParamHeaderAnnotations(&mcp.Tool{Name: t.Name, RawInputSchema: t.InputSchema}); err != nil {
					s.Notes = append(s.Notes, fmt.Sprintf("tool %q is left out: its x-mcp-header annotations are not valid: %v", t.Name, err))
					continue
				}
			}
			if t != nil {
				s.Tools = append(s.Tools, *t)
			}
		}
	}
	read := func(capability, method, member string, add func(json.RawMessage) string, keep func()) {
		if !c.Info.Has(capability) {
			return
		}
		items, err := c.pages(ctx, method, member)
		if err != nil && !MethodNotFound(err) {
			whole = false
			s.Notes = append(s.Notes, fmt.Sprintf("%s: %v", method, err))
			if before != nil {
				keep()
			}
			return
		}
		for i, raw := range items {
			if note := add(raw); note != "" {
				s.Notes = append(s.Notes, fmt.Sprintf("%s %d: %s", member, i, note))
			}
		}
	}
	read("prompts", "prompts/list", "prompts", s.addPrompt, func() { s.Prompts = before.Prompts })
	read("resources", "resources/list", "resources", s.addResource, func() { s.Resources = before.Resources })
	read("resources", "resources/templates/list", "resourceTemplates", s.addTemplate, func() { s.Templates = before.Templates })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(s.Notes) > 50 {
		s.Notes = append(s.Notes[:50], fmt.Sprintf("and %d more", len(s.Notes)-50))
	}
	if whole {
		s.Fingerprint = s.fingerprint()
	}
	return s, nil
}

// pages reads a list to its end, however it is cut. A cursor that comes again
// would never end.
func (c *Conn) pages(ctx context.Context, method, member string) ([]json.RawMessage, error) {
	var items []json.RawMessage
	seen := map[string]bool{}
	cursor, size := "", 0
	for page := 0; ; page++ {
		var params json.RawMessage
		if cursor != "" {
			raw, err := json.Marshal(map[string]string{"cursor": cursor})
			if err != nil {
				return nil, err
			}
			params = raw
		}
		raw, err := c.Request(ctx, method, params, nil, nil)
		if err != nil {
			if page > 0 {
				err = fmt.Errorf("page %d: %w", page+1, err)
			}
			return nil, err
		}
		var r map[string]json.RawMessage
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, fmt.Errorf("the answer is no object: %w", err)
		}
		var list []json.RawMessage
		if m := r[member]; len(m) > 0 {
			if err := json.Unmarshal(m, &list); err != nil {
				return nil, fmt.Errorf("%q is no list", member)
			}
		}
		items = append(items, list...)
		if size += len(raw); size > maxList || len(items) > maxItems {
			return nil, fmt.Errorf("a list of more than %d entries or %d MiB", maxItems, maxList>>20)
		}
		cursor = ""
		_ = json.Unmarshal(r["nextCursor"], &cursor) // anything but a string ends the list
		if cursor == "" {
			return items, nil
		}
		if seen[cursor] || page+1 >= maxPages {
			return nil, fmt.Errorf("the list has no end: cursor %q came twice or there are more than %d pages", clip(cursor, 60), maxPages)
		}
		seen[cursor] = true
	}
}

func parseTool(raw json.RawMessage) (*Tool, string) {
	m, name, err := named(raw, "name")
	if err != nil {
		return nil, err.Error()
	}
	t := &Tool{Name: name, Title: text(m["title"]), Description: text(m["description"])}
	schema, note := soundSchema(m["inputSchema"])
	t.InputSchema = schema
	if isObject(m["outputSchema"]) {
		t.OutputSchema = m["outputSchema"]
	}
	if isObject(m["annotations"]) {
		t.Annotations = m["annotations"]
		var a struct {
			ReadOnly   bool   `json:"readOnlyHint"`
			Idempotent bool   `json:"idempotentHint"`
			Title      string `json:"title"`
		}
		_ = json.Unmarshal(t.Annotations, &a) // hints of another type are none
		t.Repeatable = a.ReadOnly || a.Idempotent
	}
	t.Extra = extra(m, "name", "title", "description", "inputSchema", "outputSchema", "annotations")
	var req struct {
		Required []string `json:"required"`
	}
	_ = json.Unmarshal(schema, &req) // a list of another kind requires nothing
	t.Required = req.Required
	t.Fingerprint = fingerprint(t.Name, t.Description, canonical(m["inputSchema"]))
	if note != "" {
		note = fmt.Sprintf("%q: %s", name, note)
	}
	return t, note
}

// soundSchema is the schema as sent, or the nearest that is an object schema.
func soundSchema(raw json.RawMessage) (json.RawMessage, string) {
	const open = `{"type":"object"}`
	if !isObject(raw) {
		return json.RawMessage(open), "no input schema; any object is taken"
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return json.RawMessage(open), "the input schema can't be read; any object is taken"
	}
	if typ, ok := m["type"]; ok && text(typ) != "object" && !bytes.Contains(typ, []byte(`"object"`)) {
		return json.RawMessage(open), fmt.Sprintf("the input schema is of type %s; any object is taken", clip(string(typ), 40))
	}
	note := ""
	if p, ok := m["properties"]; ok && !isObject(p) {
		delete(m, "properties")
		note = "properties are no object and were left out of the input schema"
	}
	var names []string
	if r, ok := m["required"]; ok && json.Unmarshal(r, &names) != nil {
		delete(m, "required")
		note = "required is no list of names and was left out of the input schema"
	}
	var props map[string]json.RawMessage
	if p, ok := m["properties"]; ok && json.Unmarshal(p, &props) == nil {
		var odd []string
		for name, p := range props {
			if t := string(bytes.TrimSpace(p)); !isObject(p) && t != "true" && t != "false" {
				odd = append(odd, clip(name, 60))
				delete(props, name)
			}
		}
		if len(odd) > 0 {
			slices.Sort(odd)
			mended, err := json.Marshal(props)
			if err != nil {
				return json.RawMessage(open), "its properties can't be read; any object is taken"
			}
			m["properties"] = mended
			note = fmt.Sprintf("properties that are no schemas were left out of the input schema: %s", clip(strings.Join(odd, ", "), 200))
		}
	}
	_, typed := m["type"]
	combined := m["anyOf"] != nil || m["oneOf"] != nil || m["allOf"] != nil || m["$ref"] != nil
	if !typed && !combined {
		m["type"] = json.RawMessage(`"object"`)
		if note == "" {
			note = "the input schema has no type; object is taken"
		}
	}
	if note == "" {
		return raw, ""
	}
	mended, err := json.Marshal(m)
	if err != nil {
		return json.RawMessage(open), note
	}
	return mended, note
}

func (s *Surface) addPrompt(raw json.RawMessage) string {
	m, name, err := named(raw, "name")
	if err != nil {
		return err.Error()
	}
	p := Prompt{Name: name, Title: text(m["title"]), Description: text(m["description"]), Extra: extra(m, "name", "title", "description", "arguments")}
	if a := m["arguments"]; len(a) > 0 && string(a) != "null" {
		if json.Unmarshal(a, &p.Arguments) != nil {
			return fmt.Sprintf("%q: its arguments can't be read and are left out", name)
		}
		p.RawArguments = a
	}
	s.Prompts = append(s.Prompts, p)
	return ""
}

func (s *Surface) addResource(raw json.RawMessage) string {
	r, note := parseResource(raw, "uri")
	if note == "" {
		s.Resources = append(s.Resources, r)
	}
	return note
}

func (s *Surface) addTemplate(raw json.RawMessage) string {
	r, note := parseResource(raw, "uriTemplate")
	if note == "" {
		s.Templates = append(s.Templates, r)
	}
	return note
}

func parseResource(raw json.RawMessage, key string) (Resource, string) {
	m, id, err := named(raw, key)
	if err != nil {
		return Resource{}, err.Error()
	}
	r := Resource{Name: text(m["name"]), Title: text(m["title"]), Description: text(m["description"]), MIME: text(m["mimeType"]),
		Extra: extra(m, key, "name", "title", "description", "mimeType", "size")}
	if key == "uri" {
		r.URI = id
	} else {
		r.URITemplate = id
	}
	_ = json.Unmarshal(m["size"], &r.Size) // another type is no size
	return r, ""
}

// named reads an entry of a list and its name.
func named(raw json.RawMessage, key string) (map[string]json.RawMessage, string, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return nil, "", errors.New("left out: it is no object")
	}
	name := text(m[key])
	if name == "" {
		return nil, "", fmt.Errorf("left out: it has no %s", key)
	}
	if len(name) > 4096 {
		return nil, "", fmt.Errorf("left out: its %s has %d bytes", key, len(name))
	}
	return m, name, nil
}

// text is a JSON string's value, or empty.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func isObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
}

// extra is all of an entry but the members named, as one object; nil when there
// is none.
func extra(m map[string]json.RawMessage, but ...string) json.RawMessage {
	rest := map[string]json.RawMessage{}
	for k, v := range m {
		if !slices.Contains(but, k) && string(v) != "null" {
			rest[k] = v
		}
	}
	if len(rest) == 0 {
		return nil
	}
	raw, err := json.Marshal(rest)
	if err != nil {
		return nil
	}
	return raw
}

// canonical is JSON with its keys in order, numbers as they were written.
func canonical(raw json.RawMessage) string {
	if len(bytes.TrimSpace(raw)) == 0 {
		return ""
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(out)
}

func fingerprint(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x1f")))
	return hex.EncodeToString(sum[:])
}

// fingerprint of the whole surface; the order of lists does not count.
func (s *Surface) fingerprint() string {
	var all []string
	for _, t := range s.Tools {
		all = append(all, "tool\x1f"+t.Fingerprint+"\x1f"+t.Title+"\x1f"+canonical(t.OutputSchema)+"\x1f"+canonical(t.Annotations)+"\x1f"+canonical(t.Extra))
	}
	for _, p := range s.Prompts {
		all = append(all, "prompt\x1f"+p.Name+"\x1f"+p.Description+"\x1f"+canonical(p.RawArguments))
	}
	for _, r := range append(slices.Clone(s.Resources), s.Templates...) {
		all = append(all, "resource\x1f"+r.URI+"\x1f"+r.URITemplate+"\x1f"+r.Name+"\x1f"+r.Title+"\x1f"+r.Description+"\x1f"+r.MIME)
	}
	slices.Sort(all)
	return fingerprint(all...)
}
