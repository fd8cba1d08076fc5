package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// caseOutcome is how one case went, as JSON.
type caseOutcome struct {
	Name    string   `json:"name"`
	Passed  bool     `json:"passed"`
	Skipped string   `json:"skipped,omitempty"`
	Lines   []string `json:"lines"`
}

// pluginTest runs the SDK's conformance cases against a binary.
func (a *app) pluginTest() *cobra.Command {
	var config, grants, slow []string
	cmd := &cobra.Command{
		Use: "test PATH", Short: "Run the conformance cases of plugins against a binary", Args: takes("PATH"),
		Long: "Run the conformance cases of plugins against a binary. The binary runs as this user, without a sandbox: test what you trust.",
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, err := a.arguments(config)
			if err != nil {
				return usage(err)
			}
			path, err := filepath.Abs(args[0])
			if err != nil {
				return exit{exitUsage, err}
			}
			if info, err := os.Stat(path); err != nil {
				return failed(err)
			} else if info.IsDir() || info.Mode()&0o111 == 0 {
				return failed(fmt.Errorf("%s is not a program", args[0]))
			}
			opts := []sdktest.Option{sdktest.Granted(grants...)}
			if len(slow) > 0 {
				arguments, err := a.arguments(slow[1:])
				if err != nil {
					return usage(err)
				}
				opts = append(opts, sdktest.SlowTool(slow[0], string(arguments)))
			}
			return a.outcomes(sdktest.Check(path, string(settings), opts...))
		},
	}
	// Of a plugin's test, the config is the plugin's own.
	cmd.Flags().StringArrayVar(&config, "config", nil, "the plugin's settings: JSON, @FILE or key=value, which may be repeated")
	cmd.Flags().StringArrayVar(&grants, "grant", nil, "a grant the plugin is told it has; may be repeated")
	cmd.Flags().StringArrayVar(&slow, "slow", nil, "a tool that runs until it is cancelled, for the cases on deadlines; repeated, its arguments")
	return cmd
}

func (a *app) outcomes(all []sdktest.Outcome) error {
	bad := 0
	rows := [][]string{{"CASE", "RESULT"}}
	shown := []caseOutcome{}
	for _, o := range all {
		result := "passed"
		switch {
		case o.Skipped != "":
			result = "skipped: no tool is named with --slow"
		case !o.Passed:
			result = "FAILED"
			bad++
		}
		rows = append(rows, []string{o.Name, result})
		shown = append(shown, caseOutcome{o.Name, o.Passed, o.Skipped, append([]string{}, o.Lines...)})
	}
	if a.json {
		if err := a.print(shown); err != nil {
			return err
		}
	} else if err := a.table(rows); err != nil {
		return err
	}
	if !a.json {
		a.failures(all)
	}
	if bad > 0 {
		return failed(errors.New(count(bad, "case") + " failed"))
	}
	return nil
}

// failures prints what failed, once: a plugin that does not start fails every case
// with the same words.
func (a *app) failures(all []sdktest.Outcome) {
	told := map[string]string{}
	for _, o := range all {
		if o.Skipped != "" || o.Passed {
			continue
		}
		lines := strings.Join(o.Lines, "\n  ")
		if first, ok := told[lines]; ok {
			lines = "as in: " + first
		} else {
			told[lines] = o.Name
		}
		fmt.Fprintf(a.people, "\n%s\n  %s\n", o.Name, lines)
	}
}
