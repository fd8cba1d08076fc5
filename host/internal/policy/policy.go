package policy

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Override is what HCL says of one tool of a plugin; zero fields say nothing.
type Override struct {
	Tier       pluginv1.Tier
	Risk       string // why a restricted tool may be lowered
	Exposure   pluginv1.Exposure
	Idempotent bool
	Timeout    time.Duration
}

// Plugin is what HCL says of one plugin, as far as policy goes.
type Plugin struct {
	Ships  string // name of the shipped plugin this instance runs; empty for one without a block
	Grants []string
	Owner  string // agent for restricted calls of the plugin itself
	Tools  map[string]Override
	// Sources are tiers for all tools of a source, by its name in lower case, such
	// as mcp:calendar. A tool the host's own map rates is not touched.
	Sources map[string]pluginv1.Tier
}

// Rules is one immutable set of rules.
type Rules struct {
	Agents   []*Agent
	Profiles map[string]Profile // beside the built-in ones
	Plugins  map[string]Plugin
	Tiers    map[string]pluginv1.Tier // policy { tier "x" { tools } }: by tool name
	Risks    map[string]string        // its accept_risk, by tool name
}

// Policy holds the rules in force; they are replaced as a whole.
type Policy struct{ rules atomic.Pointer[Rules] }

// New makes a policy with rules in force.
func New(rules Rules) *Policy {
	p := &Policy{}
	p.Set(rules)
	return p
}

// Changes names the agents that a change of rules concerns.
type Changes struct {
	Gone    []string
	Changed []string // another token, or other rights
}

// Set replaces the rules and says for whom they are others. An agent "default"
// exists unless the rules name it.
func (p *Policy) Set(rules Rules) (c Changes) {
	rules.Agents = slices.Clone(rules.Agents)
	if !slices.ContainsFunc(rules.Agents, func(a *Agent) bool { return a.Name == DefaultAgent }) {
		rules.Agents = append(rules.Agents, &Agent{Name: DefaultAgent, Profile: "main", ModelTier: "balanced"})
	}
	rules.Agents = append(rules.Agents, &Agent{Name: Operator, Profile: "main", ModelTier: "balanced", Approver: true})
	for _, a := range rules.Agents {
		a.profiles, a.token = rules.Profiles, sha256.Sum256([]byte(a.Token))
	}
	old := p.rules.Swap(&rules)
	if old == nil {
		return c
	}
	for _, was := range old.Agents {
		now, err := p.Agent(was.Name)
		switch {
		case err != nil:
			c.Gone = append(c.Gone, was.Name)
		case !now.SameToken(was) || !now.sameRights(was):
			c.Changed = append(c.Changed, was.Name)
		}
	}
	return c
}

// Agent finds a principal by name.
func (p *Policy) Agent(name string) (*Agent, error) {
	for _, a := range p.rules.Load().Agents {
		if a.Name == name {
			return a, nil
		}
	}
	return nil, fault.New(fault.UnknownAgent, "no agent %q in the config", name)
}

// ByToken finds a principal by its bearer token.
func (p *Policy) ByToken(token string) (*Agent, error) {
	agents := p.rules.Load().Agents
	if i := holder(agents, token); i >= 0 {
		return agents[i], nil
	}
	return nil, fault.New(fault.UnknownAgent, "the token belongs to no agent")
}

// Granted says whether plugin holds a grant; "tool:*" covers every tool. State,
// memory, events and questions need none.
func (p *Policy) Granted(plugin, grant string) bool {
	grants := p.rules.Load().Plugins[plugin].Grants
	if strings.HasPrefix(grant, "tool:") && slices.Contains(grants, "tool:*") {
		return true
	}
	return slices.Contains(grants, grant)
}

// Grants lists what plugin was granted.
func (p *Policy) Grants(plugin string) []string { return p.rules.Load().Plugins[plugin].Grants }

// Owner is the agent on whose behalf plugin may call restricted tools by itself.
func (p *Policy) Owner(plugin string) string { return p.rules.Load().Plugins[plugin].Owner }

// Rate settles group, tier, exposure and timeout of an offered tool; it is the
// registry's Rater.
func (p *Policy) Rate(owner string, t *pluginv1.Tool) registry.Rating {
	rules := p.rules.Load()
	plugin := rules.Plugins[owner]
	own := plugin.Tools[t.Name]
	r := rating{registry.Rating{
		Group: t.Group, Exposure: t.Exposure, Timeout: time.Duration(t.TimeoutMs) * time.Millisecond,
		Idempotent: own.Idempotent,
	}}
	row, mapped := shipped[t.Name]
	mapped = mapped && (owner == registry.Host || plugin.Ships == row.plugin) && (owner != registry.Host || row.plugin == registry.Host)
	if mapped {
		r.Group = row.group
	}
	if r.Group == "" || !mapped && (r.Group == CoreGroup || plugin.Ships == "") {
		// The core group is open to every agent: only rows of the map may claim it.
		// A plugin nobody configured claims no group but its own.
		r.Group = owner
	}
	switch {
	case mapped:
		r.Tier, r.TierFrom = max(row.tier, t.ProposedTier), "map"
	case t.ProposedTier != 0:
		r.Tier, r.TierFrom = max(t.ProposedTier, pluginv1.Tier_TIER_ELEVATED), "plugin"
	default:
		r.Tier, r.TierFrom = pluginv1.Tier_TIER_ELEVATED, "default"
	}
	if tier := plugin.Sources[strings.ToLower(t.Source)]; tier != 0 && !mapped {
		r.retier(tier, "")
	}
	_, configured := rules.Plugins[owner]
	if own.Tier != 0 {
		r.retier(own.Tier, own.Risk)
	}
	// By name alone only what has a block can be lowered: anyone may take a name.
	if named := rules.Tiers[t.Name]; named > r.Tier || configured && own.Tier == 0 && named != 0 {
		r.retier(named, rules.Risks[t.Name])
	}
	if own.Exposure != 0 {
		r.Exposure = own.Exposure
	}
	if r.Exposure == 0 {
		r.Exposure = pluginv1.Exposure_EXPOSURE_ALWAYS
	}
	if own.Timeout > 0 {
		r.Timeout = own.Timeout
	}
	return r.Rating
}

// Rank orders plugins that offer the same name, whichever was faster at the start:
// who ships a tool has its name, then plugins the config names, then those that
// were only found in the folder.
func (p *Policy) Rank(owner, kind, name string) int {
	plugin, configured := p.rules.Load().Plugins[owner]
	ships := plugin.Ships
	if !configured {
		ships = owner // a plugin of the folder is named after its binary
	}
	if row, ok := shipped[name]; ok && kind == "tool" && row.plugin == ships {
		return 0
	}
	if configured {
		return 1
	}
	return 2
}

type rating struct{ registry.Rating }

// retier is the operator's word, but for one: a restricted tool stays so without a
// written reason.
func (r *rating) retier(tier pluginv1.Tier, risk string) {
	if r.Tier == restricted && tier < restricted && risk == "" {
		r.Note = "stays restricted: its tier in the config lacks accept_risk = \"reason\""
		return
	}
	r.Tier, r.TierFrom = tier, "config"
}

// Shipped is the tier the host's own map gives a tool, or 0. plugin is the shipped
// plugin that offers it; empty stands for whichever does.
func Shipped(plugin, tool string) pluginv1.Tier {
	row, ok := shipped[tool]
	if !ok || plugin != "" && plugin != row.plugin {
		return 0
	}
	return row.tier
}
