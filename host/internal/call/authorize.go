package call

import (
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
)

const (
	maxDepth   = 8 // calls in one chain, the agent's own included
	maxReentry = 2 // times one plugin may stand in a chain
)

// authorize checks that this caller may call the resolved tool.
func (p *Pipeline) authorize(c *call) error {
	if err := p.mayUse(c, c.tool); err != nil {
		return err
	}
	return checkChain(c)
}

// mayUse is the rule itself, also used to name only tools the caller may have.
//
// A nested call needs the plugin's grant; for everything but an internal tool the
// agent at the root must be allowed it too.
func (p *Pipeline) mayUse(c *call, t *registry.Tool) error {
	if plugin := c.plugin(); plugin != "" {
		own := t.Owner == plugin
		if !own && !p.Policy.Granted(plugin, "tool:"+t.Name) {
			return fault.New(fault.GrantMissing, "plugin %q may not call %q: its block lacks grants = [\"tool:%s\"]", plugin, t.Name, t.Name)
		}
		if t.Internal() || c.Agent == nil {
			return nil
		}
	} else if t.Internal() {
		if c.Internal {
			return nil
		}
		// Whoever may not know of it gets the answer for a name that does not exist.
		return fault.New(fault.UnknownTool, "no tool %q; internal tools are for plugins (the operator has --internal)", t.Name)
	}
	if !c.Agent.Allows(t) {
		return fault.New(fault.NotAllowed, "agent %q may not call %q (group %q)", c.Agent.Name, t.Name, t.Rating.Group)
	}
	return nil
}

// checkChain bounds nesting: depth, and how often one plugin is re-entered.
func checkChain(c *call) error {
	if depth := len(c.chain) + 1; depth > maxDepth {
		return fault.New(fault.CallDepth, "%q would be call %d in the chain %v; at most %d", c.tool.Name, depth, c.chain, maxDepth)
	}
	seen := 0
	for _, plugin := range c.chain {
		if plugin == c.tool.Owner {
			seen++
		}
	}
	if seen >= maxReentry && c.tool.Owner != registry.Host {
		return fault.New(fault.CallCycle, "plugin %q already stands %d times in the chain %v", c.tool.Owner, seen, c.chain)
	}
	return nil
}
