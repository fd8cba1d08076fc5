package call

import (
	"slices"
	"testing"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

func TestMayUse(t *testing.T) {
	p := &Pipeline{Policy: policy.New(policy.Rules{Plugins: map[string]policy.Plugin{
		"granted": {Grants: []string{"tool:web_browse", "tool:secret"}}, "all": {Grants: []string{"tool:*"}}}})}
	make := func(owner, name, group string, internal bool) *registry.Tool {
		x := &registry.Tool{Tool: &pluginv1.Tool{Name: name}, Owner: owner, Rating: registry.Rating{Group: group}}
		if internal {
			x.Visibility = pluginv1.Visibility_VISIBILITY_INTERNAL
		}
		return x
	}
	browse, secret, own := make("web", "web_browse", "research", false), make("llm", "secret", "llm", true), make("granted", "mine", "granted", true)
	core := make("host", "inbox_read", policy.CoreGroup, false)
	open, narrow := &policy.Agent{Name: "open"}, &policy.Agent{Name: "narrow", Groups: []string{"files"}}
	denied := &policy.Agent{Name: "denied", Deny: []string{"web_*"}}
	for _, c := range []struct {
		name     string
		agent    *policy.Agent
		chain    []string
		tool     *registry.Tool
		operator bool
		want     fault.Ref
	}{
		{"an open agent", open, nil, browse, false, ""},
		{"a group that is not in the list", narrow, nil, browse, false, fault.NotAllowed},
		{"the core group always", narrow, nil, core, false, ""},
		{"a denial by glob", denied, nil, browse, false, fault.NotAllowed},
		{"an internal tool is unknown to agents", open, nil, secret, false, fault.UnknownTool},
		{"the operator may ask for it", open, nil, secret, true, ""},
		{"nested with a grant", open, []string{"granted"}, browse, false, ""},
		{"nested with a grant the agent lacks", narrow, []string{"granted"}, browse, false, fault.NotAllowed},
		{"nested without a grant", open, []string{"poor"}, browse, false, fault.GrantMissing},
		{"nested internal: the grant alone decides", narrow, []string{"granted"}, secret, false, ""},
		{"nested internal without a grant", open, []string{"poor"}, secret, false, fault.GrantMissing},
		{"tool:* covers internal ones", narrow, []string{"all"}, secret, false, ""},
		{"its own tool needs no grant", narrow, []string{"granted"}, own, false, ""},
		{"a plugin as itself", nil, []string{"granted"}, browse, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &call{Request: &Request{Caller: Caller{Agent: c.agent}, Internal: c.operator}, chain: c.chain}
			if got := refOf(p.mayUse(x, c.tool)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCheckChain(t *testing.T) {
	for _, c := range []struct {
		chain []string
		owner string
		want  fault.Ref
	}{
		{nil, "a", ""},
		{[]string{"a"}, "a", ""},
		{[]string{"a", "b"}, "a", ""},
		{[]string{"a", "b", "a"}, "a", fault.CallCycle},
		{slices.Repeat([]string{"a", "b", "c", "d"}, 2)[:7], "e", ""},
		{slices.Repeat([]string{"a", "b", "c", "d"}, 2), "e", fault.CallDepth},
	} {
		x := &call{Request: &Request{}, chain: c.chain, tool: &registry.Tool{Tool: &pluginv1.Tool{Name: "t"}, Owner: c.owner}}
		if got := refOf(checkChain(x)); got != c.want {
			t.Errorf("%v → %s: got %q, want %q", c.chain, c.owner, got, c.want)
		}
	}
}
