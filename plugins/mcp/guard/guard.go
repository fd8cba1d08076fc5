package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// PathPrefix is the built-in guard's name; ToolPrefix begins the name of a tool
// that decides.
const (
	PathPrefix = "path-prefix"
	ToolPrefix = "tool:"
)

// Call is what a guard is shown.
type Call struct {
	Server, Tool, Agent string
	Arguments           json.RawMessage
}

// Tool calls another plugin's tool for a guard and gives its JSON result.
type Tool func(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error)

// Guard is one guard with its options.
type Guard struct {
	Handler string
	Tools   []string // the server's names, in any case; empty = all
	Warn    bool     // say what would be refused, and refuse nothing
	check   func(ctx context.Context, c Call, tool Tool) (json.RawMessage, error)
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// New makes a guard, or says what is wrong with it.
func New(handler string, tools []string, warn bool, options json.RawMessage) (*Guard, error) {
	g := &Guard{Handler: handler, Tools: tools, Warn: warn}
	name, isTool := strings.CutPrefix(handler, ToolPrefix)
	switch {
	case handler == PathPrefix:
		p, err := newPathPrefix(options)
		if err != nil {
			return nil, err
		}
		g.check = func(_ context.Context, c Call, _ Tool) (json.RawMessage, error) { return nil, p.check(c.Arguments) }
	case isTool && toolName.MatchString(name):
		if trimmed := bytes.TrimSpace(options); len(trimmed) > 0 && trimmed[0] != '{' {
			return nil, fmt.Errorf("options are an object")
		}
		g.check = func(ctx context.Context, c Call, call Tool) (json.RawMessage, error) {
			return ask(ctx, name, c, options, call)
		}
	default:
		return nil, fmt.Errorf("arg_guard %q is not known; there are %s and %sNAME, which asks a tool", handler, PathPrefix, ToolPrefix)
	}
	return g, nil
}

// For reports whether the guard is for a tool.
func (g *Guard) For(tool string) bool {
	return len(g.Tools) == 0 || slices.ContainsFunc(g.Tools, func(t string) bool { return strings.EqualFold(t, tool) })
}

// Needs is the name of the tool the guard asks; empty = none.
func (g *Guard) Needs() string {
	name, _ := strings.CutPrefix(g.Handler, ToolPrefix)
	if name == g.Handler {
		return ""
	}
	return name
}

// Check gives the arguments to go on with, or why the call must not be made.
func (g *Guard) Check(ctx context.Context, c Call, tool Tool) (json.RawMessage, error) {
	now, err := g.check(ctx, c, tool)
	if now == nil {
		now = c.Arguments
	}
	return now, err
}

// question is the argument of a tool that decides, verdict its structured result.
type question struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Agent     string          `json:"agent"`
	Arguments json.RawMessage `json:"arguments"`
	Options   json.RawMessage `json:"options,omitempty"`
}

type verdict struct {
	Allow     *bool           `json:"allow"`
	Reason    string          `json:"reason"`
	Arguments json.RawMessage `json:"arguments"`
}

func ask(ctx context.Context, name string, c Call, options json.RawMessage, call Tool) (json.RawMessage, error) {
	raw, err := json.Marshal(question{c.Server, c.Tool, c.Agent, c.Arguments, options})
	if err != nil {
		return nil, fmt.Errorf("the guard %s%s could not be asked: %w", ToolPrefix, name, err)
	}
	answer, err := call(ctx, name, raw)
	if err != nil {
		return nil, fmt.Errorf("the guard %s%s could not decide: %w", ToolPrefix, name, err)
	}
	var v verdict
	if err := json.Unmarshal(answer, &v); err != nil || v.Allow == nil {
		return nil, fmt.Errorf(`the guard %s%s could not decide: it gave no {"allow": true} or {"allow": false, "reason": …}`, ToolPrefix, name)
	}
	if !*v.Allow {
		reason := strings.TrimSpace(v.Reason)
		if reason == "" {
			reason = "it gives no reason"
		}
		return nil, fmt.Errorf("the guard %s%s refuses: %s", ToolPrefix, name, clip(reason, 2000))
	}
	if len(v.Arguments) == 0 || string(v.Arguments) == "null" {
		return nil, nil
	}
	if !bytes.HasPrefix(bytes.TrimSpace(v.Arguments), []byte("{")) {
		return nil, fmt.Errorf("the guard %s%s could not decide: the arguments it gave are no object", ToolPrefix, name)
	}
	return v.Arguments, nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
