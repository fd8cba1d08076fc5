package sdk

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// Schema is the JSON Schema of T, inline and without references. A property is
// required unless its json tag says omitempty or omitzero or its type is a
// pointer. The tag doc describes a property; the tag jsonschema adds keywords
// (enum=a,enum=b,minimum=1,default=x,…). T must not contain itself.
func Schema[T any]() (json.RawMessage, error) { return schemaOf(reflect.TypeFor[T]()) }

func schemaOf(t reflect.Type) (json.RawMessage, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if err := checkFinite(t, nil); err != nil {
		return nil, err
	}
	r := jsonschema.Reflector{
		Anonymous: true, DoNotReference: true,
		LookupComment: func(t reflect.Type, field string) string {
			if t.Kind() != reflect.Struct || field == "" {
				return ""
			}
			if f, ok := t.FieldByName(field); ok {
				return f.Tag.Get("doc")
			}
			return ""
		},
	}
	s := r.ReflectFromType(t)
	s.Version = ""
	tidySchema(s, t)
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t, err)
	}
	return raw, nil
}

// checkFinite refuses types the inline form can't express: those that contain
// themselves, and kinds JSON has no value for.
func checkFinite(t reflect.Type, above []reflect.Type) error {
	if slices.Contains(above, t) {
		return fmt.Errorf("schema: type %s contains itself", t)
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkFinite(t.Elem(), above)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return fmt.Errorf("schema: keys of %s are not strings", t)
		}
		return checkFinite(t.Elem(), above)
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("schema: JSON has no value for type %s", t)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" {
				continue
			}
			if err := checkFinite(f.Type, append(slices.Clone(above), t)); err != nil {
				return err
			}
		}
	}
	return nil
}

// tidySchema makes pointers optional and writes "anything" as {}, since some
// clients don't take a bare true.
func tidySchema(s *jsonschema.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if s.Items != nil {
			s.Items = anything(s.Items)
			tidySchema(s.Items, t.Elem())
		}
	case reflect.Map:
		if s.AdditionalProperties != nil {
			tidySchema(s.AdditionalProperties, t.Elem())
		}
	case reflect.Struct:
		if s.Properties == nil {
			return
		}
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			prop, ok := s.Properties.Get(name)
			if !ok {
				continue
			}
			if f.Type.Kind() == reflect.Pointer {
				s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
			}
			prop = anything(prop)
			s.Properties.Set(name, prop)
			tidySchema(prop, f.Type)
		}
	}
}

func anything(s *jsonschema.Schema) *jsonschema.Schema {
	if s == jsonschema.TrueSchema || reflect.DeepEqual(s, jsonschema.TrueSchema) || reflect.DeepEqual(s, &jsonschema.Schema{}) {
		return &jsonschema.Schema{Extras: map[string]any{}}
	}
	return s
}
