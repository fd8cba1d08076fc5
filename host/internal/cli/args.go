package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// takes checks the words after a command against its usage line: NAME must be
// there, [NAME] may be, and […] stands for any number of them.
func takes(usage ...string) cobra.PositionalArgs {
	least, most := 0, len(usage)
	for _, u := range usage {
		if !strings.HasPrefix(u, "[") {
			least++
		}
		if strings.HasSuffix(u, "…]") {
			most = -1
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return exit{exitUsage, fmt.Errorf("%s needs %s", cmd.Name(), strings.Join(usage[len(args):least], " and "))}
		case len(args) > 0 && cmd.HasSubCommands():
			near := ""
			if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
				near = "; did you mean " + strings.Join(s, " or ") + "?"
			}
			return exit{exitUsage, fmt.Errorf("no command %q%s", args[0], near)}
		case most == 0 && len(args) > 0:
			return exit{exitUsage, fmt.Errorf("%s takes no arguments, got %q", cmd.Name(), args[0])}
		case most >= 0 && len(args) > most:
			return exit{exitUsage, fmt.Errorf("%s takes only %s, got %q too", cmd.Name(), strings.Trim(strings.Join(usage, " and "), "[]"), args[most])}
		}
		return nil
	}
}
