package downstream

import (
	"encoding/json"
	"testing"
)

// A fingerprint moves with what a tool means to a caller, and with nothing else.
func TestFingerprints(t *testing.T) {
	tool := func(raw string) string {
		x, _ := parseTool(json.RawMessage(raw))
		if x == nil {
			t.Fatalf("%s is no tool", raw)
		}
		return x.Fingerprint
	}
	base := tool(`{"name":"a","description":"d","inputSchema":{"type":"object","properties":{"x":{"enum":[1,2]},"y":{}}}}`)
	for what, c := range map[string]struct {
		raw  string
		same bool
	}{
		"order of keys":  {`{"inputSchema":{"properties":{"y":{},"x":{"enum":[1,2]}},"type":"object"},"description":"d","name":"a"}`, true},
		"spaces":         {`{"name":"a","description":"d","inputSchema": { "type" : "object", "properties":{"x":{"enum":[1, 2]},"y":{}}}}`, true},
		"order of lists": {`{"name":"a","description":"d","inputSchema":{"type":"object","properties":{"x":{"enum":[2,1]},"y":{}}}}`, false},
		"description":    {`{"name":"a","description":"e","inputSchema":{"type":"object","properties":{"x":{"enum":[1,2]},"y":{}}}}`, false},
		"name":           {`{"name":"b","description":"d","inputSchema":{"type":"object","properties":{"x":{"enum":[1,2]},"y":{}}}}`, false},
	} {
		if (tool(c.raw) == base) != c.same {
			t.Errorf("%s: the same is %t", what, !c.same)
		}
	}
	if tool(`{"name":"a"}`) == tool(`{"name":"a","inputSchema":{}}`) {
		t.Error("no schema and an empty one are alike")
	}
	a, b := Tool{Name: "a", Fingerprint: "1"}, Tool{Name: "b", Fingerprint: "2"}
	one, two := Surface{Tools: []Tool{a, b}}, Surface{Tools: []Tool{b, a}}
	if one.fingerprint() != two.fingerprint() {
		t.Error("the order of a list counts")
	}
	two.Resources = []Resource{{URI: "x://y"}}
	if one.fingerprint() == two.fingerprint() {
		t.Error("a resource does not count")
	}
	two.Resources = []Resource{}
	if one.fingerprint() != two.fingerprint() {
		t.Error("an empty list of resources counts")
	}
}
