package host

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"google.golang.org/protobuf/proto"

	"github.com/bulkhead-dev/bulkhead/host/internal/config"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// rulesOf is a config as policy wants it.
func rulesOf(cfg *config.Config) policy.Rules {
	r := policy.Rules{Profiles: map[string]policy.Profile{}, Plugins: map[string]policy.Plugin{}, Tiers: map[string]pluginv1.Tier{}, Risks: map[string]string{}}
	for _, a := range cfg.Agents {
		r.Agents = append(r.Agents, &policy.Agent{
			Name: a.Name, Token: string(a.Token), Approver: a.Approver, Groups: a.Groups, Tools: a.Tools, Deny: a.Deny,
			ModelTier: a.ModelTier, Model: a.Model, Profile: a.Profile, Media: a.Media,
		})
	}
	for _, p := range cfg.Profiles {
		r.Profiles[p.Name] = policy.Profile{Groups: p.Groups, Tools: p.Tools, Deny: p.Deny}
	}
	for _, p := range cfg.Plugins {
		tools := map[string]policy.Override{}
		for _, t := range p.Tools {
			tools[t.Name] = policy.Override{Tier: tierOf(t.Tier), Risk: t.AcceptRisk, Exposure: exposureOf(t.Exposure),
				Idempotent: t.Idempotent != nil && *t.Idempotent, Timeout: t.Timeout}
		}
		ships := pluginName(cfg.BinaryPath(p))
		r.Plugins[p.Name] = policy.Plugin{Ships: ships, Grants: p.Grants, Owner: p.Owner, Tools: tools, Sources: sourceTiers(cfg, p, ships)}
	}
	for _, t := range cfg.Policy.Tiers {
		for _, name := range t.Tools {
			r.Tiers[name], r.Risks[name] = tierOf(t.Name), t.AcceptRisk // a name stands in one tier only
		}
	}
	return r
}

// sourceTiers are the tiers that the MCP bridge's server blocks give the tools of
// each server, by the source these tools name.
func sourceTiers(cfg *config.Config, p *config.Plugin, ships string) map[string]pluginv1.Tier {
	if ships != "mcp" {
		return nil
	}
	out := map[string]pluginv1.Tier{}
	for server, tier := range cfg.LabelledTiers(p, "server") {
		out["mcp:"+strings.ToLower(server)] = tierOf(tier)
	}
	return out
}

// checkTiers finds settings that lower a restricted tool without a reason.
func checkTiers(cfg *config.Config) hcl.Diagnostics {
	return cfg.CheckTiers(func(plugin, tool string) string {
		if p := cfg.Plugin(plugin); p != nil {
			plugin = pluginName(cfg.BinaryPath(p))
		}
		if policy.Shipped(plugin, tool) == pluginv1.Tier_TIER_RESTRICTED {
			return "restricted"
		}
		return ""
	})
}

// unenforced warns of settings that are read and checked, but have no effect yet:
// nobody should believe to be protected by them.
func unenforced(cfg *config.Config) (diags hcl.Diagnostics) {
	add := func(at hcl.Range, what string) {
		diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Subject: &at, Extra: config.Code(fault.ConfigNoEffect),
			Summary: what + " has no effect yet", Detail: "this version reads and checks it only"})
	}
	for _, r := range cfg.Policy.Rules {
		add(r.Range(), fmt.Sprintf("rule %q", r.Name))
	}
	for _, t := range cfg.Teams {
		add(t.Range(), fmt.Sprintf("team %q", t.Name))
	}
	set := func(s config.Source, attributes ...string) {
		for _, name := range attributes {
			if at := s.At(name); at != s.Range() {
				add(at, name)
			}
		}
	}
	set(cfg.Session.Source, "idle")
	for _, a := range cfg.Agents {
		set(a.Source, "media")
	}
	for _, p := range cfg.Profiles {
		set(p.Source, "expansion")
	}
	for _, t := range cfg.Policy.Tiers {
		set(t.Source, "approval_timeout")
	}
	return diags
}

// auditRisks writes down why restricted tools run without approval.
func (h *Host) auditRisks(cfg *config.Config) {
	note := func(plugin, tool, tier, reason string) {
		if reason == "" || tier == "" || tier == "restricted" {
			return
		}
		h.log.Warn("a tool's tier is lowered at the operator's risk", "tool", tool, "tier", tier, "reason", reason)
		h.store.Audit(store.AuditRow{Plugin: plugin, Tool: tool, Tier: tier, Door: "config", Status: "ok", Note: "accept_risk: " + reason})
	}
	for _, p := range cfg.Plugins {
		for _, t := range p.Tools {
			note(p.Name, t.Name, t.Tier, t.AcceptRisk)
		}
	}
	for _, t := range cfg.Policy.Tiers {
		for _, tool := range t.Tools {
			note("", tool, t.Name, t.AcceptRisk)
		}
	}
}

const binaryPrefix = "bulkhead-plugin-"

// pluginName is the NAME of a bulkhead-plugin-NAME, or empty.
func pluginName(path string) string {
	name, ok := strings.CutPrefix(filepath.Base(path), binaryPrefix)
	if !ok {
		return ""
	}
	return strings.TrimSuffix(name, ".exe")
}

func tierOf(word string) pluginv1.Tier {
	return pluginv1.Tier(pluginv1.Tier_value["TIER_"+strings.ToUpper(word)])
}

func exposureOf(word string) pluginv1.Exposure {
	return pluginv1.Exposure(pluginv1.Exposure_value["EXPOSURE_"+strings.ToUpper(word)])
}

// describes keeps descriptions of binaries in the store.
type describes struct{ store *store.Store }

func (d describes) Get(sha string) (*pluginv1.DescribeResponse, bool) {
	raw, err := d.store.DescribeGet(context.Background(), sha)
	if err != nil || len(raw) == 0 {
		return nil, false
	}
	var r pluginv1.DescribeResponse
	return &r, proto.Unmarshal(raw, &r) == nil
}

func (d describes) Put(sha string, r *pluginv1.DescribeResponse) error {
	raw, err := proto.Marshal(r)
	if err != nil {
		return err
	}
	return d.store.DescribePut(context.Background(), sha, raw)
}

// generations counts starts in the store, so that a number is never used twice.
type generations struct{ store *store.Store }

func (g generations) Next(plugin string) (uint64, error) {
	return g.store.NextGeneration(context.Background(), plugin)
}
