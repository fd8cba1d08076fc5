package sdk

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// hclField is one tagged field of a settings struct.
type hclField struct {
	index     int
	name      string
	kind      string // attr, block or label
	optional  bool
	sensitive bool
	required  bool // blocks: at least one
	path      pluginv1.PathUse
	quantity  pluginv1.Quantity
	doc       string
}

var (
	durationType = reflect.TypeFor[Duration]()
	sizeType     = reflect.TypeFor[Size]()
	rawJSONType  = reflect.TypeFor[json.RawMessage]()
)

// hclFields reads the tags of a struct type. Fields without an hcl tag are the
// plugin's own.
func hclFields(t reflect.Type) ([]hclField, error) {
	var fields []hclField
	seen := map[string]bool{}
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, ok := sf.Tag.Lookup("hcl")
		if !ok {
			continue
		}
		if !sf.IsExported() {
			return nil, fmt.Errorf("%s.%s has an hcl tag but is not exported", t, sf.Name)
		}
		name, kind, _ := strings.Cut(tag, ",")
		f := hclField{index: i, name: name, kind: kind, doc: sf.Tag.Get("doc")}
		switch kind {
		case "", "attr":
			f.kind = "attr"
		case "optional":
			f.kind, f.optional = "attr", true
		case "block", "label":
		default:
			return nil, fmt.Errorf("%s.%s: hcl tag option %q is not known", t, sf.Name, kind)
		}
		if name == "" || seen[name] {
			return nil, fmt.Errorf("%s.%s: hcl name %q is empty or taken", t, sf.Name, name)
		}
		seen[name] = true
		switch indirect(sf.Type) {
		case durationType:
			f.quantity = pluginv1.Quantity_QUANTITY_DURATION
		case sizeType:
			f.quantity = pluginv1.Quantity_QUANTITY_SIZE
		}
		if err := f.options(sf.Tag.Get("bulkhead")); err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, sf.Name, err)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

func (f *hclField) options(tag string) error {
	for opt := range strings.SplitSeq(tag, ",") {
		switch opt = strings.TrimSpace(opt); opt {
		case "":
		case "sensitive":
			f.sensitive = true
		case "required":
			f.required = true
		case "duration":
			f.quantity = pluginv1.Quantity_QUANTITY_DURATION
		case "size":
			f.quantity = pluginv1.Quantity_QUANTITY_SIZE
		case "path=read":
			f.path = pluginv1.PathUse_PATH_USE_READ
		case "path=write":
			f.path = pluginv1.PathUse_PATH_USE_WRITE
		case "path=exec":
			f.path = pluginv1.PathUse_PATH_USE_EXEC
		default:
			return fmt.Errorf("bulkhead tag option %q is not known", opt)
		}
	}
	return nil
}

// bodyOf derives the schema of a body from a struct that holds its defaults.
func bodyOf(v reflect.Value) (*pluginv1.ConfigBody, error) {
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("settings are a struct, not %s", v.Type())
	}
	fields, err := hclFields(v.Type())
	if err != nil {
		return nil, err
	}
	body := &pluginv1.ConfigBody{}
	for _, f := range fields {
		fv := v.Field(f.index)
		switch f.kind {
		case "attr":
			typ, err := constraint(fv.Type())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			a := &pluginv1.ConfigAttribute{
				Name: f.name, Type: typ, Required: !f.optional, Sensitive: f.sensitive,
				Path: f.path, Quantity: f.quantity, Doc: f.doc,
			}
			if f.optional && !f.sensitive && !fv.IsZero() {
				if a.DefaultJson, err = json.Marshal(fv.Interface()); err != nil {
					return nil, fmt.Errorf("%s: default: %w", f.name, err)
				}
			}
			body.Attributes = append(body.Attributes, a)
		case "block":
			b, err := blockOf(f, fv)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			body.Blocks = append(body.Blocks, b)
		}
	}
	return body, nil
}

func blockOf(f hclField, fv reflect.Value) (*pluginv1.ConfigBlock, error) {
	b := &pluginv1.ConfigBlock{TypeName: f.name, Doc: f.doc}
	if f.required {
		b.MinItems = 1
	}
	t := fv.Type()
	if t.Kind() == reflect.Slice {
		t = t.Elem()
		fv = newElement(indirect(t))
	} else {
		b.MaxItems = 1
		if t.Kind() == reflect.Pointer && !fv.IsNil() {
			fv = fv.Elem()
		} else if t.Kind() == reflect.Pointer {
			fv = newElement(t.Elem())
		}
	}
	if fv.Kind() != reflect.Struct {
		return nil, fmt.Errorf("a block is a struct, a pointer to one or a slice of them, not %s", t)
	}
	fields, err := hclFields(fv.Type())
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		if f.kind == "label" {
			if fv.Field(f.index).Kind() != reflect.String {
				return nil, fmt.Errorf("label %s is not a string", f.name)
			}
			b.Labels = append(b.Labels, f.name)
		}
	}
	b.Body, err = bodyOf(fv)
	return b, err
}

// constraint writes a Go type as an HCL type constraint.
func constraint(t reflect.Type) (string, error) {
	t = indirect(t)
	switch {
	case t == durationType, t == sizeType:
		return "string", nil
	case t == rawJSONType, t.Kind() == reflect.Interface:
		return "any", nil
	}
	switch t.Kind() {
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "bool", nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return "number", nil
	case reflect.Slice:
		elem, err := constraint(t.Elem())
		return "list(" + elem + ")", err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return "", fmt.Errorf("keys of %s are not strings", t)
		}
		elem, err := constraint(t.Elem())
		return "map(" + elem + ")", err
	case reflect.Struct:
		fields, err := hclFields(t)
		if err != nil {
			return "", err
		}
		var parts []string
		for _, f := range fields {
			elem, err := constraint(t.Field(f.index).Type)
			if err != nil {
				return "", fmt.Errorf("%s: %w", f.name, err)
			}
			if f.optional {
				elem = "optional(" + elem + ")"
			}
			parts = append(parts, f.name+"="+elem)
		}
		return "object({" + strings.Join(parts, ",") + "})", nil
	}
	return "", fmt.Errorf("HCL has no type for %s", t)
}

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// newElement makes an addressable element with its own defaults.
func newElement(t reflect.Type) reflect.Value {
	p := reflect.New(t)
	if d, ok := p.Interface().(interface{ Defaults() }); ok {
		d.Defaults()
	}
	return p.Elem()
}
