package elicit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Bounds of a form.
const (
	MaxSchema  = 64 << 10 // bytes
	MaxMessage = 8 << 10  // bytes
	maxFields  = 64
	maxOptions = 500
	maxName    = 256
)

// Kinds of a field.
const (
	String  = "string"
	Number  = "number"
	Integer = "integer"
	Boolean = "boolean"
	Choice  = "choice"  // one of the options
	Choices = "choices" // some of the options
)

// Form is what a server wants to know.
type Form struct {
	Message string
	Fields  []Field         // in the server's order
	Schema  json.RawMessage // as the server sent it
}

// Field is one value of a form.
type Field struct {
	Name, Title, Description string
	Kind                     string
	Required                 bool
	Options                  []Option
	Default                  json.RawMessage // the server's own, when it fits

	format             string
	pattern            *regexp.Regexp
	minimum, maximum   json.Number
	minLength, maxSize *int // of a text in characters, of choices in number
}

// Option is one choice.
type Option struct {
	Value string `json:"value"`
	Title string `json:"title,omitempty"`
}

// URL is a question that is answered in a browser.
type URL struct{ Message, URL, ID string }

// Question is what a server asks: a form or a URL.
type Question struct {
	Form *Form
	URL  *URL
}

// Read reads the parameters of elicitation/create.
func Read(params json.RawMessage) (*Question, error) {
	if len(params) > MaxSchema+MaxMessage {
		return nil, fmt.Errorf("the question has %d bytes; at most %d are read", len(params), MaxSchema+MaxMessage)
	}
	var p struct {
		Mode    string          `json:"mode"`
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
		URL     string          `json:"url"`
		ID      string          `json:"elicitationId"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, fmt.Errorf("the question can't be read: %w", err)
	}
	message := clip(strings.ToValidUTF8(p.Message, "\uFFFD"), MaxMessage)
	switch p.Mode {
	case "", "form":
		f, err := readForm(p.Schema)
		if err != nil {
			return nil, err
		}
		f.Message = message
		return &Question{Form: f}, nil
	case "url":
		if !strings.HasPrefix(p.URL, "https://") && !strings.HasPrefix(p.URL, "http://") || len(p.URL) > 2048 {
			return nil, fmt.Errorf("the question names no web address of at most 2048 bytes")
		}
		return &Question{URL: &URL{Message: message, URL: p.URL, ID: clip(p.ID, 128)}}, nil
	}
	return nil, fmt.Errorf("questions of mode %q are not known", clip(p.Mode, 40))
}

func readForm(raw json.RawMessage) (*Form, error) {
	f := &Form{Schema: raw}
	if t := bytes.TrimSpace(raw); len(t) == 0 || string(t) == "null" {
		f.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		return f, nil
	}
	var s struct {
		Type       string          `json:"type"`
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("the form's schema can't be read: %w", err)
	}
	if s.Type != "" && s.Type != "object" {
		return nil, fmt.Errorf("the form's schema is of type %q, not object", clip(s.Type, 40))
	}
	names, fields, err := members(s.Properties)
	if err != nil {
		return nil, fmt.Errorf("the form's properties can't be read: %w", err)
	}
	if len(names) > maxFields {
		return nil, fmt.Errorf("the form has %d fields; at most %d are read", len(names), maxFields)
	}
	for i, name := range names {
		field, err := readField(name, fields[i])
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", clip(name, 80), err)
		}
		field.Required = slices.Contains(s.Required, name)
		f.Fields = append(f.Fields, *field)
	}
	for _, name := range s.Required {
		if f.Field(name) == nil {
			return nil, fmt.Errorf("the form requires %q, which it does not declare", clip(name, 80))
		}
	}
	return f, nil
}

// Field is the field of that name, in any case; nil = none.
func (f *Form) Field(name string) *Field {
	for i := range f.Fields {
		if f.Fields[i].Name == name {
			return &f.Fields[i]
		}
	}
	for i := range f.Fields {
		if strings.EqualFold(f.Fields[i].Name, name) {
			return &f.Fields[i]
		}
	}
	return nil
}

// members are an object's keys and values in the order they were written.
func members(raw json.RawMessage) (keys []string, values []json.RawMessage, err error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, fmt.Errorf("no object")
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		key, _ := t.(string) // keys are strings
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, nil, err
		}
		if seen[key] || key == "" || len(key) > maxName {
			return nil, nil, fmt.Errorf("the name %q is empty, too long or there twice", clip(key, 80))
		}
		seen[key] = true
		keys, values = append(keys, key), append(values, v)
	}
	return keys, values, nil
}

type fieldSchema struct {
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	EnumNames   []string          `json:"enumNames"`
	OneOf       []option          `json:"oneOf"`
	AnyOf       []option          `json:"anyOf"`
	Items       *fieldSchema      `json:"items"`
	Format      string            `json:"format"`
	Pattern     string            `json:"pattern"`
	Minimum     json.Number       `json:"minimum"`
	Maximum     json.Number       `json:"maximum"`
	MinLength   *int              `json:"minLength"`
	MaxLength   *int              `json:"maxLength"`
	MinItems    *int              `json:"minItems"`
	MaxItems    *int              `json:"maxItems"`
	Default     json.RawMessage   `json:"default"`
	Properties  json.RawMessage   `json:"properties"`
	Ref         string            `json:"$ref"`
}

type option struct {
	Const *string `json:"const"`
	Title string  `json:"title"`
}

// readField reads one of the protocol's primitive schemas; anything else is an
// error, since nobody here would know what fits it.
func readField(name string, raw json.RawMessage) (*Field, error) {
	var s fieldSchema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("its schema can't be read: %w", err)
	}
	if s.Ref != "" || len(s.Properties) > 0 {
		return nil, fmt.Errorf("forms are flat: no $ref and no properties inside")
	}
	f := &Field{Name: name, Title: clip(s.Title, 1000), Description: clip(s.Description, 4000), Kind: s.Type}
	switch s.Type {
	case String:
		if err := f.readText(&s); err != nil {
			return nil, err
		}
	case Number, Integer:
		f.minimum, f.maximum = s.Minimum, s.Maximum
	case Boolean:
	case "array":
		f.Kind, f.minLength, f.maxSize = Choices, s.MinItems, s.MaxItems
		if s.Items == nil {
			return nil, fmt.Errorf("a list without items")
		}
		var err error
		if f.Options, err = s.Items.options(); err != nil {
			return nil, err
		}
		if len(f.Options) == 0 {
			return nil, fmt.Errorf("a list that is no choice")
		}
	default:
		return nil, fmt.Errorf("type %q is none of a form", clip(s.Type, 40))
	}
	if len(s.Default) > 0 && f.Check(s.Default) == nil {
		f.Default = s.Default
	}
	return f, nil
}

func (f *Field) readText(s *fieldSchema) error {
	options, err := s.options()
	if err != nil {
		return err
	}
	if len(options) > 0 {
		f.Kind, f.Options = Choice, options
		return nil
	}
	f.minLength, f.maxSize, f.format = s.MinLength, s.MaxLength, s.Format
	if s.Pattern != "" && len(s.Pattern) <= 1000 {
		// One that can't be compiled here is the server's own to check.
		f.pattern, _ = regexp.Compile(s.Pattern)
	}
	return nil
}

func (s *fieldSchema) options() ([]Option, error) {
	var out []Option
	for i, raw := range s.Enum {
		var v string
		if json.Unmarshal(raw, &v) != nil {
			return nil, fmt.Errorf("a choice that is no text")
		}
		o := Option{Value: v}
		if i < len(s.EnumNames) {
			o.Title = s.EnumNames[i]
		}
		out = append(out, o)
	}
	for _, o := range append(s.OneOf, s.AnyOf...) {
		if o.Const == nil {
			return nil, fmt.Errorf("a choice without const")
		}
		out = append(out, Option{*o.Const, o.Title})
	}
	if len(out) > maxOptions {
		return nil, fmt.Errorf("%d choices; at most %d are read", len(out), maxOptions)
	}
	return out, nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
