package config

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// evaluator checks and evaluates bodies against their schemas.
type evaluator struct {
	base       string // folder relative paths start at
	secretsDir string // empty = secret() is not available
	scrub      *scrubber
	diags      hcl.Diagnostics
	paths      []TaggedPath
	masked     []hcl.Range // expressions whose literals are not to be shown
	types      map[string]typeSpec
	checking   bool // the walk is over: a place that has a fault needs no second one
}

type typeSpec struct {
	ty       cty.Type
	defaults *typeexpr.Defaults
	bad      bool
}

// node is a body and what became of it: attribute values and accepted blocks.
type node struct {
	block  *hclsyntax.Block // nil for a file
	labels []string
	attrs  map[string]cty.Value
	blocks map[string][]*node
	schema *pluginv1.ConfigBody
}

func (e *evaluator) add(ref fault.Ref, at hcl.Range, summary, detail string) {
	if e.checking && slices.ContainsFunc(e.diags, func(d *hcl.Diagnostic) bool { return d.Subject != nil && at.Overlaps(*d.Subject) }) {
		return
	}
	e.diags = append(e.diags, problem(ref, at, summary, detail))
}

// walk evaluates one body. at is where something missing is reported.
func (e *evaluator) walk(b *hclsyntax.Body, at hcl.Range, schema *pluginv1.ConfigBody) *node {
	n := &node{attrs: map[string]cty.Value{}, blocks: map[string][]*node{}, schema: schema}
	attrs := map[string]*pluginv1.ConfigAttribute{}
	blocks := map[string]*pluginv1.ConfigBlock{}
	var known []string
	for _, a := range schema.GetAttributes() {
		attrs[a.Name] = a
		known = append(known, a.Name)
	}
	for _, bl := range schema.GetBlocks() {
		blocks[bl.TypeName] = bl
		known = append(known, bl.TypeName)
	}

	for name, attribute := range b.Attributes {
		a := attrs[name]
		switch {
		case a != nil:
			n.attrs[name] = e.attribute(a, attribute)
		case blocks[name] != nil:
			e.add(fault.ConfigUnknown, attribute.NameRange, fmt.Sprintf("%s is a block", name), fmt.Sprintf("write %s { … } without the equals sign", name))
		default:
			e.add(fault.ConfigUnknown, attribute.NameRange, fmt.Sprintf("unknown key %q", name), suggest(name, known, 12))
		}
	}
	for _, a := range schema.GetAttributes() {
		if a.Required && b.Attributes[a.Name] == nil {
			e.add(fault.ConfigValue, at, fmt.Sprintf("%q is missing", a.Name), "it is required here"+docSuffix(a.Doc))
		}
	}

	for _, block := range b.Blocks {
		bl := blocks[block.Type]
		switch {
		case bl != nil:
			e.block(n, bl, block)
		case attrs[block.Type] != nil:
			e.add(fault.ConfigUnknown, block.TypeRange, fmt.Sprintf("%s is not a block", block.Type), fmt.Sprintf("write %s = …", block.Type))
		default:
			e.add(fault.ConfigUnknown, block.TypeRange, fmt.Sprintf("unknown block %q", block.Type), suggest(block.Type, known, 12))
		}
	}
	for _, bl := range schema.GetBlocks() {
		if have := len(n.blocks[bl.TypeName]); have < int(bl.MinItems) {
			e.add(fault.ConfigValue, at, fmt.Sprintf("block %q is missing", bl.TypeName), fmt.Sprintf("at least %d required, %d found", bl.MinItems, have))
		}
	}
	return n
}

func docSuffix(doc string) string {
	if doc == "" {
		return ""
	}
	return ": " + doc
}

func (e *evaluator) block(parent *node, schema *pluginv1.ConfigBlock, block *hclsyntax.Block) {
	before := parent.blocks[schema.TypeName]
	if limit := int(schema.MaxItems); limit > 0 && len(before) >= limit {
		if limit == 1 {
			first := before[0].block.DefRange()
			e.add(fault.ConfigValue, block.DefRange(), fmt.Sprintf("second %q block", schema.TypeName), fmt.Sprintf("only one may stand here; the first is at %s", place(&first)))
		} else {
			e.add(fault.ConfigValue, block.DefRange(), fmt.Sprintf("too many %q blocks", schema.TypeName), fmt.Sprintf("at most %d", limit))
		}
		return
	}
	if want, have := len(schema.Labels), len(block.Labels); want != have {
		at := block.DefRange()
		if have > want {
			at = block.LabelRanges[want]
		}
		shape := schema.TypeName
		for _, l := range schema.Labels {
			shape += fmt.Sprintf(" %q", strings.ToUpper(l))
		}
		e.add(fault.ConfigValue, at, fmt.Sprintf("block %q takes %d label(s), not %d", schema.TypeName, want, have), "write "+shape+" { … }")
	}
	var n *node
	if schema.Body == rawConfig {
		n = &node{}
	} else {
		n = e.walk(block.Body, block.DefRange(), schema.Body)
	}
	n.block, n.labels = block, block.Labels
	parent.blocks[schema.TypeName] = append(before, n)
}

// attribute evaluates one attribute; a null value stands for a failed one too.
func (e *evaluator) attribute(schema *pluginv1.ConfigAttribute, a *hclsyntax.Attribute) cty.Value {
	none := cty.NullVal(cty.DynamicPseudoType)
	spec := e.typeOf(schema.Type)
	if spec.bad {
		e.add(fault.ConfigValue, a.NameRange, fmt.Sprintf("the plugin describes %q with a type that is no HCL type", schema.Name), schema.Type)
		return none
	}
	if schema.Sensitive {
		e.masked = append(e.masked, a.Expr.Range())
	}
	if e.variables(a.Expr) {
		return none
	}

	ctx := e.context(func(v cty.Value) {
		if schema.Sensitive || v.IsMarked() {
			e.scrub.addValue(v)
		}
	})
	value, diags := a.Expr.Value(ctx)
	for _, d := range diags {
		e.diags = append(e.diags, own(fault.ConfigValue, d))
	}
	if diags.HasErrors() {
		return none
	}
	if schema.Sensitive {
		e.scrub.addValue(value)
	}
	if spec.defaults != nil {
		value = spec.defaults.Apply(value)
	}
	value, err := convert.Convert(value, spec.ty)
	if err != nil {
		detail, at := describe(err), a.Expr.Range()
		if pe, ok := err.(cty.PathError); ok {
			at = elementRange(a.Expr, pe.Path)
		}
		if schema.Sensitive {
			detail = typeexpr.TypeString(spec.ty) + " is required"
		}
		e.add(fault.ConfigValue, at, fmt.Sprintf("wrong type for %q", schema.Name), detail+docSuffix(schema.Doc))
		return none
	}
	if !value.IsWhollyKnown() {
		e.add(fault.ConfigValue, a.Expr.Range(), fmt.Sprintf("%q has no value", schema.Name), "its expression can't be evaluated here")
		return none
	}
	before := len(e.diags)
	value = e.refine(schema, a, value)
	if e.diags[before:].HasErrors() {
		return none
	}
	if schema.Sensitive {
		value = value.Mark(sensitiveMark{})
	}
	return value
}

// refine checks numbers and quantities and makes paths absolute.
func (e *evaluator) refine(schema *pluginv1.ConfigAttribute, a *hclsyntax.Attribute, value cty.Value) cty.Value {
	out, _ := cty.Transform(value, func(p cty.Path, v cty.Value) (cty.Value, error) {
		raw, marks := v.Unmark()
		if !raw.IsKnown() {
			return v, nil
		}
		if raw.IsNull() {
			if insideList(value, p) {
				e.add(fault.ConfigValue, elementRange(a.Expr, p), fmt.Sprintf("null inside the list %q", schema.Name), "leave the element out")
			}
			return v, nil
		}
		switch {
		case raw.Type() == cty.Number && hugeNumber(raw):
			e.add(fault.ConfigValue, elementRange(a.Expr, p), fmt.Sprintf("a number in %q is out of range", schema.Name), "")
		case raw.Type() != cty.String:
		case schema.Quantity != pluginv1.Quantity_QUANTITY_UNSPECIFIED:
			_, err := ParseDuration(raw.AsString())
			if schema.Quantity == pluginv1.Quantity_QUANTITY_SIZE {
				_, err = ParseSize(raw.AsString())
			}
			if err != nil {
				e.add(fault.ConfigValue, elementRange(a.Expr, p), fmt.Sprintf("%q is not acceptable for %q", e.show(schema, v), schema.Name), err.Error())
			}
		case schema.Path != pluginv1.PathUse_PATH_USE_UNSPECIFIED && raw.AsString() != "":
			raw = e.path(schema, a, p, raw)
		}
		return raw.WithMarks(marks), nil
	})
	return out
}

func (e *evaluator) show(schema *pluginv1.ConfigAttribute, v cty.Value) string {
	if schema.Sensitive || v.IsMarked() {
		return hidden
	}
	text := []rune(v.AsString())
	if len(text) > 60 {
		text = append(text[:60], '…')
	}
	return string(text)
}

// path resolves one path. A bare command name is left to be looked up.
func (e *evaluator) path(schema *pluginv1.ConfigAttribute, a *hclsyntax.Attribute, p cty.Path, v cty.Value) cty.Value {
	name := v.AsString()
	if strings.ContainsRune(name, 0) {
		e.add(fault.ConfigValue, elementRange(a.Expr, p), fmt.Sprintf("the path in %q has a zero byte", schema.Name), "")
		return v
	}
	tagged := TaggedPath{Attribute: schema.Name, Use: schema.Path, Range: elementRange(a.Expr, p)}
	if schema.Path == pluginv1.PathUse_PATH_USE_EXEC && filepath.Base(name) == name {
		tagged.Path = name
		if found, err := exec.LookPath(name); err == nil && filepath.IsAbs(found) {
			tagged.Path = found
		}
		e.paths = append(e.paths, tagged)
		return v
	}
	tagged.Path = e.absolute(name)
	e.paths = append(e.paths, tagged)
	return cty.StringVal(tagged.Path)
}

// variables reports names that stand where a value is meant. HCL would call
// them unknown variables and leave the reader to find out about env().
func (e *evaluator) variables(expr hclsyntax.Expression) bool {
	seen := expr.Variables()
	sort.Slice(seen, func(i, j int) bool { return seen[i].SourceRange().Start.Byte < seen[j].SourceRange().Start.Byte })
	for _, t := range seen {
		name := t.RootName()
		detail := fmt.Sprintf("there are no variables; for the environment write env(%q)", name)
		if strings.IndexFunc(name, unicode.IsUpper) < 0 {
			detail = fmt.Sprintf("write %q if the text is meant, or env(%q) for the environment", name, name)
		}
		e.add(fault.ConfigValue, t.SourceRange(), fmt.Sprintf("unknown name %s", name), detail)
	}
	return len(seen) > 0
}

// typeOf reads a type constraint written as text.
func (e *evaluator) typeOf(text string) typeSpec {
	if spec, ok := e.types[text]; ok {
		return spec
	}
	var spec typeSpec
	source := text
	if source == "" {
		source = "any"
	}
	expr, diags := hclsyntax.ParseExpression([]byte(source), "type", hcl.InitialPos)
	if diags.HasErrors() || len(source) > 4096 {
		spec.bad = true
	} else if ty, defaults, diags := typeexpr.TypeConstraintWithDefaults(expr); diags.HasErrors() {
		spec.bad = true
	} else {
		spec.ty, spec.defaults = ty, defaults
	}
	if e.types == nil {
		e.types = map[string]typeSpec{}
	}
	e.types[text] = spec
	return spec
}

// describe says where inside the value a conversion failed.
func describe(err error) string {
	var at strings.Builder
	if pe, ok := err.(cty.PathError); ok {
		for _, step := range pe.Path {
			switch s := step.(type) {
			case cty.GetAttrStep:
				at.WriteString("." + s.Name)
			case cty.IndexStep:
				switch key, _ := s.Key.Unmark(); {
				case !key.IsKnown() || key.IsNull():
				case key.Type() == cty.String:
					fmt.Fprintf(&at, "[%q]", key.AsString())
				case key.Type() == cty.Number:
					fmt.Fprintf(&at, "[%s]", key.AsBigFloat().Text('f', 0))
				}
			}
		}
	}
	if at.Len() == 0 {
		return err.Error()
	}
	return at.String() + ": " + err.Error()
}

// insideList tells whether the value at p is an element of a list.
func insideList(root cty.Value, p cty.Path) bool {
	if len(p) == 0 {
		return false
	}
	parent, err := p[:len(p)-1].Apply(root)
	if err != nil {
		return false
	}
	ty := parent.Type()
	return ty.IsListType() || ty.IsTupleType() || ty.IsSetType()
}

// elementRange is where the element at p of a value stands, as far as the
// expression shows it.
func elementRange(expr hclsyntax.Expression, p cty.Path) hcl.Range {
	for _, step := range p {
		var next hclsyntax.Expression
		switch s := step.(type) {
		case cty.GetAttrStep:
			next = itemOf(expr, s.Name)
		case cty.IndexStep:
			key, _ := s.Key.Unmark()
			switch {
			case !key.IsKnown() || key.IsNull():
			case key.Type() == cty.String:
				next = itemOf(expr, key.AsString())
			case key.Type() == cty.Number:
				i, _ := key.AsBigFloat().Int64()
				next = elementOf(expr, i)
			}
		}
		if next == nil {
			break
		}
		expr = next
	}
	return expr.Range()
}

func elementOf(expr hclsyntax.Expression, i int64) hclsyntax.Expression {
	if list, ok := unwrap(expr).(*hclsyntax.TupleConsExpr); ok && i >= 0 && i < int64(len(list.Exprs)) {
		return list.Exprs[i]
	}
	return nil
}

func itemOf(expr hclsyntax.Expression, key string) hclsyntax.Expression {
	object, ok := unwrap(expr).(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil
	}
	for _, item := range object.Items {
		if len(item.KeyExpr.Variables()) > 0 {
			continue
		}
		if k, diags := item.KeyExpr.Value(nil); !diags.HasErrors() && k.Type() == cty.String && k.IsKnown() && !k.IsNull() && !k.IsMarked() && k.AsString() == key {
			return item.ValueExpr
		}
	}
	return nil
}

func unwrap(expr hclsyntax.Expression) hclsyntax.Expression {
	for {
		p, ok := expr.(*hclsyntax.ParenthesesExpr)
		if !ok {
			return expr
		}
		expr = p.Expression
	}
}
