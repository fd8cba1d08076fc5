package call

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// CallTool is the host tool that reaches what is callable but not listed. It is
// no tool of its own in the path: the call becomes a call of its target.
const CallTool = "call_tool"

// resolve finds the tool the caller means. A miss names near matches among the
// tools this caller may use.
func (p *Pipeline) resolve(ctx context.Context, c *call) error {
	for hops := 0; ; hops++ {
		tool, ok := p.find(ctx, c.name)
		if !ok {
			return p.missing(c, p.Registry.Snapshot())
		}
		if c.ownSource != "" && (tool.Owner != c.plugin() || tool.Source != c.ownSource) {
			return fault.New(fault.NameTaken, "tool %q is not the one of %s that plugin %q means: plugin %q has that name, with source %q", tool.Name, c.ownSource, c.plugin(), tool.Owner, tool.Source)
		}
		if tool.Name != CallTool {
			c.tool = tool
			return nil
		}
		if hops > 0 {
			return fault.New(fault.BadArguments, "%s can't call itself", CallTool)
		}
		var target struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		args, err := object(c.args)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(args, &target); err != nil || target.Name == "" {
			return fault.New(fault.BadArguments, `%s takes {"name": "TOOL", "arguments": {…}}; got %s`, CallTool, clip(args, 200))
		}
		c.name, c.args = target.Name, target.Arguments
		if s := strings.TrimSpace(string(c.args)); strings.HasPrefix(s, `"`) {
			var text string
			if json.Unmarshal(c.args, &text) == nil {
				c.args = []byte(text)
			}
		}
	}
}

// find looks a name up; while plugins are still starting it waits for it to come.
func (p *Pipeline) find(ctx context.Context, name string) (*registry.Tool, bool) {
	tool, ok := p.Registry.Snapshot().Resolve(name)
	if ok || p.Settled == nil {
		return tool, ok
	}
	ctx, end := context.WithTimeout(ctx, StartWait)
	defer end()
	changed, stop := p.Registry.Watch()
	defer stop()
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		_ = p.Settled(ctx) // either way there is nothing more to wait for
	}()
	for {
		if tool, ok = p.Registry.Snapshot().Resolve(name); ok {
			return tool, true
		}
		select {
		case <-changed:
		case <-settled:
			return p.Registry.Snapshot().Resolve(name)
		}
	}
}

func (p *Pipeline) missing(c *call, snap *registry.Snapshot) error {
	near := snap.Near(c.name, 3, func(t *registry.Tool) bool { return p.mayUse(c, t) == nil })
	hint := "`list_tool_guides` and the tool list tell what there is"
	if len(near) > 0 {
		hint = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return fault.New(fault.UnknownTool, "no tool %q; %s", clip(c.name, 80), hint)
}

// object checks that args are one JSON object of a size that can travel. Nothing
// at all and null are an empty object.
func object(args []byte) ([]byte, error) {
	if len(args) > wire.MaxMessage-64<<10 {
		return nil, fault.New(fault.ArgumentsTooBig, "the arguments are %d bytes; at most %d travel with a call, larger data goes into a file under /shared", len(args), wire.MaxMessage-64<<10)
	}
	trimmed := bytes.TrimSpace(args)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		return []byte("{}"), nil
	}
	if err := content.Check(args); err != nil {
		if json.Valid(args) {
			return nil, fault.New(fault.BadJSON, "the arguments are %v", err)
		}
		var v any
		return nil, fault.New(fault.BadJSON, "the arguments are not JSON (%v): %s", json.Unmarshal(args, &v), clip(args, 120))
	}
	if trimmed[0] != '{' {
		return nil, fault.New(fault.BadJSON, "the arguments must be a JSON object, not %s", clip(args, 120))
	}
	return args, nil
}

// clip shortens outside text for an error.
func clip[T string | []byte](text T, n int) string {
	if len(text) <= n && utf8.ValidString(string(text)) {
		return string(text)
	}
	s := strings.ToValidUTF8(string(text[:min(len(text), n)]), "")
	if len(text) > n {
		s += "…"
	}
	return s
}
