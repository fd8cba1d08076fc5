package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"

	"github.com/bulkhead-dev/bulkhead/host/internal/config"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/launch"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// CheckOptions are where a check may put what it needs for its throw-away starts.
type CheckOptions struct {
	DataDir, RunDir, Version string
	Log                      hclog.Logger
}

// NoOffers is for supervisors whose plugins are only described.
type NoOffers struct{}

// Publish drops an offer.
func (NoOffers) Publish(string, uint64, *pluginv1.OfferSnapshot) {}

// Withdraw does nothing.
func (NoOffers) Withdraw(string) {}

// Check asks every configured plugin what it makes of its block, and looks
// through the plugins folder. Every fault has its place in the file where it has
// one.
func Check(ctx context.Context, cfg *config.Config, o CheckOptions) hcl.Diagnostics {
	s := supervise.New(supervise.Options{DataDir: o.DataDir, RunDir: o.RunDir, Offers: NoOffers{}, Log: o.Log, HostVersion: o.Version})
	diags := append(checkTiers(cfg), unenforced(cfg)...)
	add := func(severity hcl.DiagnosticSeverity, ref fault.Ref, at hcl.Range, summary, detail string) {
		d := &hcl.Diagnostic{Severity: severity, Summary: summary, Detail: detail, Extra: config.Code(ref)}
		if at.Filename != "" {
			d.Subject = &at
		}
		diags = append(diags, d)
	}
	for _, p := range cfg.Plugins {
		if !p.Enabled {
			continue
		}
		binary := cfg.BinaryPath(p)
		if err := launch.CheckBinary(binary, ""); err != nil {
			add(hcl.DiagError, fault.PluginBinary, p.At("binary"), fmt.Sprintf("the binary of plugin %q can't be used", p.Name), err.Error())
			continue
		}
		sp := configured(cfg, p, binary)
		d, err := s.Describe(ctx, sp)
		if err != nil {
			add(hcl.DiagError, fault.From(err).Ref, p.Range(), fmt.Sprintf("plugin %q could not be asked for its schema", p.Name), err.Error())
			continue
		}
		for _, g := range d.Grants {
			if !slices.Contains(p.Grants, g) && !p.Granted(g) {
				add(hcl.DiagWarning, fault.GrantMissing, p.At("grants"), fmt.Sprintf("plugin %q lacks a grant", p.Name), fmt.Sprintf("for all it can do its block needs grants = [%q]", g))
			}
		}
		e, found := cfg.EvaluateRest(p, d.ConfigSchema)
		diags = append(diags, found...)
		said, err := s.Validate(ctx, sp, e.JSON)
		if err != nil && found.HasErrors() {
			continue // it may be because of what was left out
		}
		if err != nil {
			add(hcl.DiagError, fault.From(err).Ref, p.Range(), fmt.Sprintf("plugin %q could not check its config", p.Name), err.Error())
			continue
		}
		if found.HasErrors() {
			diags = append(diags, e.LocateRest(said, found)...)
		} else {
			diags = append(diags, e.Locate(said)...)
		}
	}
	found, err := Scan(cfg.Host.PluginDir)
	if err != nil {
		add(hcl.DiagError, fault.PluginBinary, cfg.Host.At("plugins"), "the plugins folder can't be read", err.Error())
	}
	for _, f := range found {
		if f.Problem != nil {
			add(hcl.DiagWarning, fault.PluginBinary, hcl.Range{}, "a file in the plugins folder is not loaded", f.Problem.Error())
		}
	}
	if err := ctx.Err(); err != nil {
		add(hcl.DiagError, fault.CallTimeout, hcl.Range{}, "the check did not finish", err.Error())
	}
	return diags
}
