package call

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"github.com/tidwall/gjson"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
)

// longPattern is where a pattern is for machines only; then the description tells.
const longPattern = 100

var english = message.NewPrinter(language.English)

// validate checks the arguments against the tool's schema on a decoded copy;
// what is forwarded is the bytes. A tool whose schema can't be compiled is not
// checked here: its plugin still is the judge.
func validate(t *registry.Tool, args []byte) error {
	schema, err := t.Schema()
	if err != nil {
		return nil
	}
	return check(schema, t.InputSchema, args, "tool "+t.Name)
}

// check validates a JSON document and says what does not fit: the path, what was
// sent, what is expected, and that part of the schema.
func check(schema *jsonschema.Schema, raw, doc []byte, whose string) error {
	err := schema.Validate(decoded(gjson.ParseBytes(doc)))
	var invalid *jsonschema.ValidationError
	if err == nil {
		return nil
	}
	if !errors.As(err, &invalid) {
		return fault.New(fault.BadArguments, "%s: %w", whose, err)
	}
	var lines []string
	leaves(invalid, func(leaf *jsonschema.ValidationError) {
		if len(lines) < 5 {
			lines = append(lines, describe(leaf, doc))
		}
	})
	text := fmt.Sprintf("the arguments do not fit %s:\n- %s", whose, strings.Join(lines, "\n- "))
	if part := schemaPart(invalid, raw); part != "" {
		text += "\nexpected there: " + part
	}
	return fault.New(fault.BadArguments, "%s", text)
}

// decoded is a document as the schema library takes it, numbers as their digits.
// It is valid JSON, of a depth that has been checked.
func decoded(v gjson.Result) any {
	switch v.Type {
	case gjson.String:
		return v.Str
	case gjson.Number:
		return json.Number(v.Raw)
	case gjson.True, gjson.False:
		return v.Type == gjson.True
	case gjson.Null:
		return nil
	}
	if v.IsArray() {
		out := []any{}
		v.ForEach(func(_, item gjson.Result) bool {
			out = append(out, decoded(item))
			return true
		})
		return out
	}
	out := map[string]any{}
	v.ForEach(func(key, item gjson.Result) bool {
		out[key.Str] = decoded(item)
		return true
	})
	return out
}

func leaves(e *jsonschema.ValidationError, visit func(*jsonschema.ValidationError)) {
	if len(e.Causes) == 0 {
		visit(e)
	}
	for _, c := range e.Causes {
		leaves(c, visit)
	}
}

func describe(leaf *jsonschema.ValidationError, doc []byte) string {
	at := "/" + strings.Join(leaf.InstanceLocation, "/")
	sent := gjson.GetBytes(doc, gjsonPath(leaf.InstanceLocation)).Raw
	line := at + ": " + clip(leaf.ErrorKind.LocalizedString(english), 300)
	if p, ok := leaf.ErrorKind.(*kind.Pattern); ok && len(p.Want) > longPattern {
		line = at + ": it has not the form that is expected"
	}
	if len(leaf.InstanceLocation) > 0 && sent != "" {
		line += "; sent " + clip(sent, 120)
	}
	return line
}

// schemaPart is the declared property the first fault is about, else what the
// object requires.
func schemaPart(e *jsonschema.ValidationError, raw []byte) string {
	var first *jsonschema.ValidationError
	leaves(e, func(leaf *jsonschema.ValidationError) {
		if first == nil {
			first = leaf
		}
	})
	part := gjson.GetBytes(raw, "properties").Raw
	if len(first.InstanceLocation) > 0 {
		part = gjson.GetBytes(raw, "properties."+path(first.InstanceLocation[0])).Raw
		if p := gjson.Get(part, "pattern").Str; len(p) > longPattern && gjson.Get(part, "description").Exists() {
			part = string(content.Without(json.RawMessage(part), func(name string) bool { return name == "pattern" }))
		}
	}
	return clip(part, 800)
}

func gjsonPath(location []string) string {
	parts := make([]string, len(location))
	for i, l := range location {
		parts[i] = path(l)
	}
	return strings.Join(parts, ".")
}
