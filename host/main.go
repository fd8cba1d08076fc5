// Command bulkhead is the host: it runs plugins as processes of their own and
// offers their tools through its doors.
package main

import (
	"os"

	"github.com/bulkhead-dev/bulkhead/host/internal/cli"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
)

func main() {
	sandbox.MaybeRun() // a plugin's sandbox is this program, started again
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
