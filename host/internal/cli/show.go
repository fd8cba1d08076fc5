package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/plain"
)

// table prints rows in columns; the first row is the heading.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, cell := range r {
			cells[i] = plain.Line(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// show runs a command that gets one value from the host and prints it.
func show[T any](a *app, cmd *cobra.Command, path string, agent, session string, human func(T) error) error {
	c, err := a.reach(cmd.Context())
	if err != nil {
		return err
	}
	var v T
	if err := c.do(cmd.Context(), "GET", path, as(agent, session), nil, &v); err != nil {
		return err
	}
	if a.json {
		return a.print(v)
	}
	return human(v)
}

func (a *app) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Host and plugins: state, generation, offers, sandbox, last error", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a, cmd, "/v1/status", "", "", func(s api.Status) error {
				fmt.Fprintf(a.people, "host %s, pid %d, up %s\n", s.Host.Version, s.Host.PID, time.Since(s.Host.StartedAt).Round(time.Second))
				for _, d := range s.Host.Doors {
					fmt.Fprintln(a.people, "  "+d)
				}
				fmt.Fprintln(a.people)
				rows := [][]string{{"PLUGIN", "STATE", "PID", "GEN", "RESTARTS", "TOOLS", "IN FLIGHT", "SANDBOX"}}
				for _, p := range s.Plugins {
					box := "-"
					if p.Sandbox != nil {
						box = p.Sandbox.Profile + ", network " + p.Sandbox.Network
					}
					rows = append(rows, []string{p.Name, p.State, pid(p.PID), fmt.Sprint(p.Generation), fmt.Sprint(p.Restarts),
						fmt.Sprint(p.Tools), fmt.Sprint(p.InFlight), box})
				}
				if err := a.table(rows); err != nil {
					return err
				}
				for _, p := range s.Plugins {
					a.details(p)
				}
				for i, w := range s.Warnings {
					if i == 0 {
						fmt.Fprintln(a.people)
					}
					fmt.Fprintln(a.people, "warning: "+w)
				}
				return nil
			})
		},
	}
}

func pid(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// details prints what does not fit into a plugin's row: what is wrong with it, and
// what its sandbox really does here.
func (a *app) details(p api.PluginStatus) {
	var lines []string
	say := func(format string, args ...any) {
		lines = append(lines, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n    "))
	}
	if p.Detail != "" && p.Detail != p.LastError {
		say("health: %s", p.Detail)
	}
	if p.LastError != "" {
		when := ""
		if p.LastErrorAt != nil {
			when = " at " + p.LastErrorAt.Local().Format(time.DateTime)
		}
		say("last error%s: %s (%s)", when, p.LastError, or(p.LastRef, "no code"))
		for _, line := range p.Tail {
			if !strings.Contains(p.LastError, line) {
				say("  | %s", line)
			}
		}
	}
	if p.NextAttempt != nil {
		say("next attempt: %s", p.NextAttempt.Local().Format(time.TimeOnly))
	}
	for _, g := range p.MissingGrants {
		say("lacks in its block: %s", g)
	}
	for _, r := range p.Refused {
		say("refused: %s", r)
	}
	if p.Sandbox != nil {
		say("sandbox: %s", strings.Join(p.Sandbox.InForce, "; "))
		if len(p.Sandbox.Missing) > 0 {
			say("sandbox can't have here: %s", strings.Join(p.Sandbox.Missing, "; "))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(a.people, "\n%s\n  %s\n", p.Name, strings.Join(lines, "\n  "))
	}
}

func (a *app) tools() *cobra.Command {
	var agent, session, format string
	cmd := &cobra.Command{
		Use: "tools [NAME]", Short: "The registry, or one tool with its schema", Args: takes("[NAME]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch format {
			case "", "mcp", "openai", "anthropic":
			default:
				return exit{exitUsage, fmt.Errorf("--format is mcp, openai or anthropic, not %q", format)}
			}
			path := "/v1/tools"
			if len(args) == 1 {
				path += "/" + url.PathEscape(args[0])
			}
			if format != "" {
				return show(a, cmd, path+"?format="+format, agent, session, func(v json.RawMessage) error { return a.print(v) })
			}
			if len(args) == 1 {
				return show(a, cmd, path, agent, session, a.tool)
			}
			return show(a, cmd, path, agent, session, func(list []api.Tool) error {
				rows := [][]string{{"TOOL", "PLUGIN", "GROUP", "TIER", "EXPOSURE", "DESCRIPTION"}}
				for _, t := range list {
					rows = append(rows, []string{t.Name, t.Plugin, t.Group, t.Tier, exposure(t), firstLine(t.Description, 70)})
				}
				return a.table(rows)
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "only what this agent sees")
	cmd.Flags().StringVar(&session, "session", "", "as seen in this session")
	cmd.Flags().StringVar(&format, "format", "", "mcp, openai or anthropic")
	return cmd
}

// exposure says when a tool is listed; an internal one never is.
func exposure(t api.Tool) string {
	if t.Visibility == "internal" {
		return t.Visibility
	}
	return t.Exposure
}

// tool prints one tool in full.
func (a *app) tool(t api.Tool) error {
	fmt.Fprintf(a.people, "%s\n  plugin %s, group %s, tier %s, exposure %s\n\n%s\n", t.Name, t.Plugin, t.Group, t.Tier, exposure(t), t.Description)
	if t.Note != "" {
		fmt.Fprintf(a.people, "\nThe host mended its schema: %s\n", t.Note)
	}
	fmt.Fprintln(a.people, "\nArguments:")
	if err := a.printed(t.InputSchema); err != nil || len(t.OutputSchema) == 0 {
		return err
	}
	fmt.Fprintln(a.people, "\nStructured result:")
	return a.printed(t.OutputSchema)
}

func firstLine(s string, n int) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func (a *app) guide() *cobra.Command {
	return &cobra.Command{
		Use: "guide [NAME]", Short: "Tool guides", Args: takes("[NAME]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return show(a, cmd, "/v1/guides/"+url.PathEscape(args[0]), "", "", func(g api.Guide) error {
					fmt.Fprintln(a.people, g.Markdown)
					return nil
				})
			}
			return show(a, cmd, "/v1/guides", "", "", func(list []api.Guide) error {
				rows := [][]string{{"GUIDE", "PLUGIN", "SUMMARY"}}
				for _, g := range list {
					rows = append(rows, []string{g.Name, g.Plugin, g.Summary})
				}
				return a.table(rows)
			})
		},
	}
}

func (a *app) inbox() *cobra.Command {
	var agent, session string
	var after uint64
	cmd := &cobra.Command{
		Use: "inbox", Short: "What arrived for a session", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if session == "" {
				return exit{exitUsage, errors.New("inbox needs --session ID")}
			}
			path := fmt.Sprintf("/v1/sessions/%s/inbox?after=%d", url.PathEscape(session), after)
			return show(a, cmd, path, agent, "", func(items []api.InboxItem) error {
				if len(items) == 0 {
					fmt.Fprintln(a.people, "the inbox is empty")
				}
				for _, it := range items {
					fmt.Fprintf(a.people, "%d  %s  %s  %s\n", it.Seq, it.At.Local().Format(time.DateTime), it.Kind, it.Text)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "agent whose session it is")
	cmd.Flags().StringVar(&session, "session", "", "session to read")
	cmd.Flags().Uint64Var(&after, "after", 0, "only entries after this number")
	return cmd
}
