package registry

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Property is one declared argument, as far as coercion looks at it.
type Property struct {
	Name  string
	Types []string // declared types; empty when the schema does not say plainly
	Items []string // types of an array's items
}

// Is says whether the property is declared with the type.
func (p Property) Is(t string) bool { return slices.Contains(p.Types, t) }

// properties reads the declared top-level arguments of an object schema, in the
// order the schema has them.
func properties(schema []byte) []Property {
	var top struct {
		Properties json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &top) != nil || len(top.Properties) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(top.Properties))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var out []Property
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return out
		}
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return out
		}
		var p struct {
			Type  json.RawMessage `json:"type"`
			Items struct {
				Type json.RawMessage `json:"type"`
			} `json:"items"`
		}
		key, _ := name.(string)
		if json.Unmarshal(raw, &p) != nil {
			out = append(out, Property{Name: key})
			continue
		}
		out = append(out, Property{Name: key, Types: types(p.Type), Items: types(p.Items.Type)})
	}
	return out
}

func types(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	var many []string
	_ = json.Unmarshal(raw, &many) // a type that is neither says nothing plainly
	return many
}
