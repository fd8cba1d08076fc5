// Command bare is a plugin that calls itself like the fixture and has none of its
// tools.
package main

import (
	"context"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

func main() {
	sdk.Serve(&sdk.Plugin{Name: "fixture", Version: "2.0.0", Tools: []*sdk.Tool{
		sdk.NewTool("bare", "Answers.", func(context.Context, *sdk.Call, struct{}) (sdk.Result, error) { return sdk.TextResult("here"), nil }),
	}})
}
