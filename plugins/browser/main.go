// Command bulkhead-plugin-browser renders pages in a headless Chromium.
package main

import (
	"github.com/bulkhead-dev/bulkhead/plugins/browser/browser"
	"github.com/bulkhead-dev/bulkhead/plugins/browser/chrome"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

func main() {
	chrome.Init()
	sdk.Serve(browser.Plugin())
}
