package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
)

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// strict is what every one of the big model APIs takes in a tool's parameters:
// OpenAI's function calling, Anthropic's input_schema and Gemini's subset of
// OpenAPI. A keyword or a shape one of them refuses is not used by tools of ours.
func strict(path string, raw json.RawMessage, top bool) (faults []string) {
	var s map[string]json.RawMessage
	if err := json.Unmarshal(raw, &s); err != nil {
		return []string{path + ": not an object"}
	}
	allowed := []string{"type", "description", "properties", "required", "items", "enum", "format", "minimum", "maximum",
		"minLength", "maxLength", "minItems", "maxItems", "pattern", "default", "title", "additionalProperties", "nullable", "anyOf"}
	for k := range s {
		if !slices.Contains(allowed, k) {
			faults = append(faults, fmt.Sprintf("%s: keyword %q", path, k))
		}
	}
	var kind string
	if err := json.Unmarshal(s["type"], &kind); err != nil && s["anyOf"] == nil {
		faults = append(faults, path+": the type is not one word")
	}
	if top && kind != "object" {
		faults = append(faults, path+": not an object schema")
	}
	if !top {
		var text string
		if json.Unmarshal(s["description"], &text) != nil || text == "" {
			faults = append(faults, path+": no description")
		}
	}
	switch kind {
	case "array":
		if s["items"] == nil {
			faults = append(faults, path+": an array without items")
			break
		}
		for _, f := range strict(path+"[]", s["items"], false) {
			if f != path+"[]: no description" {
				faults = append(faults, f)
			}
		}
	case "object":
		var props map[string]json.RawMessage
		if err := json.Unmarshal(s["properties"], &props); err != nil {
			return append(faults, path+": an object without properties")
		}
		for name, p := range props {
			if !toolName.MatchString(name) {
				faults = append(faults, path+"."+name+": the name")
			}
			if open := string(p); name == "arguments" && len(open) > 0 {
				continue // call_tool's arguments are another tool's
			}
			faults = append(faults, strict(path+"."+name, p, false)...)
		}
		var required []string
		if s["required"] != nil && json.Unmarshal(s["required"], &required) != nil {
			faults = append(faults, path+": required is no list")
		}
		for _, r := range required {
			if props[r] == nil {
				faults = append(faults, path+": requires "+r+", which it does not have")
			}
		}
	}
	return faults
}

// Our own tools are accepted by every model API, whatever others offer.
func TestOurSchemasAreStrict(t *testing.T) {
	w := newWorld(t, webBlock, "web")
	w.serve()
	var tools []api.Tool
	if err := json.Unmarshal([]byte(w.ok("tools", "--json")), &tools); err != nil {
		t.Fatal(err)
	}
	if len(tools) < 9 {
		t.Fatalf("%d tools", len(tools))
	}
	for _, x := range tools {
		if !toolName.MatchString(x.Name) || x.Description == "" || len(x.Description) > 1024 {
			t.Errorf("%s: name or description (%d characters)", x.Name, len(x.Description))
		}
		for _, f := range strict(x.Name, x.InputSchema, true) {
			t.Error(f)
		}
	}
	// The rules do refuse what they are there to refuse.
	for _, bad := range []string{`{"type":"object","properties":{"a":{"type":"array","description":"x"}}}`, `{"type":"object","properties":{"a":{"$ref":"#/x","description":"x"}}}`,
		`{"type":["object","null"],"properties":{}}`, `{"type":"object"}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}`} {
		if len(strict("bad", json.RawMessage(bad), true)) == 0 {
			t.Errorf("passed: %s", bad)
		}
	}
}
