package policy

import (
	"slices"
	"testing"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

func TestRate(t *testing.T) {
	p := New(Rules{
		Plugins: map[string]Plugin{
			"web":     {Ships: "web"},
			"mine":    {Ships: "mine", Tools: map[string]Override{"low": {Tier: standard}, "download_pdf": {Tier: elevated}}},
			"fake":    {Ships: "fake"},
			"renamed": {Ships: "web"},
		},
		Tiers: map[string]pluginv1.Tier{"raised": restricted},
	})
	for _, c := range []struct {
		owner, name string
		proposed    pluginv1.Tier
		group       string
		tier        pluginv1.Tier
		wantGroup   string
	}{
		{"web", "web_browse", 0, "", elevated, "research"},
		{"web", "web_browse", restricted, "", restricted, "research"}, // a plugin may raise
		{"web", "download_pdf", standard, "", restricted, "research"}, // never lower
		{"renamed", "web_browse", standard, "", elevated, "research"},
		{"fake", "web_browse", standard, "", elevated, "fake"},      // the row binds another plugin
		{"fake", "read_file", standard, "", elevated, "fake"},       // so a shipped name gives nothing
		{"mine", "low", 0, "own", standard, "own"},                  // the operator's word
		{"mine", "unrated", 0, "", elevated, "mine"},                // nobody's word
		{"mine", "raised", standard, "", restricted, "mine"},        // policy raises
		{"mine", "x", standard, "core", elevated, "mine"},           // core can't be claimed
		{"dropped", "x", standard, "research", elevated, "dropped"}, // without a block: its own group
		{registry.Host, "call_tool", 0, "", standard, CoreGroup},
	} {
		got := p.Rate(c.owner, &pluginv1.Tool{Name: c.name, ProposedTier: c.proposed, Group: c.group})
		if got.Tier != c.tier || got.Group != c.wantGroup {
			t.Errorf("%s of %s: %v in %q, want %v in %q", c.name, c.owner, got.Tier, got.Group, c.tier, c.wantGroup)
		}
	}
}

// What the operator wrote at a server holds for the tools that come from it, and
// lowers nothing that was restricted.
func TestSourcesHaveTiers(t *testing.T) {
	p := New(Rules{Plugins: map[string]Plugin{"mcp": {Ships: "mcp", Sources: map[string]pluginv1.Tier{"mcp:notes": standard, "mcp:bank": restricted},
		Tools: map[string]Override{"notes__odd": {Tier: elevated}}}}})
	for _, c := range []struct {
		owner, name, source string
		proposed, want      pluginv1.Tier
	}{
		{"mcp", "notes__read", "mcp:Notes", standard, standard},
		{"mcp", "notes__read", "mcp:notes", 0, standard},
		{"mcp", "notes__odd", "mcp:notes", standard, elevated}, // the tool's own word is nearer
		{"mcp", "notes__rm", "mcp:notes", restricted, restricted},
		{"mcp", "bank__pay", "mcp:bank", standard, restricted},
		{"mcp", "other__x", "mcp:other", standard, elevated},
		{"mcp", "mcp_register_server", "mcp:notes", standard, restricted}, // the map knows it
		{"else", "notes__read", "mcp:notes", standard, elevated},
	} {
		if got := p.Rate(c.owner, &pluginv1.Tool{Name: c.name, Source: c.source, ProposedTier: c.proposed}); got.Tier != c.want {
			t.Errorf("%s of %s from %s: %v, want %v", c.name, c.owner, c.source, got.Tier, c.want)
		}
	}
}

func TestAgents(t *testing.T) {
	p := New(Rules{Agents: []*Agent{{Name: "me", Token: "secret", Approver: true}, {Name: "none"}}})
	if a, err := p.ByToken("secret"); err != nil || a.Name != "me" {
		t.Errorf("by token: %v %v", a, err)
	}
	for _, token := range []string{"", "wrong", "secre", "secret "} {
		if a, err := p.ByToken(token); err == nil {
			t.Errorf("%q is %s", token, a.Name)
		}
	}
	if _, err := p.Agent("nobody"); fault.From(err).Ref != fault.UnknownAgent {
		t.Error(err)
	}
	for _, name := range []string{DefaultAgent, Operator, "me"} {
		if _, err := p.Agent(name); err != nil {
			t.Error(err)
		}
	}
}

// A derived run never gains by its profile.
func TestNarrow(t *testing.T) {
	spawn := &registry.Tool{Tool: &pluginv1.Tool{Name: "spawn_subagents", Source: "subagent"}, Rating: registry.Rating{Group: "orchestration"}}
	register := &registry.Tool{Tool: &pluginv1.Tool{Name: "mcp_register_server", Source: "mcp:management"}, Rating: registry.Rating{Group: "mcp"}}
	main := &Agent{Name: "a", Profile: "main"}
	sub := main.Narrow("subagent")
	if !main.Allows(spawn) || sub.Allows(spawn) || sub.Allows(register) {
		t.Error("the subagent profile does not narrow")
	}
	again := sub.Narrow("main")
	if again.Allows(spawn) || again.Allows(register) {
		t.Error("a narrowed run widened itself")
	}
}

// Who ships a tool has its name before all others, then what the config names.
func TestRank(t *testing.T) {
	p := New(Rules{Plugins: map[string]Plugin{"web": {Ships: "web"}, "second": {Ships: "web"}, "other": {Ships: "acme"}}})
	for _, c := range []struct {
		owner, kind, name string
		want              int
	}{
		{"web", "tool", "web_browse", 0}, {"second", "tool", "web_browse", 0}, {"other", "tool", "web_browse", 1}, {"acme", "tool", "web_browse", 2},
		{"files", "tool", "web_browse", 2}, {"web", "tool", "new_tool", 1}, {"other", "tool", "new_tool", 1}, {"acme", "tool", "new_tool", 2},
		{"other", "guide", "web_browse", 1}, {"acme", "prompt", "x", 2},
	} {
		if got := p.Rank(c.owner, c.kind, c.name); got != c.want {
			t.Errorf("%s offers %s %s: rank %d, want %d", c.owner, c.kind, c.name, got, c.want)
		}
	}
}

// A change of rules names whom it concerns and nobody else.
func TestChanges(t *testing.T) {
	rules := func(profile Profile, agents ...*Agent) Rules {
		return Rules{Agents: agents, Profiles: map[string]Profile{"own": profile}}
	}
	agent := func(name string, change func(*Agent)) *Agent {
		a := &Agent{Name: name, Token: "token-of-" + name, Tools: []string{"a", "b"}, Profile: "main"}
		if change != nil {
			change(a)
		}
		return a
	}
	names := []string{"gone", "token", "approver", "tools", "deny", "groups", "profile", "its-profile", "tier", "same"}
	var before, after []*Agent
	change := map[string]func(*Agent){
		"token": func(a *Agent) { a.Token = "another" }, "approver": func(a *Agent) { a.Approver = true },
		"tools": func(a *Agent) { a.Tools = a.Tools[:1] }, "deny": func(a *Agent) { a.Deny = []string{"b"} },
		"groups": func(a *Agent) { a.Groups = []string{"g"} }, "profile": func(a *Agent) { a.Profile = "subagent" },
		"its-profile": func(a *Agent) { a.Profile = "own" }, "tier": func(a *Agent) { a.ModelTier = "high" },
	}
	for _, n := range names {
		was := agent(n, nil)
		if n == "its-profile" {
			was.Profile = "own"
		}
		before = append(before, was)
		if n != "gone" {
			after = append(after, agent(n, change[n]))
		}
	}
	p := New(rules(Profile{Deny: []string{"x"}}, before...))
	c := p.Set(rules(Profile{Deny: []string{"y"}}, after...))
	if !slices.Equal(c.Gone, []string{"gone"}) || !slices.Equal(c.Changed, names[1:8]) {
		t.Errorf("%+v", c)
	}
	if c := p.Set(rules(Profile{Deny: []string{"y"}}, after...)); len(c.Gone)+len(c.Changed) != 0 {
		t.Errorf("the same rules again: %+v", c)
	}
}
