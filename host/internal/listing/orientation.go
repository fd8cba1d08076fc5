package listing

import (
	"slices"

	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
)

// Orientation is the texts that apply to what agent sees, in their order. active is
// as in List.
func Orientation(snap *registry.Snapshot, agent *policy.Agent, active map[string]bool, budget int) []string {
	listed := map[string]bool{}
	for _, t := range List(snap, agent, active, budget) {
		listed[t.Name] = true
	}
	out := []string{}
	for _, o := range snap.Orientation {
		applies := len(o.AnyListed) == 0 || slices.ContainsFunc(o.AnyListed, func(n string) bool { return listed[n] })
		if applies && (len(o.ModelTiers) == 0 || slices.Contains(o.ModelTiers, agent.ModelTier)) {
			out = append(out, o.Text)
		}
	}
	return out
}
