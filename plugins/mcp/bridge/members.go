package bridge

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// members are those of a JSON object, each as the bytes it is; of a name that comes
// twice the last one. raw must be JSON, as what a connection gives is. False = it is
// no object.
func members(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	object := gjson.ParseBytes(raw)
	if !object.IsObject() {
		return nil, false
	}
	m := make(map[string]json.RawMessage, 4)
	object.ForEach(func(name, value gjson.Result) bool {
		m[name.Str] = raw[value.Index : value.Index+len(value.Raw)]
		return true
	})
	return m, true
}

// text is a JSON string's value; empty for any other type.
func text(raw json.RawMessage) (s string) {
	if bytes.Contains(raw, []byte(`\u`)) || !utf8.Valid(raw) {
		// Half a pair of surrogates and bytes that are no text are mended there.
		_ = json.Unmarshal(raw, &s)
		return s
	}
	return gjson.ParseBytes(raw).Str
}

// toolResult is a result of tools/call.
type toolResult struct {
	Content    []json.RawMessage
	Structured json.RawMessage // nil when there is none, or null
	Meta       json.RawMessage // an object or nil
	IsError    bool
	Type       string
}

// readResult reads one; false = it is none.
func readResult(raw json.RawMessage) (r toolResult, ok bool) {
	m, ok := members(raw)
	if !ok {
		return r, false
	}
	kind := func(key string) gjson.Type { return gjson.ParseBytes(m[key]).Type }
	if c := gjson.ParseBytes(m["content"]); c.IsArray() {
		c.ForEach(func(_, block gjson.Result) bool {
			r.Content = append(r.Content, m["content"][block.Index:block.Index+len(block.Raw)])
			return true
		})
	} else if c.Type != gjson.Null {
		return r, false
	}
	switch kind("isError") {
	case gjson.True:
		r.IsError = true
	case gjson.False, gjson.Null:
	default:
		return r, false
	}
	switch kind("resultType") {
	case gjson.String:
		r.Type = text(m["resultType"])
	case gjson.Null:
	default:
		return r, false
	}
	if kind("structuredContent") != gjson.Null {
		r.Structured = m["structuredContent"]
	}
	if meta := m["_meta"]; len(meta) > 0 && meta[0] == '{' {
		r.Meta = meta
	}
	return r, true
}
