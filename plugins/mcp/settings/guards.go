package settings

import (
	"fmt"
	"slices"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/guard"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Guards makes the server's argument guards.
func (s *Server) Guards() ([]*guard.Guard, error) {
	var out []*guard.Guard
	for _, g := range s.ArgGuards {
		made, err := guard.New(g.Handler, g.Tools, g.Mode == "warn", g.Options)
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

// Refused says why a server must not be connected as configured, given the
// plugin's grants; empty = it may. A guard that can't be kept is never dropped.
func (s *Server) Refused(granted []string) string {
	if s.Problem != "" {
		return s.Problem
	}
	guards, err := s.Guards()
	if err != nil {
		return fmt.Sprintf("its arg_guard can't be kept, and calls that should be guarded are not let through unguarded: %v", err)
	}
	for _, g := range guards {
		if name := g.Needs(); name != "" && !slices.Contains(granted, "tool:"+name) && !slices.Contains(granted, "tool:*") {
			return fmt.Sprintf(`its arg_guard %q needs the grant "tool:%s": add it to grants in the plugin's block`, g.Handler, name)
		}
	}
	return ""
}

func (s *Server) checkGuards(d *sdk.Diagnostics, at sdk.Path) {
	for i, g := range s.ArgGuards {
		at := at.Block("arg_guard", i)
		oneOf(d, at.Attr("mode"), g.Mode, "enforce", "warn")
		if _, err := guard.New(g.Handler, g.Tools, false, g.Options); err != nil {
			d.Errorf(at, "%v", err)
		}
		for j, t := range g.Tools {
			if t == "" {
				d.Errorf(at.Attr("tools").Index(j), "an empty name is no tool")
			}
		}
	}
}
