// Command bulkhead-plugin-workspace lets agents read, change and search files.
package main

import (
	"github.com/bulkhead-dev/bulkhead/plugins/workspace/workspace"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

func main() { sdk.Serve(workspace.Plugin()) }
