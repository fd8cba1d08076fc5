package cli

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/host/internal/host"
)

func (a *app) serve() *cobra.Command {
	return &cobra.Command{
		Use: "serve", Short: "Run the host; prints where each door listens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			log := a.logger(cfg.Host.LogLevel)
			h, err := host.Start(cmd.Context(), host.Options{Config: cfg, Version: version(), Log: log})
			if err != nil {
				return failed(err)
			}
			for _, door := range h.Doors {
				fmt.Fprintln(a.out, door)
			}
			if err := h.Wait(cmd.Context()); err == nil {
				a.summary(h)
			}
			<-cmd.Context().Done()
			fmt.Fprintln(a.errOut, "stopping; interrupt again to stop at once")
			again, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer cancel()
			end, done := context.WithTimeout(again, 30*time.Second)
			defer done()
			if err := h.Close(end); err != nil {
				return failed(err)
			}
			return nil
		},
	}
}

// summary says in a line a plugin what came up.
func (a *app) summary(h *host.Host) {
	for _, p := range h.Status().Plugins {
		line := fmt.Sprintf("plugin %s: %s, %d tools", p.Name, p.State, p.Tools)
		if p.LastError != "" {
			line += "; " + p.LastError
		}
		fmt.Fprintln(a.out, line)
	}
}

// logger writes to stderr, for people on a terminal and as JSON elsewhere.
func (a *app) logger(level string) hclog.Logger {
	l := hclog.LevelFromString(level)
	if l == hclog.NoLevel {
		l = hclog.Info
	}
	return hclog.New(&hclog.LoggerOptions{Name: "bulkhead", Level: l, Output: a.errOut, JSONFormat: !terminal(a.errOut)})
}
