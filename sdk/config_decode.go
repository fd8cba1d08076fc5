package sdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// decodeBody reads the evaluated JSON of a body over v, which holds the defaults.
func decodeBody(raw []byte, v reflect.Value, at Path) Diagnostics {
	var diags Diagnostics
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		diags.Errorf(at, "the config is not an object")
		return diags
	}
	fields, err := hclFields(v.Type())
	if err != nil {
		diags.Errorf(at, "%v", err)
		return diags
	}
	for _, f := range fields {
		value, present := object[f.name]
		delete(object, f.name)
		if present && string(bytes.TrimSpace(value)) == "null" {
			present = false
		}
		fv := v.Field(f.index)
		switch {
		case f.kind == "block":
			diags = append(diags, decodeBlock(f, value, present, fv, at)...)
		case !present && !f.optional:
			diags.Errorf(at, "%q is required", f.name)
		case present:
			if err := decodeAttr(value, fv, at.Attr(f.name)); err != nil {
				if f.sensitive {
					err.Summary = fmt.Sprintf("%q has a value of the wrong kind", f.name)
				}
				diags = append(diags, *err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		diags.Errorf(at.Attr(name), "%q is not a setting of this plugin", name)
	}
	return diags
}

func decodeBlock(f hclField, raw json.RawMessage, present bool, fv reflect.Value, at Path) Diagnostics {
	var diags Diagnostics
	if fv.Kind() != reflect.Slice {
		if !present {
			if f.required {
				diags.Errorf(at, "a block %q is required", f.name)
			}
			return nil
		}
		if fv.Kind() == reflect.Pointer {
			if fv.IsNil() {
				fv.Set(newElement(fv.Type().Elem()).Addr())
			}
			fv = fv.Elem()
		}
		return decodeBody(raw, fv, at.Block(f.name, 0))
	}
	var items []json.RawMessage
	if present {
		if err := json.Unmarshal(raw, &items); err != nil {
			diags.Errorf(at, "blocks %q are not a list", f.name)
			return diags
		}
	}
	if f.required && len(items) == 0 {
		diags.Errorf(at, "at least one block %q is required", f.name)
	}
	if len(items) == 0 {
		return diags
	}
	elem := fv.Type().Elem()
	list := reflect.MakeSlice(fv.Type(), 0, len(items))
	for i, item := range items {
		e := newElement(indirect(elem))
		diags = append(diags, decodeBody(item, e, at.Block(f.name, i))...)
		if elem.Kind() == reflect.Pointer {
			e = e.Addr()
		}
		list = reflect.Append(list, e)
	}
	fv.Set(list)
	return diags
}

// decodeAttr reads one attribute. It walks lists, maps and objects itself so that
// a fault carries the path to the very element.
func decodeAttr(raw json.RawMessage, v reflect.Value, at Path) *Diagnostic {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	t := v.Type()
	switch {
	case t == durationType, t == sizeType, t == rawJSONType, t.Kind() == reflect.Interface:
	case t.Kind() == reflect.Slice:
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return wrongKind(raw, t, at)
		}
		list := reflect.MakeSlice(t, len(items), len(items))
		for i, item := range items {
			if d := decodeAttr(item, list.Index(i), at.Index(i)); d != nil {
				return d
			}
		}
		v.Set(list)
		return nil
	case t.Kind() == reflect.Map:
		var items map[string]json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return wrongKind(raw, t, at)
		}
		m := reflect.MakeMapWithSize(t, len(items))
		for _, key := range slices.Sorted(maps.Keys(items)) {
			e := reflect.New(t.Elem()).Elem()
			if d := decodeAttr(items[key], e, at.Key(key)); d != nil {
				return d
			}
			m.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), e)
		}
		v.Set(m)
		return nil
	case t.Kind() == reflect.Struct:
		if diags := decodeBody(raw, v, at); len(diags) > 0 {
			return &diags[0]
		}
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	fresh := reflect.New(t)
	if err := dec.Decode(fresh.Interface()); err != nil {
		if t == durationType || t == sizeType {
			return &Diagnostic{Summary: err.Error(), Path: at}
		}
		return wrongKind(raw, t, at)
	}
	if _, err := dec.Token(); err != io.EOF {
		return wrongKind(raw, t, at)
	}
	v.Set(fresh.Elem())
	return nil
}

func wrongKind(raw []byte, t reflect.Type, at Path) *Diagnostic {
	want, _ := constraint(t)
	if strings.HasPrefix(t.Kind().String(), "int") || strings.HasPrefix(t.Kind().String(), "uint") {
		want = "whole number"
		if strings.HasPrefix(t.Kind().String(), "uint") {
			want = "whole number of at least 0"
		}
	}
	got := string(raw)
	if len(got) > 60 {
		got = strings.ToValidUTF8(got[:60], "") + "…"
	}
	return &Diagnostic{Summary: fmt.Sprintf("a %s is wanted here, not %s", want, got), Path: at}
}

// deepCopy copies a settings struct so that no decode writes into the defaults.
func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(deepCopy(v.Elem()).Addr())
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(deepCopy(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for _, key := range v.MapKeys() {
				out.SetMapIndex(key, deepCopy(v.MapIndex(key)))
			}
		}
	case reflect.Struct:
		out.Set(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(deepCopy(v.Field(i)))
			}
		}
	default:
		out.Set(v)
	}
	return out
}
