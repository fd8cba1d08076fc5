// Package content writes results as the JSON blocks that MCP has, which the HTTP
// API and the command line use too.
package content

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Blocks is the content of a result as MCP has it. A file is its descriptor as
// text; blocks nobody here knows pass as they came.
func Blocks(blocks []*pluginv1.Content) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(blocks))
	put := func(block any) {
		if raw, err := Marshal(block); err == nil {
			out = append(out, raw)
		}
	}
	add := func(block map[string]any, annotations []byte) {
		if a := Valid(annotations); a != nil {
			block["annotations"] = a
		}
		put(block)
	}
	text := func(s string, annotations []byte) { put(textBlock{Valid(annotations), s, "text"}) }
	for _, c := range blocks {
		switch b := c.Block.(type) {
		case *pluginv1.Content_Text:
			text(b.Text, c.Annotations)
		case *pluginv1.Content_File:
			text(descriptor(b.File), c.Annotations)
		case *pluginv1.Content_TextFile:
			text(descriptor(b.TextFile), c.Annotations)
		case *pluginv1.Content_ResourceLink:
			if raw := Valid(b.ResourceLink.Raw); raw != nil {
				out = append(out, raw)
				continue
			}
			l := b.ResourceLink
			block := map[string]any{"type": "resource_link", "uri": l.Uri, "name": l.Name}
			set(block, "title", l.Title)
			set(block, "description", l.Description)
			set(block, "mimeType", l.Mime)
			if l.Size > 0 {
				block["size"] = l.Size
			}
			add(block, c.Annotations)
		case *pluginv1.Content_Resource:
			res := map[string]any{"uri": b.Resource.Uri}
			set(res, "mimeType", b.Resource.Mime)
			res["text"] = b.Resource.Text
			if b.Resource.Blob != nil {
				res["text"] = descriptor(b.Resource.Blob)
			}
			add(map[string]any{"type": "resource", "resource": res}, c.Annotations)
		case *pluginv1.Content_Raw:
			if raw := Valid(b.Raw); raw != nil {
				out = append(out, raw)
			}
		}
	}
	return out
}

type textBlock struct {
	Annotations json.RawMessage `json:"annotations,omitempty"`
	Text        string          `json:"text"`
	Type        string          `json:"type"`
}

// List is the blocks as one JSON array, each as its bytes are.
func List(blocks []json.RawMessage) []byte {
	var out bytes.Buffer
	out.WriteByte('[')
	for i, b := range blocks {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(b)
	}
	out.WriteByte(']')
	return out.Bytes()
}

// Size is how many bytes of data a result holds: texts, and JSON as it came.
func Size(r *pluginv1.Result) int64 {
	n := len(r.GetStructured()) + len(r.GetMeta()) + len(r.GetRaw())
	for _, c := range r.GetContent() {
		n += len(c.GetText()) + len(c.GetRaw()) + len(c.GetAnnotations()) + len(c.GetResource().GetText()) + len(c.GetResourceLink().GetRaw())
	}
	return int64(n)
}

// MaxDepth is how deep JSON from outside may nest. Readers recurse, and an
// envelope must still fit into what every reader takes.
const MaxDepth = 1000

var (
	errNotJSON = errors.New("not JSON")
	errNotUTF8 = errors.New("not UTF-8")
	errTooDeep = fmt.Errorf("nested deeper than %d levels", MaxDepth)
)

// Check says what is wrong with JSON from outside. The depth is looked at first:
// what reads it then recurses.
func Check(raw []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString:
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return errTooDeep
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	switch {
	case !utf8.Valid(raw):
		return errNotUTF8
	case !gjson.ValidBytes(raw): // twice as fast as encoding/json, and as strict: FuzzCheck
		return errNotJSON
	}
	return nil
}

// Valid is raw when it is JSON that may pass, else nil.
func Valid(raw []byte) json.RawMessage {
	if len(raw) == 0 || Check(raw) != nil {
		return nil
	}
	return raw
}

// Marshal is json.Marshal that leaves <, > and & as they are.
func Marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// Line is raw on one line, its bytes otherwise as they are.
func Line(raw []byte) []byte {
	if !bytes.ContainsAny(raw, "\r\n") {
		return raw
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return nil
	}
	return out.Bytes()
}

func set(m map[string]any, key, value string) {
	if value != "" {
		m[key] = value
	}
}

// descriptor is a file as text: {path, name, size, mime, note}.
func descriptor(f *pluginv1.FileRef) string {
	raw, err := Marshal(struct {
		Path string `json:"path"`
		Name string `json:"name,omitempty"`
		Size int64  `json:"size,omitempty"`
		Mime string `json:"mime,omitempty"`
		Note string `json:"note,omitempty"`
	}{f.Path, f.Name, f.Size, f.Mime, f.Note})
	if err != nil {
		return f.Path
	}
	return string(raw)
}

// Without is an object, which must be valid JSON, without the members of certain
// names; the others keep their bytes. What is no object is an empty one.
func Without(object json.RawMessage, drop func(name string) bool) json.RawMessage {
	out := make([]byte, 1, len(object)+2)
	out[0] = '{'
	members := gjson.ParseBytes(object)
	if !members.IsObject() {
		return append(out, '}')
	}
	members.ForEach(func(name, value gjson.Result) bool {
		if drop(name.Str) {
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name.Raw...), ':'), value.Raw...)
		return true
	})
	return append(out, '}')
}

// Join puts the members of two objects without white space around them into one, as
// the bytes they are. They should have no name in common.
func Join(a, b json.RawMessage) json.RawMessage {
	switch {
	case len(a) <= 2:
		return b
	case len(b) <= 2:
		return a
	}
	out := make(json.RawMessage, 0, len(a)+len(b))
	out = append(append(out, a[:len(a)-1]...), ',')
	return append(out, b[1:]...)
}
