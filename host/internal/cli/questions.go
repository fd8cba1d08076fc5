package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/plain"
)

func (a *app) questions() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "questions [ID]", Short: "What waits for a person, or one question in full", Args: takes("[ID]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return show(a, cmd, "/v1/questions/"+url.PathEscape(args[0]), "", "", a.question)
			}
			return show(a, cmd, fmt.Sprintf("/v1/questions?all=%t", all), "", "", func(list []api.Question) error {
				if len(list) == 0 {
					fmt.Fprintln(a.people, "nothing waits")
					return nil
				}
				rows := [][]string{{"ID", "KIND", "AGENT", "TOOL", "STATE", "EXPIRES", "MESSAGE"}}
				for _, q := range list {
					state := "open"
					switch {
					case q.Outcome != "":
						state = ended(q.Outcome)
					case q.CallerGone:
						state = "caller gone"
					}
					rows = append(rows, []string{q.ID, q.Kind, q.Agent, q.Tool, state, q.ExpiresAt.Local().Format(time.TimeOnly), firstLine(q.Message, 60)})
				}
				return a.table(rows)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "closed ones too")
	return cmd
}

// question prints one question in full: who approves must see all of it.
func (a *app) question(q api.Question) error {
	state := "open until " + q.ExpiresAt.Local().Format(time.DateTime)
	switch {
	case q.Outcome != "":
		state = ended(q.Outcome)
		if q.AnsweredBy != "" {
			state += " by " + plain.Line(q.AnsweredBy)
		}
	case q.CallerGone:
		state += ", caller gone"
	}
	fmt.Fprintf(a.people, "%s  %s, %s\n  tool %s, agent %s, session %s, asked %s\n\n", q.ID, q.Kind, state,
		plain.Line(q.Tool), plain.Line(q.Agent), plain.Line(q.Session), q.CreatedAt.Local().Format(time.DateTime))
	// Every line of what a plugin says is set off, so that none passes for ours.
	for line := range strings.Lines(q.Message) {
		fmt.Fprintf(a.people, "  | %s\n", strings.TrimSuffix(line, "\n"))
	}
	if q.URL != "" {
		fmt.Fprintf(a.people, "\nURL: %s\n", plain.Line(q.URL))
	}
	if len(q.Schema) > 0 {
		fmt.Fprintln(a.people, "\nThe answer's schema:")
		return a.printed(q.Schema)
	}
	return nil
}

func (a *app) answer() *cobra.Command {
	var decline bool
	cmd := &cobra.Command{
		Use: "answer ID [JSON|-|@FILE|key=value …]", Short: "Answer a question", Args: takes("ID", "[ANSWER…]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := a.arguments(args[1:])
			if err != nil {
				return usage(err)
			}
			in := api.Answer{Action: "accept", Content: content}
			if decline {
				in = api.Answer{Action: "decline"}
			} else if content == nil {
				in.Content = json.RawMessage("{}")
			}
			return a.settle(cmd, args[0], in)
		},
	}
	cmd.Flags().BoolVar(&decline, "decline", false, "decline to answer")
	return cmd
}

// verdict is approve or deny.
func (a *app) verdict(action string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: action + " ID", Short: map[string]string{"approve": "Let a waiting call run, once", "deny": "Refuse a waiting call"}[action], Args: takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.settle(cmd, args[0], api.Answer{Action: action, Reason: reason})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; the agent is told")
	return cmd
}

func (a *app) settle(cmd *cobra.Command, id string, in api.Answer) error {
	c, err := a.reach(cmd.Context())
	if err != nil {
		return err
	}
	var q api.Question
	if err := c.do(cmd.Context(), "POST", "/v1/questions/"+url.PathEscape(id), nil, in, &q); err != nil {
		return err
	}
	if a.json {
		return a.print(q)
	}
	fmt.Fprintf(a.people, "%s is %s\n", q.ID, ended(q.Outcome))
	if q.Outcome == "approve" {
		fmt.Fprintf(a.people, "  → the same call of %s now runs once, within 10 minutes\n", q.Tool)
	}
	return nil
}

// ended is an outcome in words.
func ended(outcome string) string {
	if word, ok := map[string]string{"accept": "answered", "decline": "declined", "cancel": "cancelled", "approve": "approved", "deny": "denied"}[outcome]; ok {
		return word
	}
	return outcome
}
