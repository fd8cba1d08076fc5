// Command bulkhead-plugin-llm lets other plugins ask language models.
package main

import (
	"github.com/bulkhead-dev/bulkhead/plugins/llm/llm"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

func main() { sdk.Serve(llm.Plugin()) }
