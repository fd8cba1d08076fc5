package web

import (
	_ "embed"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Version of the plugin.
const Version = "0.1.0"

//go:embed guide.md
var guide string

// Plugin builds the plugin.
func Plugin() *sdk.Plugin {
	b := newBrowser()
	p := &sdk.Plugin{
		Name: "web", Version: Version,
		Settings: b.conf,
		Tools:    b.tools(),
		Guides:   []sdk.Guide{{Name: "web", Summary: "Opening web pages and reading them to the end.", Markdown: guide}},
		Grants:   []string{"shared", "tool:browser_render"},
		Health:   b.state,
		Sandbox:  sdk.Sandbox{Profile: "strict", Network: "all"},
	}
	b.data = func() string { return p.Facts().DataDir }
	return p
}
