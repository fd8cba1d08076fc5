package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/event"
)

func (a *app) events() *cobra.Command {
	var follow bool
	var after uint64
	cmd := &cobra.Command{
		Use: "events", Short: "What happened; --follow goes on", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.reach(cmd.Context())
			if err != nil {
				return err
			}
			path := fmt.Sprintf("/v1/events?follow=%t&after=%d", follow, after)
			return c.stream(cmd.Context(), "GET", path, nil, nil, func(line []byte) error {
				var e event.Event
				if err := json.Unmarshal(line, &e); err != nil {
					return failed(err)
				}
				if e.Seq == 0 {
					return nil // the host only shows that it is there
				}
				if a.json {
					_, err := a.screen().Write(line)
					return err
				}
				_, err := fmt.Fprintf(a.people, "%6d  %s  %-17s  %-12s  %s\n", e.Seq, e.At.Local().Format(time.TimeOnly), e.Type, or(e.Plugin, "-"), details(e))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with what comes")
	cmd.Flags().Uint64Var(&after, "after", 0, "only events after this number")
	return cmd
}

// details is what an event carries, as key=value; what is empty is left out.
func details(e event.Event) string {
	var parts []string
	gjson.ParseBytes(e.Data).ForEach(func(key, value gjson.Result) bool {
		if text := value.String(); text != "" && value.Raw != "0" {
			if strings.ContainsAny(text, " \n\t\"") {
				text = strconv.Quote(text)
			}
			parts = append(parts, key.String()+"="+text)
		}
		return true
	})
	if e.Session != "" {
		parts = append(parts, "session="+e.Session)
	}
	return strings.Join(parts, " ")
}
