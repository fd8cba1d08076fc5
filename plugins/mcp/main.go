// Command bulkhead-plugin-mcp bridges MCP servers to agents.
package main

import (
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/bridge"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

func main() { sdk.Serve(bridge.Plugin()) }
