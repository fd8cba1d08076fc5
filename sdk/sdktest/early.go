package sdktest

import (
	"encoding/json"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// panicked is the place in the table of faults of a handler that panicked.
const panicked = "BH2013"

// callsBeforeActivate calls what is safe to call without knowing the tool: each must
// be answered, be it with the word that it is too early.
func callsBeforeActivate(t TB, s *Session) {
	s.Configure(s.opts.config)
	call := func(name, arguments string) *Reply {
		r, err := s.invoke(name, arguments, Within(limit))
		if err != nil {
			t.Errorf("tool %q, called before Activate, gives no answer: %v", name, err)
			return nil
		}
		if r.Code == "unavailable" && !r.Retryable {
			t.Errorf("tool %q, called before Activate, is unavailable for good: %s", name, r.Message)
		}
		return r
	}
	if r := call("no_such_tool_here", `{}`); r != nil && r.Code != "tool_not_found" && r.Code != "unavailable" {
		t.Errorf("an unknown tool, called before Activate, gives %q: %s", r.Code, r.Message)
	}
	for _, tool := range s.snapshot().GetTools() {
		if r := call(tool.GetName(), `[]`); r != nil && r.Code != "invalid_arguments" && r.Code != "unavailable" {
			t.Errorf("tool %q with a list as its arguments, before Activate, gives %q: %s", tool.GetName(), r.Code, r.Message)
		}
		if harmless(tool) {
			if r := call(tool.GetName(), `{}`); r != nil && r.Ref == panicked {
				t.Errorf("tool %q, called before Activate: %s", tool.GetName(), r.Message)
			}
		}
	}
	if s.opts.slow != "" {
		_, _ = s.invoke(s.opts.slow, s.opts.args, Within(300*time.Millisecond)) // how it ends is not the point here
	}
	s.Activate()
	if r := call("no_such_tool_here", `{}`); r != nil && r.Code != "tool_not_found" {
		t.Errorf("after Activate an unknown tool gives %q: %s", r.Code, r.Message)
	}
}

// harmless says that a tool changes nothing and may be called without arguments.
func harmless(tool *pluginv1.Tool) bool {
	var schema struct {
		Required []string `json:"required"`
		AnyOf    []any    `json:"anyOf"`
		OneOf    []any    `json:"oneOf"`
	}
	var says struct {
		ReadOnly bool `json:"readOnlyHint"`
	}
	_ = json.Unmarshal(tool.GetAnnotations(), &says) // a tool that says nothing is not harmless
	return says.ReadOnly && json.Unmarshal(tool.GetInputSchema(), &schema) == nil &&
		len(schema.Required)+len(schema.AnyOf)+len(schema.OneOf) == 0
}
