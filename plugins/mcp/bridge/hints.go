package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// hint adds to a failed result what the schema says about the arguments that were
// sent. It speaks up only on evidence.
func hint(r *sdk.Result, tool *downstream.Tool, args json.RawMessage) {
	text := r.Text()
	if with := withHint(text, tool, args); with != text {
		r.Content = append(r.Content, sdk.Text(strings.TrimSpace(strings.TrimPrefix(with, text))))
	}
}

var (
	schemaWords = []string{"Invalid arguments for tool", "-32602", "validation error for"}
	bareFailure = regexp.MustCompile(`^An error occurred invoking '[^']*'\.?$`)
)

const maxHintSchema = 4000

// withHint is an error's text with a hint on the arguments; the first that
// applies, or the text as it is.
func withHint(text string, tool *downstream.Tool, args json.RawMessage) string {
	var sent map[string]json.RawMessage
	if json.Unmarshal(args, &sent) != nil {
		return text
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(tool.InputSchema, &schema) // without properties nothing is unknown
	shown := "\nIts input schema: " + clip(string(tool.InputSchema), maxHintSchema)
	var missing, unknown []string
	for _, name := range tool.Required {
		if _, ok := sent[name]; !ok {
			missing = append(missing, name)
		}
	}
	if schema.Properties != nil {
		for _, name := range slices.Sorted(maps.Keys(sent)) {
			if _, ok := schema.Properties[name]; !ok {
				unknown = append(unknown, name)
			}
		}
	}
	named := len(missing) > 0 && len(unknown) == 0 && slices.ContainsFunc(missing, func(m string) bool { return strings.Contains(text, m) })
	if (len(missing) > 0 || len(unknown) > 0) && !named {
		out := text + "\n\n[hint] The arguments differ from what the tool declares."
		if len(missing) > 0 {
			out += " Not sent: " + strings.Join(missing, ", ") + "."
		}
		if len(unknown) > 0 {
			out += " Not declared: " + strings.Join(unknown, ", ") + "."
		}
		return out + " Sent: " + clip(strings.Join(slices.Sorted(maps.Keys(sent)), ", "), 500) + "." + shown
	}
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if want, got := contradiction(schema.Properties[name], sent[name]); want != "" {
			return fmt.Sprintf("%s\n\n[hint] %q is declared as %s; a value of type %s was sent.%s", text, name, want, got, shown)
		}
	}
	if slices.ContainsFunc(schemaWords, func(w string) bool { return strings.Contains(text, w) }) {
		return text + "\n\n[hint] What the tool takes:" + shown
	}
	if bareFailure.MatchString(strings.TrimSpace(text)) {
		return text + "\n\n[hint] The server does not say why; it may be the arguments." + shown
	}
	return text
}

// contradiction gives the declared types and the sent one when they can't agree.
func contradiction(schema, value json.RawMessage) (want, got string) {
	var s struct {
		Type json.RawMessage `json:"type"`
	}
	if json.Unmarshal(schema, &s) != nil || len(s.Type) == 0 {
		return "", ""
	}
	var types []string
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		types = []string{one}
	} else if json.Unmarshal(s.Type, &types) != nil {
		return "", ""
	}
	got = kindOf(value)
	if got == "null" || got == "" {
		return "", ""
	}
	for _, t := range types {
		switch {
		case !slices.Contains([]string{"string", "number", "integer", "boolean", "array", "object", "null"}, t), t == got,
			t == "number" && got == "integer":
			return "", ""
		}
	}
	return strings.Join(types, " or "), got
}

func kindOf(value json.RawMessage) string {
	v := bytes.TrimSpace(value)
	if len(v) == 0 {
		return ""
	}
	switch v[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	if whole.Match(v) {
		return "integer"
	}
	return "number"
}

// whole numbers, 3.0 among them.
var whole = regexp.MustCompile(`^-?[0-9]+(\.0+)?$`)
