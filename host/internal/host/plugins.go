package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/bulkhead-dev/bulkhead/host/internal/config"
	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/launch"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Found is one entry of the plugins folder.
type Found struct {
	Name    string // NAME of bulkhead-plugin-NAME, empty when it is no plugin
	Path    string
	Problem error // why it is not loaded
}

var nameRule = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// Scan looks through a plugins folder. A missing folder is an empty one. What is
// not a plugin is told with its reason and harms nothing.
func Scan(folder string) ([]Found, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the plugins folder can't be read: %w", err)
	}
	var out []Found
	for _, e := range entries {
		f := Found{Path: filepath.Join(folder, e.Name()), Name: pluginName(e.Name())}
		switch {
		case e.IsDir():
			continue
		case f.Name == "":
			f.Problem = fmt.Errorf("%s is not named %sNAME and is left alone", f.Path, binaryPrefix)
		case !nameRule.MatchString(f.Name):
			f.Problem = fmt.Errorf("%s: a plugin's name is lower-case letters, digits and -, at most 40", f.Path)
		default:
			f.Problem = launch.CheckBinary(f.Path, folder)
			if errors.Is(f.Problem, fs.ErrNotExist) {
				f.Problem = fmt.Errorf("%s is a link to nothing", f.Path)
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// Plugins is every plugin a host with this config runs, and all of the folder.
func Plugins(cfg *config.Config) ([]supervise.Plugin, []Found, error) {
	var out []supervise.Plugin
	named := map[string]bool{}
	for _, p := range cfg.Plugins {
		binary := cfg.BinaryPath(p)
		named[binary] = true
		if p.Enabled {
			out = append(out, configured(cfg, p, binary))
		}
	}
	found, err := Scan(cfg.Host.PluginDir)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range found {
		if !cfg.Host.Autoload || named[f.Path] || f.Problem != nil || cfg.Plugin(f.Name) != nil {
			continue
		}
		out = append(out, supervise.Plugin{Name: f.Name, Binary: f.Path, Folder: cfg.Host.PluginDir})
	}
	return out, found, nil
}

func configured(cfg *config.Config, p *config.Plugin, binary string) supervise.Plugin {
	folder := ""
	if filepath.Dir(binary) == cfg.Host.PluginDir {
		folder = cfg.Host.PluginDir
	}
	return supervise.Plugin{
		Name: p.Name, Binary: binary, Folder: folder, Configured: true, SHA256: p.SHA256, Grants: slices.Clone(p.Grants), Env: p.Env,
		Config: func(schema *pluginv1.ConfigBody) ([]byte, []sandbox.Path, error) {
			e, diags := cfg.Evaluate(p, schema)
			if diags.HasErrors() {
				return nil, nil, config.Err(diags)
			}
			var paths []sandbox.Path
			for _, x := range e.Paths {
				paths = append(paths, sandbox.Path{Path: x.Path, Access: accessOf(x.Use)})
			}
			return e.JSON, paths, nil
		},
		Sandbox: supervise.SandboxConfig{Profile: p.Sandbox.Profile, Network: p.Sandbox.Network,
			Read: p.Sandbox.Read, Write: p.Sandbox.Write, Exec: p.Sandbox.Exec},
		Limits: supervise.Limits{Memory: p.Limits.Memory, Processes: p.Limits.Processes, Calls: p.Limits.Calls,
			Queue: p.Limits.Queue, CallTimeout: p.Limits.CallTimeout},
		Budget: supervise.RestartBudget{Exits: p.RestartBudget.Exits, Window: p.RestartBudget.Window},
	}
}

func accessOf(use pluginv1.PathUse) sandbox.Access {
	switch use {
	case pluginv1.PathUse_PATH_USE_WRITE:
		return sandbox.Write
	case pluginv1.PathUse_PATH_USE_EXEC:
		return sandbox.Exec
	}
	return sandbox.Read
}

// pluginEvent passes a change of state on to whoever follows.
func (h *Host) pluginEvent(e supervise.Event) {
	h.events.Publish(event.Event{Type: "plugin.state", Plugin: e.Plugin},
		map[string]any{"state": e.State, "generation": e.Generation, "detail": e.Detail})
}

// Wait blocks until every plugin has been ready or has failed once.
func (h *Host) Wait(ctx context.Context) error { return h.Plugins.Settled(ctx) }
