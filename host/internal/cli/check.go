package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/host/internal/config"
	"github.com/bulkhead-dev/bulkhead/host/internal/host"
)

func (a *app) check() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Check the config and every plugin's block", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := config.Find(a.config)
			if err != nil {
				return failed(err)
			}
			cfg, diags := config.Load(path)
			if cfg != nil {
				dir, err := os.MkdirTemp("", "bh")
				if err != nil {
					return failed(err)
				}
				defer os.RemoveAll(dir)
				ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Minute)
				defer cancel()
				diags = append(diags, host.Check(ctx, cfg, host.CheckOptions{
					DataDir: filepath.Join(dir, "data"), RunDir: filepath.Join(dir, "run"), Version: version(), Log: a.logger("error")})...)
			}
			return a.diagnose(path, cfg, diags)
		},
	}
}

// diagnose prints what was found; errors make the check fail, warnings do not.
func (a *app) diagnose(path string, cfg *config.Config, diags hcl.Diagnostics) error {
	var sources config.Sources
	if cfg != nil {
		sources = cfg.Sources()
	}
	if a.json {
		fmt.Fprintf(a.screen(), "%s\n", config.JSON(diags))
	} else if err := config.Write(a.out, diags, sources, a.colour); err != nil {
		return failed(err)
	}
	if diags.HasErrors() {
		return exit{code: exitFailed}
	}
	if !a.json {
		if path == "" {
			path = "the built-in defaults"
		}
		fmt.Fprintf(a.people, "%s: ok\n", path)
	}
	return nil
}
