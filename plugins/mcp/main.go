// Command bulkhead-plugin-mcp bridges MCP servers to agents.
package main

import (
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/bridge"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

func main() {
	child.Init()
	downstream.Init()
	sdk.Serve(bridge.Plugin())
}
