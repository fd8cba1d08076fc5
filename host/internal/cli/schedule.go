package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/plain"
)

func (a *app) schedule() *cobra.Command {
	var agent string
	query := func() string {
		if agent == "" {
			return ""
		}
		return "?agent=" + url.QueryEscape(agent)
	}
	list := func(cmd *cobra.Command, _ []string) error {
		return scheduled(a, cmd, "GET", "/v1/schedule"+query(), a.tasks)
	}
	cmd := &cobra.Command{Use: "schedule", Short: "Scheduled tasks: what is due, and steering it", Args: takes(), RunE: list}
	cmd.PersistentFlags().StringVar(&agent, "agent", "", "only this agent's tasks; with a name, whose task it is (default without)")
	one := func(use, short, method, action string, human func(api.Schedule) error) *cobra.Command {
		return &cobra.Command{Use: use + " NAME", Short: short, Args: takes("NAME"), RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(args[0]) == "" || args[0] == "." || args[0] == ".." {
				return exit{exitUsage, errors.New("NAME is the name of a task")}
			}
			path := "/v1/schedule/" + url.PathEscape(args[0])
			if action != "" {
				path += "/" + action
			}
			return scheduled(a, cmd, method, path+query(), human)
		}}
	}
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "All scheduled tasks", Args: takes(), RunE: list},
		one("show", "One task with its next times and its last runs", "GET", "", a.task),
		one("run", "Fire a task now", "POST", "run", a.did("fires now; `bulkhead schedule show` tells what became of it")),
		one("pause", "Stop a task from firing", "POST", "pause", a.did("is paused")),
		one("resume", "Let a paused task go on", "POST", "resume", a.did("goes on")),
		one("cancel", "Remove a task", "POST", "cancel", a.did("is cancelled")),
		&cobra.Command{Use: "calendar", Short: "The fires to come as iCalendar", Args: takes(), RunE: func(cmd *cobra.Command, _ []string) error {
			return a.calendar(cmd, "/v1/schedule.ics"+query())
		}},
	)
	return cmd
}

// scheduled does one request about tasks and prints the answer, as JSON whole.
func scheduled(a *app, cmd *cobra.Command, method, path string, human func(api.Schedule) error) error {
	c, err := a.reach(cmd.Context())
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.do(cmd.Context(), method, path, nil, nil, &raw); err != nil {
		return err
	}
	if a.json {
		return a.print(raw)
	}
	var s api.Schedule
	if err := json.Unmarshal(raw, &s); err != nil {
		return failed(fmt.Errorf("the scheduler's answer can't be read: %w", err))
	}
	return human(s)
}

func (a *app) tasks(s api.Schedule) error {
	fmt.Fprintf(a.people, "now %s (%s)\n", s.Now.Local().Format(time.DateTime), plain.Line(s.TimeZone))
	for _, f := range s.Faults {
		fmt.Fprintf(a.people, "warning: %s\n", plain.Line(f))
	}
	if len(s.Tasks) == 0 {
		fmt.Fprintln(a.people, "nothing is scheduled")
		return nil
	}
	fmt.Fprintln(a.people)
	rows := [][]string{{"AGENT", "TASK", "NEXT", "WHEN", "DOES", "LAST RUN"}}
	for _, t := range s.Tasks {
		last := "-"
		if t.LastRun != nil {
			last = t.LastRun.Outcome + " " + t.LastRun.Ended.Local().Format(time.DateTime)
		}
		rows = append(rows, []string{t.Agent, t.Name, nextOf(t), t.When, t.Does, last})
	}
	if err := a.table(rows); err != nil {
		return err
	}
	if s.Total > len(s.Tasks) {
		fmt.Fprintf(a.people, "\n%d of %d tasks; --agent shows fewer\n", len(s.Tasks), s.Total)
	}
	return nil
}

func nextOf(t api.ScheduledTask) string {
	switch {
	case t.Paused != "":
		return "paused " + t.Paused
	case t.Next == nil && t.Running > 0:
		return "runs now"
	case t.Next == nil:
		return "-"
	case t.Overdue:
		return "overdue " + t.Next.Local().Format(time.DateTime)
	}
	return t.Next.Local().Format(time.DateTime)
}

func (a *app) task(s api.Schedule) error {
	for _, t := range s.Tasks {
		fmt.Fprintf(a.people, "%s  agent %s, %s\n  %s\n  next %s; missed %s, overlap %s; fired %d times, %d on hand\n\n", plain.Line(t.Name), plain.Line(t.Agent),
			plain.Line(t.When), plain.Line(t.Does), plain.Line(nextOf(t)), plain.Line(t.Missed), plain.Line(t.Overlap), t.Fired, t.Running)
		for line := range strings.Lines(t.Description) {
			fmt.Fprintf(a.people, "  | %s\n", strings.TrimSuffix(line, "\n"))
		}
		if len(t.Arguments) > 0 {
			fmt.Fprintln(a.people, "\nArguments:")
			if err := a.printed(t.Arguments); err != nil {
				return err
			}
		}
		for i, at := range t.Upcoming {
			if i == 0 {
				fmt.Fprintln(a.people, "\nNext times:")
			}
			fmt.Fprintf(a.people, "  %s\n", at.Local().Format(time.DateTime))
		}
		for i, r := range t.Runs {
			if i == 0 {
				fmt.Fprintln(a.people, "\nLast runs:")
			}
			line := r.Ended.Local().Format(time.DateTime) + "  " + r.Outcome
			if r.Count > 1 {
				line += fmt.Sprintf(", %d times", r.Count)
			}
			if r.Manual {
				line += ", by hand"
			}
			if r.Again {
				line += ", may have run before"
			}
			if r.Detail != "" {
				line += ": " + r.Detail
			}
			fmt.Fprintf(a.people, "  %s\n", plain.Line(line))
		}
	}
	return nil
}

func (a *app) did(what string) func(api.Schedule) error {
	return func(s api.Schedule) error {
		for _, t := range s.Tasks {
			fmt.Fprintf(a.people, "%s of agent %s %s\n", plain.Line(t.Name), plain.Line(t.Agent), what)
		}
		return nil
	}
}

func (a *app) calendar(cmd *cobra.Command, path string) error {
	c, err := a.reach(cmd.Context())
	if err != nil {
		return err
	}
	resp, err := c.send(cmd.Context(), "GET", path, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return failed(err)
	}
	if resp.StatusCode >= 300 {
		return failed(answered(resp.StatusCode, raw))
	}
	if a.json {
		return a.print(map[string]string{"calendar": string(raw)})
	}
	_, err = a.out.Write(raw)
	return err
}
