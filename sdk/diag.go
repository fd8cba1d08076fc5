package sdk

import (
	"fmt"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Diagnostic is one fault of a plugin's settings. The host shows it at the place
// in the file that Path leads to.
type Diagnostic struct {
	Summary string
	Detail  string
	Path    Path
	Warning bool   // false = an error: the settings are refused
	Code    string // BH3nnn; may be empty
}

// Diagnostics are all faults of one config.
type Diagnostics []Diagnostic

// Errorf adds an error at path.
func (d *Diagnostics) Errorf(path Path, format string, args ...any) {
	*d = append(*d, Diagnostic{Summary: fmt.Sprintf(format, args...), Path: path})
}

// Warnf adds a warning at path.
func (d *Diagnostics) Warnf(path Path, format string, args ...any) {
	*d = append(*d, Diagnostic{Summary: fmt.Sprintf(format, args...), Path: path, Warning: true})
}

// HasErrors reports whether the settings are refused.
func (d Diagnostics) HasErrors() bool {
	for _, x := range d {
		if !x.Warning {
			return true
		}
	}
	return false
}

// Path leads from the config body down to an attribute. The zero value is the
// body itself.
type Path struct{ steps []pathStep }

type pathStep struct {
	attr, key, block string
	index            int64
	kind             byte // a, i, k or b
}

// Attr is the path of an attribute at the top of the config.
func Attr(name string) Path { return Path{}.Attr(name) }

// Block is the path of the n-th block, from 0, of a type at the top of the config.
func Block(typeName string, n int) Path { return Path{}.Block(typeName, n) }

// Attr goes on to an attribute.
func (p Path) Attr(name string) Path { return p.add(pathStep{kind: 'a', attr: name}) }

// Index goes on to an element of a list.
func (p Path) Index(i int) Path { return p.add(pathStep{kind: 'i', index: int64(i)}) }

// Key goes on to an element of a map.
func (p Path) Key(key string) Path { return p.add(pathStep{kind: 'k', key: key}) }

// Block goes on to the n-th block, from 0, of a type.
func (p Path) Block(typeName string, n int) Path {
	return p.add(pathStep{kind: 'b', block: typeName, index: int64(n)})
}

func (p Path) add(s pathStep) Path {
	return Path{steps: append(append([]pathStep(nil), p.steps...), s)}
}

// String is the path for a log: search[0].api_key.
func (p Path) String() string {
	out := ""
	for _, s := range p.steps {
		switch s.kind {
		case 'a':
			out += dot(out) + s.attr
		case 'i':
			out += fmt.Sprintf("[%d]", s.index)
		case 'k':
			out += fmt.Sprintf("[%q]", s.key)
		case 'b':
			out += dot(out) + fmt.Sprintf("%s[%d]", s.block, s.index)
		}
	}
	return out
}

func dot(before string) string {
	if before == "" {
		return ""
	}
	return "."
}

func (d Diagnostics) proto() []*pluginv1.Diagnostic {
	var out []*pluginv1.Diagnostic
	for _, x := range d {
		p := &pluginv1.Diagnostic{
			Severity: pluginv1.Severity_SEVERITY_ERROR,
			Summary:  utf8(x.Summary), Detail: utf8(x.Detail), Code: utf8(x.Code),
		}
		if x.Warning {
			p.Severity = pluginv1.Severity_SEVERITY_WARNING
		}
		for _, s := range x.Path.steps {
			step := &pluginv1.PathStep{}
			switch s.kind {
			case 'a':
				step.Step = &pluginv1.PathStep_Attribute{Attribute: utf8(s.attr)}
			case 'i':
				step.Step = &pluginv1.PathStep_Index{Index: s.index}
			case 'k':
				step.Step = &pluginv1.PathStep_Key{Key: utf8(s.key)}
			case 'b':
				step.Step = &pluginv1.PathStep_Block{Block: &pluginv1.BlockStep{TypeName: utf8(s.block), Ordinal: uint32(s.index)}}
			}
			p.Path = append(p.Path, step)
		}
		out = append(out, p)
	}
	return out
}
