// Command bulkhead-plugin-web reads the web for agents.
package main

import (
	"github.com/bulkhead-dev/bulkhead/plugins/web/web"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

func main() { sdk.Serve(web.Plugin()) }
