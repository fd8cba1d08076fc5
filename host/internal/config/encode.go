package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
)

// hugeNumber tells whether writing the number out would take thousands of digits.
func hugeNumber(v cty.Value) bool {
	f := v.AsBigFloat()
	if f.IsInf() {
		return true
	}
	exp := f.MantExp(nil)
	return exp > 4096 || exp < -4096
}

// value is the node as one object: attributes, labels, blocks.
func (n *node) value() map[string]any {
	out := map[string]any{}
	for name, v := range n.attrs {
		out[name] = v
	}
	for _, bl := range n.schema.GetBlocks() {
		blocks := n.blocks[bl.TypeName]
		list := make([]any, 0, len(blocks))
		for _, child := range blocks {
			object := child.value()
			for i, label := range bl.Labels {
				if i < len(child.labels) {
					object[label] = cty.StringVal(child.labels[i])
				}
			}
			list = append(list, object)
		}
		switch {
		case bl.MaxItems != 1:
			out[bl.TypeName] = list
		case len(list) == 1:
			out[bl.TypeName] = list[0]
		}
	}
	return out
}

// encode writes JSON: keys sorted, nulls dropped, marks stripped, numbers with
// every digit.
func encode(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		first := true
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if c, ok := v[k].(cty.Value); ok && isNull(c) {
				continue
			}
			comma(b, &first)
			b.Write(quote(k))
			b.WriteByte(':')
			encode(b, v[k])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		first := true
		for _, item := range v {
			comma(b, &first)
			encode(b, item)
		}
		b.WriteByte(']')
	case cty.Value:
		encodeValue(b, v)
	}
}

func encodeValue(b *bytes.Buffer, v cty.Value) {
	v, _ = v.Unmark()
	ty := v.Type()
	switch {
	case v.IsNull() || !v.IsKnown():
		b.WriteString("null")
	case ty == cty.String:
		b.Write(quote(v.AsString()))
	case ty == cty.Number:
		b.WriteString(v.AsBigFloat().Text('f', -1))
	case ty == cty.Bool:
		if v.True() {
			b.WriteString("true")
		} else {
			b.WriteString("false")
		}
	case ty.IsListType() || ty.IsSetType() || ty.IsTupleType():
		b.WriteByte('[')
		first := true
		for it := v.ElementIterator(); it.Next(); {
			_, item := it.Element()
			comma(b, &first)
			encodeValue(b, item)
		}
		b.WriteByte(']')
	case ty.IsMapType() || ty.IsObjectType():
		b.WriteByte('{')
		first := true
		for it := v.ElementIterator(); it.Next(); { // in the order of the keys
			k, item := it.Element()
			if isNull(item) {
				continue
			}
			comma(b, &first)
			k, _ = k.Unmark()
			b.Write(quote(k.AsString()))
			b.WriteByte(':')
			encodeValue(b, item)
		}
		b.WriteByte('}')
	}
}

func isNull(v cty.Value) bool {
	raw, _ := v.Unmark()
	return raw == cty.NilVal || raw.IsNull()
}

func comma(b *bytes.Buffer, first *bool) {
	if !*first {
		b.WriteByte(',')
	}
	*first = false
}

func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
