package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/bulkhead-dev/bulkhead/host/internal/config"
	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
)

const changeTime = 2 * time.Minute // all of one change

// placed is a plugin as it was last given to the supervisor.
type placed struct {
	spec   supervise.Plugin
	binary os.FileInfo // nil when there was none
	config [32]byte    // hash of its evaluated config; zero before the first reload
}

// apply brings the plugins to what cfg and the plugins folder say: new ones start,
// those whose binary was replaced are swapped, those that are gone end. The errors
// are of single plugins, but for those of the folders.
func (h *Host) apply(ctx context.Context, cfg *config.Config) error {
	plugins, found, err := Plugins(cfg)
	if err != nil {
		return err
	}
	h.mu.Lock()
	last := h.found
	h.found = found
	h.mu.Unlock()
	for _, f := range found {
		if f.Problem != nil && !slices.ContainsFunc(last, func(l Found) bool { return l.Problem != nil && l.Problem.Error() == f.Problem.Error() }) {
			h.log.Warn("a file in the plugins folder was not loaded", "reason", f.Problem)
		}
	}
	for name := range h.placed {
		if !slices.ContainsFunc(plugins, func(p supervise.Plugin) bool { return p.Name == name }) {
			h.log.Info("plugin removed", "plugin", name)
			err = errors.Join(err, h.Plugins.Remove(ctx, name))
			delete(h.placed, name)
		}
	}
	for _, p := range plugins {
		err = errors.Join(err, h.place(ctx, cfg, p))
	}
	return err
}

func (h *Host) place(ctx context.Context, cfg *config.Config, p supervise.Plugin) error {
	now, _ := os.Stat(p.Binary) // an absent one is the supervisor's to tell
	was, known := h.placed[p.Name]
	switch {
	case !known:
		// Without the grant "shared" this is all a plugin sees of /shared.
		if err := os.MkdirAll(filepath.Join(cfg.Host.SharedDir, "plugins", p.Name), 0o700); err != nil {
			return fault.New(fault.DataDirUnusable, "the shared folder of plugin %q can't be made: %w", p.Name, err)
		}
		if err := h.Plugins.Add(p); err != nil {
			return err
		}
	case now != nil && replaced(was.binary, now):
		h.log.Info("plugin binary replaced", "plugin", p.Name)
		if err := h.Plugins.Swap(ctx, p); err != nil {
			return fmt.Errorf("plugin %q was not swapped, the old one goes on: %w", p.Name, err)
		}
	default:
		return nil
	}
	was.spec, was.binary = p, now
	h.placed[p.Name] = was
	return nil
}

func replaced(was, now os.FileInfo) bool {
	return was == nil || !os.SameFile(was, now) || was.Size() != now.Size() || !was.ModTime().Equal(now.ModTime())
}

// Reload reads the config file again. Every plugin it touches checks its block
// first; one refusal, like any fault of the file, and the running config stays.
// What fails after that is of single plugins, which keep their old process; such an
// error is an errInForce. The notes are what of the file waits for the next start.
func (h *Host) Reload(ctx context.Context) (notes []string, err error) {
	notes, err = h.reload(ctx)
	if err == nil || errors.As(err, new(errInForce)) {
		h.inForce()
	} else if h.ctx.Err() == nil {
		h.notInForce(err)
	}
	return notes, err
}

func (h *Host) reload(ctx context.Context) (notes []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	h.changing.Lock()
	defer h.changing.Unlock()
	old := h.cfg()
	cfg, diags := config.Load(old.File)
	if !diags.HasErrors() {
		diags = append(diags, checkTiers(cfg)...)
	}
	if err := config.Err(diags); err != nil {
		return nil, err
	}
	notes = waiting(h.opts.Config, cfg)
	if cfg.Bare {
		notes = append(notes, cfg.File+" says nothing: no agent, no plugin, no address; the defaults hold")
	}
	keep(h.opts.Config, cfg)
	plugins, _, err := Plugins(cfg)
	if err != nil {
		return nil, err
	}
	touched, err := h.touched(ctx, cfg, plugins)
	if err != nil {
		return nil, err
	}
	h.current.Store(cfg)
	h.moved()
	h.API.Changed(h.rules.Set(rulesOf(cfg)))
	h.registry.Rerate()
	h.auditRisks(cfg)
	for _, d := range unenforced(cfg) {
		h.log.Warn(d.Summary, "at", d.Subject.String(), "code", string(config.CodeOf(d)))
	}
	for _, n := range notes {
		h.log.Warn(n)
	}
	err = h.apply(ctx, cfg)
	for _, p := range plugins {
		sum, changed := touched[p.Name]
		was := h.placed[p.Name]
		if changed {
			if failed := h.Plugins.Update(ctx, p); failed != nil {
				err = errors.Join(err, fmt.Errorf("plugin %q did not take its config: %w", p.Name, failed))
				continue
			}
			was.config = sum
		}
		was.spec = p
		h.placed[p.Name] = was
	}
	h.log.Info("config reloaded", "file", cfg.File)
	h.events.Publish(event.Event{Type: "config.reloaded"}, map[string]any{"file": cfg.File})
	if err != nil {
		return notes, errInForce{fault.New(fault.From(err).Ref, "the new config is in force, but %w", err)}
	}
	return notes, nil
}

// errInForce is what went wrong with single plugins under a config that is in force.
type errInForce struct{ error }

func (e errInForce) Unwrap() error { return e.error }

// waiting says what of a config is taken up at the next start only, since the host
// runs by started.
func waiting(started, now *config.Config) (notes []string) {
	http := func(c *config.Config) config.HTTP {
		if c.HTTP == nil {
			return config.HTTP{}
		}
		return *c.HTTP
	}
	a, b := http(started), http(now)
	for _, x := range []struct {
		block, key string
		at         config.Source
		was, is    any
	}{
		{"host", "data_dir", now.Host.Source, started.Host.DataDir, now.Host.DataDir},
		{"host", "plugins", now.Host.Source, started.Host.PluginDir, now.Host.PluginDir},
		{"host", "shared", now.Host.Source, started.Host.SharedDir, now.Host.SharedDir},
		{"host", "log_level", now.Host.Source, started.Host.LogLevel, now.Host.LogLevel},
		{"host", "working_memory", now.Host.Source, started.Host.WorkingMemory, now.Host.WorkingMemory},
		{"frontend \"http\"", "address", b.Source, a.Address, b.Address},
		{"frontend \"http\"", "hosts", b.Source, a.Hosts, b.Hosts},
		{"frontend \"http\"", "origins", b.Source, a.Origins, b.Origins},
		{"session", "list_budget", now.Session.Source, started.Session.ListBudget, now.Session.ListBudget},
		{"session", "activated_tools", now.Session.Source, started.Session.ActivatedTools, now.Session.ActivatedTools},
		{"policy", "approval_reply_after", now.Policy.Source, started.Policy.ApprovalReplyAfter, now.Policy.ApprovalReplyAfter},
	} {
		if fmt.Sprint(x.was) == fmt.Sprint(x.is) {
			continue
		}
		note := fmt.Sprintf("%s: %s waits for the next start", x.block, x.key)
		if at := x.at.At(x.key); at.Filename != "" {
			note += fmt.Sprintf(" (%s)", at)
		}
		notes = append(notes, note)
	}
	return notes
}

// keep puts into a config what of it waits for the next start: half of such a
// change would be worse than none.
func keep(started, now *config.Config) {
	autoload := now.Host.Autoload
	now.Host, now.HTTP, now.Session = started.Host, started.HTTP, started.Session
	now.Host.Autoload = autoload
	now.Policy.ApprovalReplyAfter = started.Policy.ApprovalReplyAfter
}

// touched finds the running plugins that cfg changes, with the hash of their new
// config, after each has found its block acceptable. New ones are asked too. The
// faults of all blocks come together.
func (h *Host) touched(ctx context.Context, cfg *config.Config, plugins []supervise.Plugin) (map[string][32]byte, error) {
	out := map[string][32]byte{}
	var faults hcl.Diagnostics
	for _, p := range plugins {
		block := cfg.Plugin(p.Name)
		if block == nil {
			continue
		}
		was, known := h.placed[p.Name]
		d, err := h.Plugins.Describe(ctx, p)
		if err != nil && known && sameLaunch(was.spec, p) && !h.serves(p.Name) {
			continue // it does not run now either, and status says why
		}
		if err != nil {
			return nil, err
		}
		e, diags := cfg.Evaluate(block, d.ConfigSchema)
		if diags.HasErrors() {
			faults = append(faults, diags...)
			continue
		}
		sum := sha256.Sum256(e.JSON)
		if known && was.config == sum && sameLaunch(was.spec, p) {
			continue
		}
		said, err := h.Plugins.Validate(ctx, p, e.JSON)
		if err != nil {
			return nil, err
		}
		if said := e.Locate(said); said.HasErrors() {
			faults = append(faults, said...)
			continue
		}
		if known {
			out[p.Name] = sum
		}
	}
	return out, config.Err(faults)
}

// serves says whether a plugin has a process that takes calls.
func (h *Host) serves(plugin string) bool {
	return slices.ContainsFunc(h.Plugins.Status(), func(s supervise.Status) bool {
		return s.Name == plugin && (s.State == supervise.Ready || s.State == supervise.Degraded)
	})
}

// sameLaunch compares what of a plugin's block stands outside its config.
func sameLaunch(a, b supervise.Plugin) bool {
	a.Config, b.Config = nil, nil
	return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b)
}
