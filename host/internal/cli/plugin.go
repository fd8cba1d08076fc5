package cli

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
)

func (a *app) plugin() *cobra.Command {
	cmd := &cobra.Command{Use: "plugin", Short: "Write, test, look at and steer plugins", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return exit{exitUsage, errors.New("plugin needs one of new, inspect, test, restart, stop and start")}
		}}
	cmd.AddCommand(a.pluginNew(), a.inspect(), a.pluginTest(), a.steer("restart", "Restart a plugin; clears its quarantine"),
		a.steer("stop", "Stop a plugin"), a.steer("start", "Start a stopped plugin"))
	return cmd
}

func (a *app) steer(action, short string) *cobra.Command {
	return &cobra.Command{
		Use: action + " NAME", Short: short, Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.reach(cmd.Context())
			if err != nil {
				return err
			}
			var p api.PluginStatus
			if err := c.do(cmd.Context(), "POST", "/v1/plugins/"+url.PathEscape(args[0])+"/"+action, nil, nil, &p); err != nil {
				return err
			}
			if a.json {
				return a.print(p)
			}
			fmt.Fprintf(a.people, "%s: %s\n", p.Name, p.State)
			return nil
		},
	}
}
