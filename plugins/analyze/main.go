// Command bulkhead-plugin-analyze has models look at files.
package main

import (
	"github.com/bulkhead-dev/bulkhead/plugins/analyze/analyze"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

func main() { sdk.Serve(analyze.Plugin()) }
