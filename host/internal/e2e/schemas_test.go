package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	if s["anyOf"] != nil {
		var branches []json.RawMessage
		if err := json.Unmarshal(s["anyOf"], &branches); err != nil || len(branches) == 0 {
			faults = append(faults, path+": anyOf is no list")
		}
		if top {
			faults = append(faults, path+": anyOf at the root")
		}
		for i, b := range branches {
			of := fmt.Sprintf("%s|%d", path, i)
			for _, f := range strict(of, b, false) {
				if f != of+": no description" {
					faults = append(faults, f)
				}
			}
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
		if free[path] != "" {
			break
		}
		if err := json.Unmarshal(s["properties"], &props); err != nil {
			return append(faults, path+": an object without properties")
		}
		for name, p := range props {
			if !toolName.MatchString(name) {
				faults = append(faults, path+"."+name+": the name")
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

// free are the objects whose keys nobody but their caller knows, with the reason.
var free = map[string]string{
	"call_tool.arguments":          "the arguments of whatever tool is named: its schema is with that tool",
	"mcp_invoke_tool.arguments":    "the same, for a tool of an MCP server that may have come a moment ago",
	"mcp_get_prompt.arguments":     "the arguments of whatever prompt is named; the prompt itself says which",
	"schedule_task.tool_arguments": "the arguments of whatever tool is called later, or the payload of a webhook",
}

// Our own tools are accepted by every model API, whatever others offer.
func TestOurSchemasAreStrict(t *testing.T) {
	shipped, err := filepath.Glob(filepath.Join(sdk(t), "plugins", "*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var blocks strings.Builder
	for _, main := range shipped {
		names = append(names, filepath.Base(filepath.Dir(main)))
		fmt.Fprintf(&blocks, "plugin %q {\n  grants = [\"shared\"]\n%s}\n", names[len(names)-1], map[string]string{
			"llm": "  config {\n    model \"high\" {\n      provider = \"openai\"\n      model = \"m\"\n      base_url = \"http://127.0.0.1:1/v1\"\n      image_input = true\n    }\n  }\n",
		}[names[len(names)-1]])
	}
	w := newWorld(t, blocks.String(), names...)
	w.serve()
	var tools []api.Tool
	if err := json.Unmarshal([]byte(w.ok("tools", "--json")), &tools); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if p := w.plugin(name); p.State != "ready" {
			t.Errorf("plugin %s is %s: %s", name, p.State, p.LastError)
		}
		if name != "llm" && !slices.ContainsFunc(tools, func(x api.Tool) bool { return x.Plugin == name }) {
			t.Errorf("no tool of plugin %s is among the %d", name, len(tools))
		}
	}
	if len(tools) < 9 {
		t.Fatalf("%d tools", len(tools))
	}
	for _, x := range tools {
		if x.Visibility == "internal" {
			continue // no model sees it
		}
		if !toolName.MatchString(x.Name) || x.Description == "" || len(x.Description) > 1024 {
			t.Errorf("%s: name or description (%d characters)", x.Name, len(x.Description))
		}
		for _, f := range strict(x.Name, x.InputSchema, true) {
			t.Error(f)
		}
	}
	for at := range free {
		tool, _, _ := strings.Cut(at, ".")
		if !slices.ContainsFunc(tools, func(x api.Tool) bool { return x.Name == tool }) {
			t.Errorf("an exception is made for %s, which is not there", at)
		}
	}
	// The rules do refuse what they are there to refuse.
	for _, bad := range []string{`{"type":"object","properties":{"a":{"type":"array","description":"x"}}}`, `{"type":"object","properties":{"a":{"$ref":"#/x","description":"x"}}}`,
		`{"type":["object","null"],"properties":{}}`, `{"type":"object"}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}`,
		`{"type":"object","properties":{"arguments":{"type":"object","description":"x"}}}`, `{"type":"object","properties":{"a":{"description":"x","anyOf":[{"type":"string"},{"$ref":"#/x"}]}}}`} {
		if len(strict("bad", json.RawMessage(bad), true)) == 0 {
			t.Errorf("passed: %s", bad)
		}
	}
}
