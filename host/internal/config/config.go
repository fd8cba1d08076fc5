package config

import (
	"crypto/sha256"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Config is one config file, checked, with defaults filled in and every path
// absolute.
type Config struct {
	File     string            // as it was named; empty when the defaults stand alone
	Dir      string            // absolute folder relative paths start at
	Sum      [sha256.Size]byte // of the file's text
	Bare     bool              // there is a file, and it says nothing
	Host     Host
	HTTP     *HTTP // nil = no HTTP door
	Results  Results
	Session  Session
	Plugins  []*Plugin // in file order
	Agents   []*Agent
	Profiles []*Profile
	Teams    []*Team
	Policy   Policy

	mu      sync.Mutex
	sources Sources
	scrub   scrubber
}

// Source remembers where a block stands.
type Source struct {
	block *hclsyntax.Block
}

// Range is where the block begins, or the zero range for a default.
func (s Source) Range() hcl.Range {
	if s.block == nil {
		return hcl.Range{}
	}
	return s.block.DefRange()
}

// At is where the value of the attribute stands, or the block without it.
func (s Source) At(attribute string) hcl.Range {
	if s.block != nil {
		if a := s.block.Body.Attributes[attribute]; a != nil {
			return a.Expr.Range()
		}
	}
	return s.Range()
}

// Host is the host block.
type Host struct {
	Source        `json:"-"`
	DataDir       string `json:"data_dir"`
	PluginDir     string `json:"plugins"`
	SharedDir     string `json:"shared"`
	Autoload      bool   `json:"autoload"`
	LogLevel      string `json:"log_level"`
	WorkingMemory int64  `json:"working_memory"` // bytes
}

// HTTP is the frontend "http" block.
type HTTP struct {
	Source  `json:"-"`
	Address string   `json:"address"`
	Hosts   []string `json:"hosts"`   // further Host header values that are accepted
	Origins []string `json:"origins"` // further origins a browser may call from
}

// Results says from which length on results are stored in chunks.
type Results struct {
	Source    `json:"-"`
	Threshold int            `json:"threshold"` // characters
	Models    []ResultsModel `json:"-"`
}

// ResultsModel is a threshold for the models whose name the glob matches.
type ResultsModel struct {
	Source    `json:"-"`
	Glob      string `json:"-"`
	Threshold int    `json:"threshold"`
}

// For is the threshold for a model: that of the first glob that matches it.
func (r Results) For(model string) int {
	for _, m := range r.Models {
		if model != "" && matchGlob(m.Glob, model) {
			return m.Threshold
		}
	}
	return r.Threshold
}

// Session is the session block.
type Session struct {
	Source         `json:"-"`
	ListBudget     int           `json:"list_budget"`
	ActivatedTools int           `json:"activated_tools"`
	Idle           time.Duration `json:"idle"`
}

// Plugin is one configured instance.
type Plugin struct {
	Source        `json:"-"`
	Name          string        `json:"-"`
	Binary        string        `json:"binary"` // a bare name stands for a file in the plugins folder
	SHA256        string        `json:"sha256"`
	Enabled       bool          `json:"enabled"`
	Owner         string        `json:"owner"` // agent it acts as when it acts for itself
	Grants        []string      `json:"grants"`
	Env           Environment   `json:"env"`
	Limits        Limits        `json:"-"`
	Sandbox       Sandbox       `json:"-"`
	RestartBudget RestartBudget `json:"-"`
	Tools         []*PluginTool `json:"-"`

	config *hclsyntax.Block // nil without a config block
}

// Granted tells whether the grant is given, tool:* standing for every tool.
func (p *Plugin) Granted(grant string) bool {
	if p == nil {
		return false
	}
	if slices.Contains(p.Grants, grant) {
		return true
	}
	return len(grant) > 5 && grant[:5] == "tool:" && slices.Contains(p.Grants, "tool:*")
}

// Tool is the settings of one of the plugin's tools, or nil.
func (p *Plugin) Tool(name string) *PluginTool {
	if p != nil {
		for _, t := range p.Tools {
			if t.Name == name {
				return t
			}
		}
	}
	return nil
}

// Limits bound one plugin. Memory and Processes are 0 when the launcher's own
// defaults apply.
type Limits struct {
	Source      `json:"-"`
	Memory      int64         `json:"memory"` // bytes
	Processes   int           `json:"processes"`
	Calls       int           `json:"calls"`
	Queue       int           `json:"queue"`
	CallTimeout time.Duration `json:"call_timeout"`
}

// Sandbox is what the operator asks for. Empty words mean the plugin's need.
type Sandbox struct {
	Source  `json:"-"`
	Profile string   `json:"profile"` // strict | launcher | none
	Network string   `json:"network"` // none | all
	Read    []string `json:"read"`
	Write   []string `json:"write"`
	Exec    []string `json:"exec"`
}

// RestartBudget is how many unplanned exits within Window quarantine a plugin.
type RestartBudget struct {
	Source `json:"-"`
	Exits  int           `json:"exits"`
	Window time.Duration `json:"window"`
}

// PluginTool overrides what the plugin says of one of its tools.
type PluginTool struct {
	Source     `json:"-"`
	Name       string        `json:"-"`
	Tier       string        `json:"tier"`
	Exposure   string        `json:"exposure"`
	Idempotent *bool         `json:"idempotent"`
	Timeout    time.Duration `json:"timeout"`
	AcceptRisk string        `json:"accept_risk"`
}

// Agent is a principal.
type Agent struct {
	Source    `json:"-"`
	Name      string   `json:"-"`
	Token     Secret   `json:"token"`
	Approver  bool     `json:"approver"`
	Model     string   `json:"model"`
	Profile   string   `json:"profile"`
	ModelTier string   `json:"model_tier"`
	Groups    []string `json:"groups"`
	Tools     []string `json:"tools"`
	Deny      []string `json:"deny"`
	Media     string   `json:"media"` // path | inline; empty = by plugin
}

// Profile is a named allowlist.
type Profile struct {
	Source    `json:"-"`
	Name      string   `json:"-"`
	Tools     []string `json:"tools"`
	Groups    []string `json:"groups"`
	Deny      []string `json:"deny"`
	Expansion []string `json:"expansion"` // may be added on request
}

// Team is a set of agents that work together.
type Team struct {
	Source       `json:"-"`
	Name         string   `json:"-"`
	Mode         string   `json:"mode"`
	Supervisor   string   `json:"supervisor"`
	Workers      []string `json:"workers"`
	ToolRequests string   `json:"tool_requests"`
}

// Policy is the policy block.
type Policy struct {
	Source             `json:"-"`
	Tiers              []*Tier       `json:"-"`
	Rules              []*Rule       `json:"-"`
	ApprovalReplyAfter time.Duration `json:"approval_reply_after"`
}

// Tier puts tools into a security tier.
type Tier struct {
	Source          `json:"-"`
	Name            string        `json:"-"` // standard | elevated | restricted
	Tools           []string      `json:"tools"`
	ApprovalTimeout time.Duration `json:"approval_timeout"` // 0 = default
	AcceptRisk      string        `json:"accept_risk"`
}

// Rule sets the tier of calls whose arguments meet a condition.
type Rule struct {
	Source     `json:"-"`
	Name       string   `json:"-"`
	Tools      []string `json:"tools"`
	When       string   `json:"when"`
	Tier       string   `json:"tier"`
	AcceptRisk string   `json:"accept_risk"`
}

// Secret is a string that formats as a placeholder; string(s) is its value.
type Secret string

const hidden = "(sensitive)"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the value from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Environment is a plugin's own environment; it formats by its names only.
type Environment map[string]string

func (e Environment) String() string {
	return "env" + "[" + joinWords(slices.Sorted(maps.Keys(e))) + "]"
}

// GoString hides the values from %#v.
func (e Environment) GoString() string { return e.String() }

// List is the environment as NAME=VALUE, sorted.
func (e Environment) List() []string {
	out := make([]string, 0, len(e))
	for _, k := range slices.Sorted(maps.Keys(e)) {
		out = append(out, k+"="+e[k])
	}
	return out
}

// Plugin finds an instance by name, or nil.
func (c *Config) Plugin(name string) *Plugin {
	for _, p := range c.Plugins {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Agent finds an agent by name, or nil.
func (c *Config) Agent(name string) *Agent {
	for _, a := range c.Agents {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// BinaryPath is the absolute path of the plugin's executable: what binary says,
// else bulkhead-plugin-NAME in the plugins folder.
func (c *Config) BinaryPath(p *Plugin) string {
	switch {
	case p.Binary == "":
		return filepath.Join(c.Host.PluginDir, "bulkhead-plugin-"+p.Name)
	case filepath.IsAbs(p.Binary):
		return p.Binary
	}
	return filepath.Join(c.Host.PluginDir, p.Binary)
}

// SecretsDir is where secret() looks.
func (h Host) SecretsDir() string { return filepath.Join(h.DataDir, "secrets") }

// Sources is the text of the config files by name, for display: literals that
// are sensitive are blanked out.
func (c *Config) Sources() Sources {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.sources)
}
