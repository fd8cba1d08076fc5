package web

import "github.com/bulkhead-dev/bulkhead/sdk"

// tools are all of the plugin's.
func (b *browser) tools() []*sdk.Tool {
	return []*sdk.Tool{b.search.tool(), b.tool(), b.fetchTool(), b.requestTool(), b.healthTool(), b.referenceTool(), b.pdfTool()}
}
