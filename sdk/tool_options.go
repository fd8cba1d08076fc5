package sdk

import (
	"encoding/json"
	"errors"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// ToolOption sets one property of a tool.
type ToolOption func(*Tool)

// WithTitle sets the title shown to people.
func WithTitle(title string) ToolOption { return func(t *Tool) { t.spec.title = title } }

// WithTier proposes a security tier.
func WithTier(tier Tier) ToolOption { return func(t *Tool) { t.spec.tier = tier } }

// WithExposure sets when the tool is listed; the default is Always.
func WithExposure(e Exposure) ToolOption { return func(t *Tool) { t.spec.exposure = e } }

// WithExposureFor sets another exposure for agents of a model tier: low, balanced
// or high.
func WithExposureFor(modelTier string, e Exposure) ToolOption {
	return func(t *Tool) {
		if t.spec.exposureFor == nil {
			t.spec.exposureFor = map[string]Exposure{}
		}
		t.spec.exposureFor[modelTier] = e
	}
}

// Internal makes the tool callable by plugins with a grant only, never by agents.
func Internal() ToolOption { return func(t *Tool) { t.spec.internal = true } }

// WithTimeout sets the time one call may take; the host's maximum is 900 s.
func WithTimeout(d time.Duration) ToolOption { return func(t *Tool) { t.spec.timeout = d } }

// ReadOnly says that the tool changes nothing; the host may repeat a lost call.
func ReadOnly() ToolOption { return annotate("readOnlyHint", true) }

// Idempotent says that calling twice equals calling once.
func Idempotent() ToolOption { return annotate("idempotentHint", true) }

// Destructive says whether the tool may destroy something.
func Destructive(yes bool) ToolOption { return annotate("destructiveHint", yes) }

// OpenWorld says that the tool reaches beyond this machine.
func OpenWorld() ToolOption { return annotate("openWorldHint", true) }

func annotate(name string, value bool) ToolOption {
	return func(t *Tool) {
		if t.spec.annotations == nil {
			t.spec.annotations = map[string]bool{}
		}
		t.spec.annotations[name] = value
	}
}

// WithAnnotations passes MCP annotations on as they are; it overrides ReadOnly
// and its kin.
func WithAnnotations(raw json.RawMessage) ToolOption {
	return func(t *Tool) { t.spec.rawAnnotations = raw }
}

// WithAliases gives further names by which the tool can be called but is not listed.
func WithAliases(names ...string) ToolOption {
	return func(t *Tool) { t.spec.nameAliases = append(t.spec.nameAliases, names...) }
}

// WithArgumentAlias lets callers write from for the argument to.
func WithArgumentAlias(from, to string) ToolOption {
	return func(t *Tool) { t.spec.argAliases = append(t.spec.argAliases, [2]string{from, to}) }
}

// WithDefaults gives arguments used when absent, as one JSON object.
func WithDefaults(object json.RawMessage) ToolOption {
	return func(t *Tool) { t.spec.argDefaults = object }
}

// WithOutputSchema sets the schema of structured results.
func WithOutputSchema(schema json.RawMessage) ToolOption {
	return func(t *Tool) { t.spec.outputSchema = schema }
}

// WithOutput sets the schema of structured results from a type.
func WithOutput[T any]() ToolOption {
	return func(t *Tool) {
		schema, err := Schema[T]()
		t.spec.outputSchema, t.err = schema, errors.Join(t.err, err)
	}
}

// WithSource says where the tool comes from, such as mcp:calendar.
func WithSource(source string) ToolOption { return func(t *Tool) { t.spec.source = source } }

// WithGroup names the group allowlists use.
func WithGroup(group string) ToolOption { return func(t *Tool) { t.spec.group = group } }

// WithDownstreamName keeps the name the tool has on the server behind the plugin.
func WithDownstreamName(name string) ToolOption { return func(t *Tool) { t.spec.downstream = name } }

// WithMeta passes MCP _meta, icons and the like on as they are.
func WithMeta(raw json.RawMessage) ToolOption { return func(t *Tool) { t.spec.meta = raw } }

// Unshaped says that results are never stored in chunks.
func Unshaped() ToolOption { return func(t *Tool) { t.spec.unshaped = true } }

func (t *Tool) proto() *pluginv1.Tool {
	s := &t.spec
	p := &pluginv1.Tool{
		Name: s.name, Title: utf8(s.title), Description: utf8(s.description),
		InputSchema: s.inputSchema, OutputSchema: s.outputSchema, Annotations: s.rawAnnotations,
		Meta: s.meta, Source: utf8(s.source), Group: utf8(s.group),
		ProposedTier: pluginv1.Tier(s.tier), Exposure: pluginv1.Exposure(s.exposure),
		Visibility: pluginv1.Visibility_VISIBILITY_AGENTS, TimeoutMs: s.timeout.Milliseconds(),
		ArgumentDefaults: s.argDefaults, DownstreamName: utf8(s.downstream),
		NameAliases: s.nameAliases, Unshaped: s.unshaped,
	}
	if s.internal {
		p.Visibility = pluginv1.Visibility_VISIBILITY_INTERNAL
	}
	if p.Annotations == nil && s.annotations != nil {
		p.Annotations, _ = json.Marshal(s.annotations) // bools by name: can't fail
	}
	for modelTier, e := range s.exposureFor {
		if p.ExposureByModelTier == nil {
			p.ExposureByModelTier = map[string]pluginv1.Exposure{}
		}
		p.ExposureByModelTier[modelTier] = pluginv1.Exposure(e)
	}
	for _, a := range s.argAliases {
		p.ArgumentAliases = append(p.ArgumentAliases, &pluginv1.ArgumentAlias{From: utf8(a[0]), To: utf8(a[1])})
	}
	return p
}
