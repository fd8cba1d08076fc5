// Command bulkhead-plugin-scripts runs scripts that can't hurt anyone.
package main

import (
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/local"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/scripts"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

func main() {
	child.Init()
	local.Init()
	sdk.Serve(scripts.Plugin())
}
