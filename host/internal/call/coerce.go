package call

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
)

// coerce makes what models commonly send fit the schema: declared aliases and
// defaults, a JSON string where an object or array is declared, an object or array
// where nothing but a string is, "5" for a number, "true" for a boolean, a comma
// list for an array. Each rewrite is spliced into
// the bytes as sent; everything else stays untouched.
func coerce(t *registry.Tool, args []byte) ([]byte, error) {
	var err error
	for _, a := range t.ArgumentAliases {
		from := gjson.GetBytes(args, path(a.From))
		if !from.Exists() {
			continue
		}
		if !gjson.GetBytes(args, path(a.To)).Exists() {
			if args, err = sjson.SetRawBytes(args, path(a.To), []byte(from.Raw)); err != nil {
				return nil, spliceFault(t, a.To, err)
			}
		}
		if args, err = sjson.DeleteBytes(args, path(a.From)); err != nil {
			return nil, spliceFault(t, a.From, err)
		}
	}
	if len(t.ArgumentDefaults) > 0 {
		gjson.ParseBytes(t.ArgumentDefaults).ForEach(func(key, value gjson.Result) bool {
			if !gjson.GetBytes(args, path(key.Str)).Exists() {
				args, err = sjson.SetRawBytes(args, path(key.Str), []byte(value.Raw))
			}
			return err == nil
		})
		if err != nil {
			return nil, spliceFault(t, "defaults", err)
		}
	}
	for _, prop := range t.Properties() {
		value := gjson.GetBytes(args, path(prop.Name))
		raw := ""
		switch {
		case value.Type == gjson.JSON && len(prop.Types) == 1 && prop.Is("string"):
			text, err := content.Marshal(value.Raw) // JSON in a string, as the schema has it
			if err != nil {
				return nil, spliceFault(t, prop.Name, err)
			}
			raw = string(text)
		case value.Type == gjson.String && len(prop.Types) > 0 && !prop.Is("string"):
			raw = fromString(prop, value.Str)
		}
		if raw == "" {
			continue
		}
		if args, err = sjson.SetRawBytes(args, path(prop.Name), []byte(raw)); err != nil {
			return nil, spliceFault(t, prop.Name, err)
		}
	}
	return args, nil
}

func spliceFault(t *registry.Tool, name string, err error) error {
	return fault.New(fault.BadArguments, "argument %q of %q can't be read: %w", name, t.Name, err)
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// fromString is the JSON for a string sent where prop declares something else,
// or "" when the string does not say it plainly.
func fromString(prop registry.Property, s string) string {
	s = strings.TrimSpace(s)
	switch {
	case (prop.Is("number") || prop.Is("integer")) && jsonNumber.MatchString(s):
		return s
	case prop.Is("boolean") && (s == "true" || s == "false"):
		return s
	case prop.Is("object") && strings.HasPrefix(s, "{") && json.Valid([]byte(s)):
		return s
	case prop.Is("array") && strings.HasPrefix(s, "[") && json.Valid([]byte(s)):
		return s
	case prop.Is("array") && !strings.HasPrefix(s, "[") && !strings.HasPrefix(s, "{"):
		return commaList(prop, s)
	}
	return ""
}

func commaList(prop registry.Property, s string) string {
	if s == "" {
		return "[]"
	}
	var items []string
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		raw := fromString(registry.Property{Types: prop.Items}, item)
		if raw == "" {
			text, err := json.Marshal(item)
			if err != nil {
				return ""
			}
			raw = string(text)
		}
		items = append(items, raw)
	}
	return "[" + strings.Join(items, ",") + "]"
}

// path addresses one top-level key, whatever characters it has.
func path(key string) string { return gjson.Escape(key) }
