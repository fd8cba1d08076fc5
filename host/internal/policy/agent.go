package policy

import (
	"crypto/sha256"
	"crypto/subtle"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
)

// CoreGroup is always allowed: working memory, guides, the inbox, call_tool.
const CoreGroup = "core"

// Operator is the principal of the host's own command line: an approver who may
// call whatever is offered to agents.
const Operator = "operator"

// DefaultAgent is who calls without a token on loopback and stdio.
const DefaultAgent = "default"

// Agent is a principal that calls. It is immutable once in a Policy.
type Agent struct {
	Name      string
	Token     string
	Approver  bool
	Groups    []string // empty, with Tools empty: every group
	Tools     []string // names or globs
	Deny      []string // names or globs; wins over everything
	ModelTier string   // low | balanced | high
	Model     string
	Profile   string // main | subagent | scheduled | a name in HCL
	Media     string // path | inline: images in MCP results; empty = by tool

	token    [32]byte // SHA-256 of Token, for comparing in constant time
	above    []string // profiles this one was narrowed from; all of them bind
	profiles map[string]Profile
}

// Profile is an allowlist with a name, as HCL writes it. It narrows, never widens.
type Profile struct {
	Groups, Tools, Deny []string
}

func (p Profile) allows(t *registry.Tool) bool {
	switch {
	case matches(p.Deny, t.Name):
		return false
	case t.Rating.Group == CoreGroup, len(p.Groups) == 0 && len(p.Tools) == 0:
		return true
	}
	return slices.Contains(p.Groups, t.Rating.Group) || matches(p.Tools, t.Name)
}

// Allows says whether the agent may call the tool.
func (a *Agent) Allows(t *registry.Tool) bool {
	denied := func(profile string) bool {
		if own, ok := a.profiles[profile]; ok {
			return !own.allows(t)
		}
		return deniedByProfile(profile, t)
	}
	if t.Internal() || matches(a.Deny, t.Name) || denied(a.Profile) || slices.ContainsFunc(a.above, denied) {
		return false
	}
	if t.Rating.Group == CoreGroup {
		return true
	}
	if len(a.Groups) == 0 && len(a.Tools) == 0 {
		return true
	}
	return slices.Contains(a.Groups, t.Rating.Group) || matches(a.Tools, t.Name)
}

// SameToken says whether both are let in by the same token.
func (a *Agent) SameToken(b *Agent) bool { return a == b || a.token == b.token }

// sameRights says whether both may do the same, as far as it is the agent's own.
func (a *Agent) sameRights(b *Agent) bool {
	mine, own := a.profiles[a.Profile]
	his, also := b.profiles[b.Profile]
	return a.Approver == b.Approver && a.Profile == b.Profile && own == also && mine.same(his) &&
		Profile{a.Groups, a.Tools, a.Deny}.same(Profile{b.Groups, b.Tools, b.Deny})
}

func (p Profile) same(q Profile) bool {
	return slices.Equal(p.Groups, q.Groups) && slices.Equal(p.Tools, q.Tools) && slices.Equal(p.Deny, q.Deny)
}

// Open says whether a whole group is open to the agent.
func (a *Agent) Open(group string) bool {
	return (len(a.Groups) == 0 && len(a.Tools) == 0) || slices.Contains(a.Groups, group)
}

// Narrow is the agent as profile allows, never wider than it is.
func (a *Agent) Narrow(profile string) *Agent {
	if profile == "" || profile == a.Profile {
		return a
	}
	n := *a
	n.above = append(slices.Clone(a.above), a.Profile)
	n.Profile = profile
	return &n
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}

// profiles are the built-in ones: what a derived run may not do.
var profiles = map[string]struct{ sources, names []string }{
	"main":     {},
	"subagent": {[]string{"subagent", "scheduling", "a2a"}, []string{"mcp_register_server", "mcp_unregister_server"}},
	"scheduled": {nil, []string{
		"mcp_register_server", "mcp_unregister_server", "mcp_answer"}},
}

func deniedByProfile(profile string, t *registry.Tool) bool {
	p, ok := profiles[strings.ToLower(profile)]
	return ok && (slices.Contains(p.sources, t.Source) || slices.Contains(p.names, t.Name))
}

// holder finds whose token it is, or -1. Digests of one length are compared, and
// always all of them: how long it takes tells neither whose token came close nor
// how close.
func holder(agents []*Agent, token string) int {
	digest, found := sha256.Sum256([]byte(token)), -1
	for i, a := range agents {
		has := subtle.ConstantTimeEq(int32(min(len(a.Token), 1)), 1)
		same := subtle.ConstantTimeCompare(digest[:], a.token[:]) & has
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	return found
}
