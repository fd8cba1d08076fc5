package config

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// TaggedPath is a path from a plugin's config that its sandbox must admit.
type TaggedPath struct {
	Attribute string
	Path      string // absolute; a command that was not found keeps its bare name
	Use       pluginv1.PathUse
	Range     hcl.Range
}

// Evaluated is a plugin's config after evaluation.
type Evaluated struct {
	// JSON is what Validate and Configure get. It holds the sensitive values.
	JSON  json.RawMessage
	Paths []TaggedPath
	// Sensitive lists the strings that must not be shown anywhere.
	Sensitive []string

	plugin string
	body   *hclsyntax.Body
	whole  hcl.Range
	scrub  *scrubber
}

// String hides the values.
func (e *Evaluated) String() string {
	return fmt.Sprintf("config of %s (%d bytes)", e.plugin, len(e.JSON))
}

// GoString hides the values from %#v.
func (e *Evaluated) GoString() string { return e.String() }

// Evaluate checks a plugin's config block against the plugin's schema and
// evaluates it. p may be nil for a plugin without a block. The result is nil
// when there are errors.
func (c *Config) Evaluate(p *Plugin, schema *pluginv1.ConfigBody) (*Evaluated, hcl.Diagnostics) {
	e, diags := c.EvaluateRest(p, schema)
	if diags.HasErrors() {
		return nil, diags
	}
	return e, diags
}

// EvaluateRest is Evaluate that leaves out what is faulty: good for asking a
// plugin what it makes of the rest, and for nothing else.
func (c *Config) EvaluateRest(p *Plugin, schema *pluginv1.ConfigBody) (*Evaluated, hcl.Diagnostics) {
	e := &evaluator{base: c.Dir, secretsDir: c.Host.SecretsDir(), scrub: &c.scrub}
	out := &Evaluated{body: &hclsyntax.Body{}, scrub: &c.scrub}
	if p != nil {
		out.plugin, out.whole = p.Name, p.Range()
		if p.config != nil {
			out.body, out.whole = p.config.Body, p.config.DefRange()
		}
	}
	n := e.walk(out.body, out.whole, schema)
	c.mask(e.masked)
	diags := c.scrub.diags(sorted(e.diags))
	var b bytes.Buffer
	encode(&b, n.value())
	out.JSON, out.Paths = b.Bytes(), e.paths
	out.Sensitive = n.sensitive()
	return out, diags
}

// sensitive collects the strings under sensitive marks.
func (n *node) sensitive() []string {
	var out []string
	for _, v := range n.attrs {
		raw, marked := v.UnmarkDeepWithPaths()
		for _, m := range marked {
			part, err := m.Path.Apply(raw)
			if err != nil {
				continue
			}
			_ = cty.Walk(part, func(_ cty.Path, leaf cty.Value) (bool, error) {
				if leaf.Type() == cty.String && leaf.IsKnown() && !leaf.IsNull() && leaf.AsString() != "" {
					out = append(out, leaf.AsString())
				}
				return true, nil
			})
		}
	}
	for _, blocks := range n.blocks {
		for _, child := range blocks {
			out = append(out, child.sensitive()...)
		}
	}
	return out
}

// Locate gives the plugin's own diagnostics a place in the file: the value the
// path leads to, else the innermost block on the way, else the config block.
func (e *Evaluated) Locate(found []*pluginv1.Diagnostic) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, f := range found {
		if f == nil {
			continue
		}
		at := e.locate(f.Path)
		d := problem(fault.ConfigValue, at, clip(f.Summary), clip(f.Detail))
		if f.Severity == pluginv1.Severity_SEVERITY_WARNING {
			d.Severity = hcl.DiagWarning
		}
		if row, ok := fault.Lookup(fault.Ref(f.Code)); ok {
			d.Extra = Code(row.Ref)
		}
		if d.Summary == "" {
			d.Summary = "plugin " + e.plugin + " refuses this value"
		}
		diags = append(diags, d)
	}
	return e.scrub.diags(sorted(diags))
}

// LocateRest is Locate for a config of which a part was left out: only faults at
// places of their own are told, for others may be about what is missing.
func (e *Evaluated) LocateRest(found []*pluginv1.Diagnostic, faults hcl.Diagnostics) hcl.Diagnostics {
	var out hcl.Diagnostics
	for _, d := range e.Locate(found) {
		known := *d.Subject == e.whole
		for _, f := range faults {
			known = known || f.Subject != nil && (f.Subject.Overlaps(*d.Subject) || d.Subject.Overlaps(*f.Subject))
		}
		if !known {
			out = append(out, d)
		}
	}
	return out
}

// clip bounds what a plugin may say in one diagnostic.
func clip(s string) string {
	const most = 2000
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

func (e *Evaluated) locate(path []*pluginv1.PathStep) hcl.Range {
	at, body := e.whole, e.body
	var expr hclsyntax.Expression
	for _, step := range path {
		var next hclsyntax.Expression
		switch s := step.GetStep().(type) {
		case *pluginv1.PathStep_Block:
			if body == nil {
				return at
			}
			block := nth(body, s.Block.GetTypeName(), int(s.Block.GetOrdinal()))
			if block == nil {
				return at
			}
			at, body = block.DefRange(), block.Body
			continue
		case *pluginv1.PathStep_Attribute:
			if body == nil { // inside an object value
				next = itemOf(expr, s.Attribute)
			} else if a := body.Attributes[s.Attribute]; a != nil {
				next = a.Expr
			}
		case *pluginv1.PathStep_Index:
			if expr != nil {
				next = elementOf(expr, s.Index)
			}
		case *pluginv1.PathStep_Key:
			if expr != nil {
				next = itemOf(expr, s.Key)
			}
		}
		if next == nil {
			return at
		}
		at, expr, body = next.Range(), next, nil
	}
	return at
}

func nth(body *hclsyntax.Body, typeName string, ordinal int) *hclsyntax.Block {
	for _, b := range body.Blocks {
		if b.Type == typeName {
			if ordinal == 0 {
				return b
			}
			ordinal--
		}
	}
	return nil
}
