package supervise

import (
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/launch"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// What a plugin gets that has no block: enough for honest work, too little to hurt
// the machine. A block lifts all of it.
const (
	foundMemory    = 512 << 20 // bytes a process
	foundProcesses = 128       // threads count
	foundFile      = 256 << 20 // bytes, the largest file it may write
	foundCalls     = 16        // in flight
)

// profileOf joins what the config says, what the plugin needs and the default. A
// plugin without a block gets the default and nothing it asks for.
func profileOf(p Plugin, desc *pluginv1.DescribeResponse, paths []sandbox.Path) (sandbox.Profile, error) {
	out := sandbox.Profile{
		Plugin: p.Name, Name: sandbox.Strict, Network: sandbox.NetworkNone,
		Memory: p.Limits.Memory, Processes: p.Limits.Processes,
	}
	needs := desc.GetSandbox()
	if !p.Configured {
		if need := needs.GetProfile(); need != "" && need != sandbox.Strict {
			return out, fault.New(fault.PluginSandbox, "plugin %q needs the sandbox profile %q, which only a plugin with a block in the config gets; add: plugin %q {}", p.Name, need, p.Name)
		}
		out.Memory, out.Processes, out.FileSize = foundMemory, foundProcesses, foundFile
		return out, nil
	}
	if needs.GetProfile() != "" {
		out.Name = needs.GetProfile()
	}
	if needs.GetNetwork() != "" {
		out.Network = needs.GetNetwork()
	}
	if p.Sandbox.Profile != "" {
		out.Name, out.MustProfile = p.Sandbox.Profile, true
	}
	if p.Sandbox.Network != "" {
		out.Network, out.MustNetwork = p.Sandbox.Network, true
	}
	add := func(access sandbox.Access, must bool, list []string) {
		for _, path := range list {
			if filepath.IsAbs(path) {
				out.Paths = append(out.Paths, sandbox.Path{Path: filepath.Clean(path), Access: access, Must: must, Asked: !must})
			}
		}
	}
	add(sandbox.Read, false, needs.GetRead())
	add(sandbox.Write, false, needs.GetWrite())
	add(sandbox.Exec, false, needs.GetExec())
	add(sandbox.Read, true, p.Sandbox.Read)
	add(sandbox.Write, true, p.Sandbox.Write)
	add(sandbox.Exec, true, p.Sandbox.Exec)
	out.Paths = append(out.Paths, paths...)
	return out, nil
}

// spec is what every start of a plugin has in common.
func (s *Supervisor) spec(p Plugin) launch.Spec {
	return launch.Spec{
		Instance: p.Name, Binary: p.Binary, Folder: p.Folder, SHA256: p.SHA256,
		RunDir:       s.runDir(),
		DataDir:      s.dataDir(p.Name),
		Env:          p.Env,
		StartTimeout: s.opts.StartTimeout,
		Log:          s.opts.Log.Named(p.Name),
		HostVersion:  s.opts.HostVersion,
	}
}

func (s *Supervisor) dataDir(name string) string {
	return filepath.Join(s.opts.DataDir, "plugins", name)
}

// sharedDir is what the plugin may see of the shared folder.
func (s *Supervisor) sharedDir(p Plugin) string {
	switch {
	case s.opts.SharedDir == "":
		return ""
	case slices.Contains(p.Grants, "shared"):
		return s.opts.SharedDir
	}
	return filepath.Join(s.opts.SharedDir, "plugins", p.Name)
}

// missing lists the grants a plugin needs and has not.
func missing(needs, granted []string) []string {
	var out []string
	for _, g := range needs {
		if !slices.Contains(granted, g) {
			out = append(out, g)
		}
	}
	return out
}

func levelName(log hclog.Logger) string {
	if log.GetLevel() == hclog.NoLevel {
		return "info"
	}
	return log.GetLevel().String()
}
