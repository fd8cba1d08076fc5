package downstream

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is no schema is mended as little as it takes, and said.
func TestOddSchemas(t *testing.T) {
	for schema, want := range map[string][2]string{
		`{"type":"object","required":["a"],"properties":{"a":true,"b":{"type":"string"}}}`: {`{"type":"object","required":["a"],"properties":{"a":true,"b":{"type":"string"}}}`, ""},
		`{"type":"object","required":[1,{"a":1}]}`:                                         {`{"type":"object"}`, "required is no list of names"},
		`{"type":"object","required":"a"}`:                                                 {`{"type":"object"}`, "required is no list of names"},
		`{"type":"object","properties":{"a":5,"b":{"type":"integer"},"c":null}}`:           {`{"properties":{"b":{"type":"integer"}},"type":"object"}`, "no schemas were left out of the input schema: a, c"},
		`{"type":"object","properties":[]}`:                                                {`{"type":"object"}`, "properties are no object"},
		`{"type":["object","null"]}`:                                                       {`{"type":["object","null"]}`, ""},
		`true`:                                                                             {`{"type":"object"}`, "no input schema"},
	} {
		got, note := soundSchema(json.RawMessage(schema))
		if string(got) != want[0] || (want[1] == "") != (note == "") || !strings.Contains(note, want[1]) {
			t.Errorf("%s: %s %q", schema, got, note)
		}
	}
}
