package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// What may stand where a word is chosen from a few.
var (
	tiers        = []string{"standard", "elevated", "restricted"}
	exposures    = []string{"always", "fit", "on_demand"}
	sandboxes    = []string{"strict", "launcher", "none"}
	networks     = []string{"none", "all"}
	modelTiers   = []string{"low", "balanced", "high"}
	medias       = []string{"path", "inline"}
	logLevels    = []string{"trace", "debug", "info", "warn", "error"}
	teamModes    = []string{"hierarchical", "sequential", "parallel"}
	toolRequests = []string{"refuse", "ask", "grant"}

	// BuiltinProfiles are the profiles every host has.
	BuiltinProfiles = []string{"main", "subagent", "scheduled", "a2a_synthesis"}
	// PlainGrants are the grants beside tool:NAME and tool:*.
	PlainGrants = []string{"shared", "turns", "runs", "session"}
)

var (
	instanceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$`)
	principal    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	toolName     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	digest       = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	envName      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Names with a meaning of their own.
const (
	defaultAgent  = "default"
	operatorAgent = "operator"
	maxCallTime   = 900 * time.Second
	minToken      = 16 // bytes
)

func (e *evaluator) word(s Source, attribute, got string, allowed []string) {
	if got != "" && !slices.Contains(allowed, got) {
		detail := "one of " + joinWords(allowed)
		if near := nearest(got, allowed); near != "" {
			detail = fmt.Sprintf("did you mean %q? (%s)", near, detail)
		}
		e.add(fault.ConfigValue, s.At(attribute), fmt.Sprintf("%s can't be %q", attribute, got), detail)
	}
}

func (e *evaluator) positive(s Source, attribute string, n int64) {
	if n <= 0 {
		e.add(fault.ConfigValue, s.At(attribute), fmt.Sprintf("%s must be more than 0", attribute), "")
	}
}

func (e *evaluator) unique(s Source, kind, name string, seen map[string]Source) {
	if first, twice := seen[name]; twice {
		at := first.Range()
		e.add(fault.ConfigValue, s.Range(), fmt.Sprintf("second %s %q", kind, name), "the first is at "+place(&at))
		return
	}
	seen[name] = s
}

func (e *evaluator) checkHost(h *Host) {
	e.word(h.Source, "log_level", h.LogLevel, logLevels)
	e.positive(h.Source, "working_memory", h.WorkingMemory)
	for name, value := range map[string]string{"data_dir": h.DataDir, "plugins": h.PluginDir, "shared": h.SharedDir} {
		if value == "" {
			e.add(fault.ConfigValue, h.At(name), name+" can't be empty", "")
		}
	}
}

func (e *evaluator) checkFrontend(n *node, i int, h *HTTP) {
	s := h.Source
	for _, name := range h.Hosts {
		if why := notHost(name); why != "" {
			e.add(fault.ConfigValue, s.At("hosts"), fmt.Sprintf("%q is no host name", name), why)
		}
	}
	for _, origin := range h.Origins {
		if why := notOrigin(origin); why != "" {
			e.add(fault.ConfigValue, s.At("origins"), fmt.Sprintf("%q is no origin", origin), why)
		}
	}
	if label(n) != "http" {
		e.add(fault.ConfigUnknown, s.Range(), fmt.Sprintf("unknown frontend %q", label(n)), `the one there is is "http"`)
	} else if i > 0 {
		e.add(fault.ConfigValue, s.Range(), `second frontend "http"`, "only one may stand here")
	}
}

func (e *evaluator) check(c *Config) {
	plugins, agents, profiles, teams := map[string]Source{}, map[string]Source{}, map[string]Source{}, map[string]Source{}
	for _, p := range c.Plugins {
		e.unique(p.Source, "plugin", p.Name, plugins)
		e.checkPlugin(p)
	}
	for _, a := range c.Agents {
		e.unique(a.Source, "agent", a.Name, agents)
	}
	known := slices.Clone(BuiltinProfiles)
	for _, p := range c.Profiles {
		e.unique(p.Source, "profile", p.Name, profiles)
		if !principal.MatchString(p.Name) {
			e.badName(p.Source, "profile", p.Name)
		}
		if slices.Contains(BuiltinProfiles, p.Name) {
			e.add(fault.ConfigValue, p.Range(), fmt.Sprintf("profile %q is built in", p.Name), "choose another name")
		}
		known = append(known, p.Name)
	}
	tokens := map[Secret]*Agent{}
	for _, a := range c.Agents {
		e.checkAgent(a, known, tokens)
	}
	for _, t := range c.Teams {
		e.unique(t.Source, "team", t.Name, teams)
		e.word(t.Source, "mode", t.Mode, teamModes)
		e.word(t.Source, "tool_requests", t.ToolRequests, toolRequests)
	}
	for _, p := range c.Plugins {
		if p.Owner != "" && c.Agent(p.Owner) == nil {
			e.add(fault.ConfigValue, p.At("owner"), fmt.Sprintf("owner of plugin %q is no agent", p.Name), fmt.Sprintf("add agent %q { … }", p.Owner))
		}
	}
	e.checkPolicy(&c.Policy)
	e.checkAddress(c.HTTP, slices.ContainsFunc(c.Agents, func(a *Agent) bool { return a.has("token") }))
}

func (e *evaluator) badName(s Source, kind, name string) {
	e.add(fault.ConfigValue, s.Range(), fmt.Sprintf("%q is no name for %s", name, article(kind)), "letters, digits, dash and underscore, beginning with a letter or digit")
}

func article(kind string) string {
	if strings.ContainsRune("aeiou", rune(kind[0])) {
		return "an " + kind
	}
	return "a " + kind
}

func (e *evaluator) checkPlugin(p *Plugin) {
	if !instanceName.MatchString(p.Name) {
		e.badName(p.Source, "plugin", p.Name)
	}
	if p.SHA256 != "" && !digest.MatchString(p.SHA256) {
		e.add(fault.ConfigValue, p.At("sha256"), "sha256 is not a SHA-256", "64 hexadecimal digits")
	}
	p.SHA256 = strings.ToLower(p.SHA256)
	for _, g := range p.Grants {
		e.checkGrant(p, g)
	}
	for name, value := range p.Env {
		switch {
		case !envName.MatchString(name):
			e.add(fault.ConfigValue, p.At("env"), fmt.Sprintf("%q is no name of an environment variable", name), "")
		case strings.ContainsRune(value, 0):
			e.add(fault.ConfigValue, p.At("env"), fmt.Sprintf("the value of the environment variable %s has a zero byte", name), "")
		}
	}
	l := p.Limits
	e.positive(l.Source, "calls", int64(l.Calls))
	e.positive(l.Source, "call_timeout", int64(l.CallTimeout))
	if l.CallTimeout > maxCallTime {
		e.add(fault.ConfigValue, l.At("call_timeout"), "call_timeout is too long", "at most 900s; long work belongs into background tasks")
	}
	e.word(p.Sandbox.Source, "profile", p.Sandbox.Profile, sandboxes)
	e.word(p.Sandbox.Source, "network", p.Sandbox.Network, networks)
	if p.Sandbox.Profile == "none" && p.Sandbox.Network == "none" {
		e.add(fault.ConfigValue, p.Sandbox.At("network"), `network = "none" can't be kept by profile "none"`, `use profile "strict" or "launcher"`)
	}
	e.positive(p.RestartBudget.Source, "exits", int64(p.RestartBudget.Exits))
	e.positive(p.RestartBudget.Source, "window", int64(p.RestartBudget.Window))
	tools := map[string]Source{}
	for _, t := range p.Tools {
		e.unique(t.Source, "tools", t.Name, tools)
		if !toolName.MatchString(t.Name) {
			e.badName(t.Source, "tool", t.Name)
		}
		e.word(t.Source, "tier", t.Tier, tiers)
		e.word(t.Source, "exposure", t.Exposure, exposures)
		if t.Timeout > maxCallTime {
			e.add(fault.ConfigValue, t.At("timeout"), "timeout is too long", "at most 900s")
		}
		e.risk(t.Source, t.AcceptRisk)
	}
}

func (e *evaluator) checkGrant(p *Plugin, g string) {
	tool, isTool := strings.CutPrefix(g, "tool:")
	if isTool && (tool == "*" || toolName.MatchString(tool)) || slices.Contains(PlainGrants, g) {
		return
	}
	detail := "grants are tool:NAME, tool:*, " + joinWords(PlainGrants)
	if near := nearest(g, PlainGrants); near != "" && !isTool {
		detail = fmt.Sprintf("did you mean %q? %s", near, detail)
	}
	e.add(fault.ConfigValue, p.At("grants"), fmt.Sprintf("unknown grant %q", g), detail)
}

// risk refuses a reason that gives none.
func (e *evaluator) risk(s Source, reason string) {
	at := s.At("accept_risk")
	if at != s.Range() && strings.TrimSpace(reason) == "" {
		e.add(fault.ConfigValue, at, "accept_risk is empty", "write the reason; it goes into the audit trail")
	}
}

func (e *evaluator) checkAgent(a *Agent, profiles []string, tokens map[Secret]*Agent) {
	switch {
	case !principal.MatchString(a.Name):
		e.badName(a.Source, "agent", a.Name)
	case a.Name == operatorAgent:
		e.add(fault.ConfigValue, a.Range(), `agent "operator" is built in`, "it is the host's own command line; choose another name")
	case a.Name == defaultAgent && a.has("token"):
		e.add(fault.ConfigValue, a.At("token"), `agent "default" takes no token`, "it is whoever comes without one; give the token to another agent")
	case a.Name == defaultAgent && a.Approver:
		e.add(fault.ConfigValue, a.At("approver"), `agent "default" can't approve`, "whoever comes without a token could approve its own calls")
	}
	if a.has("token") && a.Name != defaultAgent {
		other := tokens[a.Token]
		switch {
		case a.Token == "":
			e.add(fault.ConfigValue, a.At("token"), fmt.Sprintf("token of agent %q is empty", a.Name), "leave the line out, or give it a value")
		case len(a.Token) < minToken:
			e.add(fault.ConfigValue, a.At("token"), fmt.Sprintf("token of agent %q is too short", a.Name), fmt.Sprintf("at least %d characters that nobody can guess, such as those of `openssl rand -hex 32`", minToken))
		case other != nil:
			e.add(fault.ConfigValue, a.At("token"), fmt.Sprintf("agents %q and %q have the same token", other.Name, a.Name), "a token must tell who calls")
		default:
			tokens[a.Token] = a
		}
	}
	e.word(a.Source, "profile", a.Profile, profiles)
	e.word(a.Source, "model_tier", a.ModelTier, modelTiers)
	e.word(a.Source, "media", a.Media, medias)
}

func (s Source) has(attribute string) bool {
	return s.block != nil && s.block.Body.Attributes[attribute] != nil
}

func (e *evaluator) checkPolicy(p *Policy) {
	tierOf, names, rules := map[string]string{}, map[string]Source{}, map[string]Source{}
	for _, t := range p.Tiers {
		e.unique(t.Source, "tier", t.Name, names)
		if !slices.Contains(tiers, t.Name) {
			e.add(fault.ConfigValue, t.Range(), fmt.Sprintf("there is no tier %q", t.Name), "one of "+joinWords(tiers))
		}
		for _, tool := range t.Tools {
			if other, twice := tierOf[tool]; twice && other != t.Name {
				e.add(fault.ConfigValue, t.At("tools"), fmt.Sprintf("tool %q is in two tiers", tool), fmt.Sprintf("%s and %s", other, t.Name))
			}
			tierOf[tool] = t.Name
		}
		if t.has("approval_timeout") {
			e.positive(t.Source, "approval_timeout", int64(t.ApprovalTimeout))
		}
		e.risk(t.Source, t.AcceptRisk)
	}
	for _, r := range p.Rules {
		e.unique(r.Source, "rule", r.Name, rules)
		e.word(r.Source, "tier", r.Tier, tiers)
		if len(r.Tools) == 0 && r.has("tools") {
			e.add(fault.ConfigValue, r.At("tools"), fmt.Sprintf("rule %q names no tool", r.Name), `"*" stands for every tool`)
		}
		e.risk(r.Source, r.AcceptRisk)
	}
	if p.ApprovalReplyAfter > 45*time.Second {
		e.add(fault.ConfigValue, p.At("approval_reply_after"), "approval_reply_after is too long", "at most 45s, for clients give up after a minute")
	}
}

func (e *evaluator) checkAddress(h *HTTP, haveTokens bool) {
	if h == nil {
		return
	}
	host, port, err := net.SplitHostPort(h.Address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		e.add(fault.ConfigValue, h.At("address"), fmt.Sprintf("%q is no address", h.Address), `write host:port, such as "127.0.0.1:7411"`)
		return
	}
	if !Loopback(host) && !haveTokens {
		e.add(fault.ConfigValue, h.At("address"), "an address others can reach needs agents with tokens", `add agent "NAME" { token = secret("NAME") }, or listen on 127.0.0.1`)
	}
}

// Loopback tells whether a host can be reached from this machine only.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// CheckTiers reports settings that lower a restricted tool without a reason.
// rated is the tier the host or the plugin gives a tool; empty = not known.
func (c *Config) CheckTiers(rated func(plugin, tool string) string) hcl.Diagnostics {
	e := &evaluator{}
	lowered := func(s Source, attribute, plugin, tool, to, reason string) {
		if to != "" && to != "restricted" && strings.TrimSpace(reason) == "" && rated(plugin, tool) == "restricted" {
			e.add(fault.ConfigValue, s.At(attribute), fmt.Sprintf("restricted tool %q is lowered to %s", tool, to), `add accept_risk = "reason"`)
		}
	}
	for _, p := range c.Plugins {
		for _, t := range p.Tools {
			lowered(t.Source, "tier", p.Name, t.Name, t.Tier, t.AcceptRisk)
		}
	}
	for _, t := range c.Policy.Tiers {
		for _, tool := range t.Tools {
			lowered(t.Source, "tools", "", tool, t.Name, t.AcceptRisk)
		}
	}
	for _, r := range c.Policy.Rules {
		for _, tool := range r.Tools {
			lowered(r.Source, "tier", "", tool, r.Tier, r.AcceptRisk)
		}
	}
	return sorted(e.diags)
}

// matchGlob matches text against a pattern in which * stands for any run of
// characters and ? for one.
func matchGlob(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, mark, i, j := -1, 0, 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(string(p[i:]), "*") == ""
}
