// Package listing says which of the tools an agent may call it also sees.
//
// What is listed is always a part of what is callable. Tools exposed as fit are
// listed together while the whole list stays within the budget, or not at all: a
// list that shows a part of them would tell the model that the rest is not there.
package listing

import (
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const (
	always   = pluginv1.Exposure_EXPOSURE_ALWAYS
	fit      = pluginv1.Exposure_EXPOSURE_FIT
	onDemand = pluginv1.Exposure_EXPOSURE_ON_DEMAND
)

// List returns the tools agent sees, by name. active holds names activated in the
// session; it is nil where a list must not vary by session.
func List(snap *registry.Snapshot, agent *policy.Agent, active map[string]bool, budget int) []*registry.Tool {
	var callable []*registry.Tool
	count := 0
	for _, t := range snap.Tools() {
		if !agent.Allows(t) {
			continue
		}
		callable = append(callable, t)
		if exposure(t, agent.ModelTier) != onDemand || active[t.Name] {
			count++
		}
	}
	fits := budget <= 0 || count <= budget
	listed := callable[:0]
	for _, t := range callable {
		if e := exposure(t, agent.ModelTier); e == always || active[t.Name] || (e == fit && fits) {
			listed = append(listed, t)
		}
	}
	return listed
}

// Callable returns every tool agent may call, by name.
func Callable(snap *registry.Snapshot, agent *policy.Agent) []*registry.Tool {
	var out []*registry.Tool
	for _, t := range snap.Tools() {
		if agent.Allows(t) {
			out = append(out, t)
		}
	}
	return out
}

func exposure(t *registry.Tool, modelTier string) pluginv1.Exposure {
	if e, ok := t.ExposureByModelTier[modelTier]; ok && e != 0 {
		return e
	}
	if t.Rating.Exposure == 0 {
		return always
	}
	return t.Rating.Exposure
}

// Plugin says whether agent may use what a plugin offers beside tools: prompts,
// resources and guides. It may when the plugin's group is open to it, or any of
// the plugin's tools.
func Plugin(snap *registry.Snapshot, agent *policy.Agent, owner string) bool {
	if owner == registry.Host || agent.Open(owner) {
		return true
	}
	for _, t := range snap.Tools() {
		if t.Owner == owner && agent.Allows(t) {
			return true
		}
	}
	return false
}
