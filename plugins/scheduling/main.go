// Command bulkhead-plugin-scheduling fires what agents schedule.
package main

import (
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/scheduling"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

func main() { sdk.Serve(scheduling.Plugin()) }
