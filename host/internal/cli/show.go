package cli

import (
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
)

// table prints rows in columns; the first row is the heading.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
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
		Use: "status", Short: "Host and plugins: state, generation, offers, sandbox, last error", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a, cmd, "/v1/status", "", "", func(s api.Status) error {
				fmt.Fprintf(a.out, "host %s, pid %d, up %s\n", s.Host.Version, s.Host.PID, time.Since(s.Host.StartedAt).Round(time.Second))
				for _, d := range s.Host.Doors {
					fmt.Fprintln(a.out, "  "+d)
				}
				rows := [][]string{{"PLUGIN", "STATE", "PID", "GEN", "RESTARTS", "TOOLS", "IN FLIGHT", "SANDBOX"}}
				for _, p := range s.Plugins {
					box := "-"
					if p.Sandbox != nil {
						box = p.Sandbox.Profile + ", network " + p.Sandbox.Network
					}
					rows = append(rows, []string{p.Name, p.State, fmt.Sprint(p.PID), fmt.Sprint(p.Generation), fmt.Sprint(p.Restarts),
						fmt.Sprint(p.Tools), fmt.Sprint(p.InFlight), box})
				}
				if err := a.table(rows); err != nil {
					return err
				}
				for _, p := range s.Plugins {
					a.trouble(p)
				}
				for _, w := range s.Warnings {
					fmt.Fprintln(a.out, "warning: "+w)
				}
				return nil
			})
		},
	}
}

// trouble prints what is wrong with a plugin, if anything.
func (a *app) trouble(p api.PluginStatus) {
	if p.LastError != "" {
		fmt.Fprintf(a.out, "%s: %s\n", p.Name, p.LastError)
		for _, line := range p.Tail {
			fmt.Fprintln(a.out, "  | "+line)
		}
	}
	if p.NextAttempt != nil {
		fmt.Fprintf(a.out, "%s: next attempt %s\n", p.Name, p.NextAttempt.Format(time.RFC3339))
	}
	for _, g := range p.MissingGrants {
		fmt.Fprintf(a.out, "%s: lacks %s\n", p.Name, g)
	}
	for _, r := range p.Refused {
		fmt.Fprintf(a.out, "%s: %s\n", p.Name, r)
	}
	if p.Sandbox != nil {
		fmt.Fprintf(a.out, "%s: in force: %s\n", p.Name, strings.Join(p.Sandbox.InForce, ", "))
		if len(p.Sandbox.Missing) > 0 {
			fmt.Fprintf(a.out, "%s: missing: %s\n", p.Name, strings.Join(p.Sandbox.Missing, ", "))
		}
	}
}

func (a *app) tools() *cobra.Command {
	var agent, session, format string
	cmd := &cobra.Command{
		Use: "tools [NAME]", Short: "The registry, or one tool with its schema", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return show(a, cmd, "/v1/tools/"+url.PathEscape(args[0]), "", "", func(t api.Tool) error {
					fmt.Fprintf(a.out, "%s (plugin %s, group %s, %s, %s)\n\n%s\n\n", t.Name, t.Plugin, t.Group, t.Tier, t.Exposure, t.Description)
					if t.Note != "" {
						fmt.Fprintf(a.out, "schema mended: %s\n", t.Note)
					}
					return a.print(t.InputSchema)
				})
			}
			if format != "" {
				return show(a, cmd, "/v1/tools?format="+url.QueryEscape(format), agent, session, func(v []any) error { return a.print(v) })
			}
			return show(a, cmd, "/v1/tools", agent, session, func(list []api.Tool) error {
				rows := [][]string{{"TOOL", "PLUGIN", "GROUP", "TIER", "EXPOSURE", "DESCRIPTION"}}
				for _, t := range list {
					rows = append(rows, []string{t.Name, t.Plugin, t.Group, t.Tier, t.Exposure, firstLine(t.Description, 70)})
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

func firstLine(s string, n int) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func (a *app) guide() *cobra.Command {
	return &cobra.Command{
		Use: "guide [NAME]", Short: "Tool guides", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return show(a, cmd, "/v1/guides/"+url.PathEscape(args[0]), "", "", func(g api.Guide) error {
					fmt.Fprintln(a.out, g.Markdown)
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
		Use: "inbox", Short: "What arrived for a session", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if session == "" {
				return exit{exitUsage, fmt.Errorf("inbox needs --session")}
			}
			path := fmt.Sprintf("/v1/sessions/%s/inbox?after=%d", url.PathEscape(session), after)
			return show(a, cmd, path, agent, "", func(items []api.InboxItem) error {
				for _, it := range items {
					fmt.Fprintf(a.out, "[%d] %s %s: %s\n", it.Seq, it.At.Format(time.RFC3339), it.Kind, it.Text)
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
