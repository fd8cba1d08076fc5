package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/host"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

func (a *app) plugin() *cobra.Command {
	cmd := &cobra.Command{Use: "plugin", Short: "Look at plugins and steer them", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return exit{exitUsage, errors.New("plugin needs one of inspect, restart, stop and start")}
		}}
	cmd.AddCommand(a.inspect(), a.steer("restart", "Restart a plugin; clears its quarantine"),
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
			fmt.Fprintf(a.out, "%s: %s\n", p.Name, p.State)
			return nil
		},
	}
}

// inspect starts a binary under strict, without network, and prints what it says
// of itself.
func (a *app) inspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect PATH", Short: "What a plugin binary says of itself", Args: takes("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return exit{exitUsage, err}
			}
			dir, err := os.MkdirTemp("", "bh")
			if err != nil {
				return failed(err)
			}
			defer os.RemoveAll(dir)
			s := supervise.New(supervise.Options{DataDir: filepath.Join(dir, "data"), RunDir: filepath.Join(dir, "run"),
				Offers: host.NoOffers{}, Log: a.logger("error"), HostVersion: version()})
			ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
			defer cancel()
			d, err := s.Describe(ctx, supervise.Plugin{Name: strings.TrimPrefix(filepath.Base(path), "bulkhead-plugin-"), Binary: path})
			if err != nil {
				return failed(err)
			}
			if a.json {
				raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(d)
				if err != nil {
					return failed(err)
				}
				return a.print(json.RawMessage(raw)) // whose spaces differ from run to run
			}
			fmt.Fprintf(a.out, "%s %s (sdk %s)\n", d.Name, d.Version, d.SdkVersion)
			fmt.Fprintf(a.out, "sandbox: %s, network %s\n", or(d.Sandbox.GetProfile(), "strict"), or(d.Sandbox.GetNetwork(), "none"))
			fmt.Fprintf(a.out, "swap: %s\n", strings.ToLower(strings.TrimPrefix(d.Swap.String(), "SWAP_")))
			if len(d.Grants) > 0 {
				fmt.Fprintf(a.out, "asks for grants: %s\n", strings.Join(d.Grants, ", "))
			}
			rows := [][]string{{"CONFIG", "TYPE", "NEEDED", "ABOUT"}}
			for _, at := range d.ConfigSchema.GetAttributes() {
				rows = append(rows, []string{at.Name, configType(at), yes(at.Required), firstLine(at.Doc, 70)})
			}
			for _, b := range d.ConfigSchema.GetBlocks() {
				rows = append(rows, []string{b.TypeName + strings.Repeat(" \"…\"", len(b.Labels)) + " {}", "block", yes(b.MinItems > 0), firstLine(b.Doc, 70)})
			}
			if len(rows) == 1 {
				return nil
			}
			return a.table(rows)
		},
	}
}

// configType is the type of an attribute as people write it: a quantity is text
// with a unit.
func configType(at *pluginv1.ConfigAttribute) string {
	switch at.Quantity {
	case pluginv1.Quantity_QUANTITY_DURATION:
		return "duration"
	case pluginv1.Quantity_QUANTITY_SIZE:
		return "size"
	}
	return at.Type
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
