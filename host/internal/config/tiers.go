package config

import (
	"github.com/zclconf/go-cty/cty"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// LabelledTiers are the tier attributes that a plugin's config sets in blocks of a
// type, by the block's label. A tier is the operator's word only where the operator
// wrote it, so the host reads it here and not from what the plugin makes of it.
// Faults are found when the config is evaluated against the plugin's own schema.
func (c *Config) LabelledTiers(p *Plugin, block string) map[string]string {
	if p.config == nil {
		return nil
	}
	schema := &pluginv1.ConfigBody{Blocks: []*pluginv1.ConfigBlock{{TypeName: block, Labels: []string{"name"},
		Body: &pluginv1.ConfigBody{Attributes: []*pluginv1.ConfigAttribute{{Name: "tier", Type: "string"}}}}}}
	e := &evaluator{base: c.Dir, secretsDir: c.Host.SecretsDir(), scrub: &c.scrub}
	out := map[string]string{}
	for _, n := range e.walk(p.config.Body, p.config.DefRange(), schema).blocks[block] {
		set, ok := n.attrs["tier"]
		if !ok || set == cty.NilVal {
			continue
		}
		tier, _ := set.UnmarkDeep()
		if len(n.labels) == 1 && tier.IsKnown() && !tier.IsNull() && tier.Type() == cty.String {
			out[n.labels[0]] = tier.AsString()
		}
	}
	return out
}
