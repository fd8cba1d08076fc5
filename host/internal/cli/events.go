package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/host/internal/event"
)

func (a *app) events() *cobra.Command {
	var follow bool
	var after uint64
	cmd := &cobra.Command{
		Use: "events", Short: "What happened; --follow goes on", Args: cobra.NoArgs,
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
					_, err := a.out.Write(line)
					return err
				}
				about := strings.TrimSpace(e.Plugin + " " + e.Session)
				_, err := fmt.Fprintf(a.out, "%d %s %s %s %s\n", e.Seq, e.At.Format(time.TimeOnly), e.Type, about, e.Data)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with what comes")
	cmd.Flags().Uint64Var(&after, "after", 0, "only events after this number")
	return cmd
}
