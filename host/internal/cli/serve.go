package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/host"
)

func (a *app) serve() *cobra.Command {
	return &cobra.Command{
		Use: "serve", Short: "Run the host; prints where each door listens", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			slacken()
			cfg, err := a.load()
			if err != nil {
				return err
			}
			log := a.logger(cfg.Host.LogLevel)
			h, err := host.Start(cmd.Context(), host.Options{Config: cfg, Version: version(), Log: log})
			var f *fault.Error
			if errors.As(err, &f) && f.Ref == fault.DataDirLocked {
				return exit{exitNoHost, err} // the other host is not this command's to join
			}
			if err != nil {
				return failed(err)
			}
			if !a.json {
				for _, door := range h.Doors {
					fmt.Fprintln(a.people, "listens on "+door)
				}
			}
			if err := h.Wait(cmd.Context()); err == nil {
				if err := a.summary(h); err != nil {
					log.Warn("the summary could not be printed", "error", err)
				}
			}
			share()
			a.reloads(cmd.Context(), h, log)
			fmt.Fprintln(a.errPeople, "stopping; interrupt again to stop at once")
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

// reloads reads the config again whenever the process is told to, until ctx ends.
func (a *app) reloads(ctx context.Context, h *host.Host, log hclog.Logger) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			if _, err := h.Reload(ctx); err != nil {
				log.Error("the config was not reloaded; the running one stays", "error", err)
			}
		}
	}
}

// reload asks the running host to read its config again.
func (a *app) reload() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "Let the host read its config again; a faulty one changes nothing", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.reachTelling(cmd.Context(), func(hcl.Diagnostics) {}) // the host tells the faults
			if err != nil {
				return err
			}
			var s api.Reloaded
			if err := c.do(cmd.Context(), "POST", "/v1/reload", nil, nil, &s); err != nil {
				return err
			}
			if a.json {
				return a.print(s)
			}
			fmt.Fprintln(a.people, "reloaded")
			for _, n := range s.Notes {
				fmt.Fprintln(a.people, "  "+n)
			}
			return nil
		},
	}
}

// summary says in a line a plugin what came up; as JSON it is the whole status.
func (a *app) summary(h *host.Host) error {
	s := h.Status()
	if a.json {
		return a.print(s)
	}
	for _, p := range s.Plugins {
		line := fmt.Sprintf("plugin %s: %s, %s", p.Name, p.State, count(p.Tools, "tool"))
		if p.LastError != "" {
			line += "; " + p.LastError
		}
		fmt.Fprintln(a.people, line)
	}
	return nil
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// logger writes to stderr, for people on a terminal and as JSON elsewhere.
func (a *app) logger(level string) hclog.Logger {
	l := hclog.LevelFromString(level)
	if l == hclog.NoLevel {
		l = hclog.Info
	}
	return hclog.New(&hclog.LoggerOptions{Name: "bulkhead", Level: l, Output: a.errOut, JSONFormat: !terminal(a.errOut)})
}

// share leaves half of the processors to the plugins once everything is up. Go
// takes its process for the only one, and a call that passes through several
// would wait for threads that wake each other up. The user's word goes first.
func share() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // of a heap this small
	}
}
