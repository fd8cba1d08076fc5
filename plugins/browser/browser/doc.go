// Package browser is the plugin that renders pages: browser_render, an internal
// tool for other plugins, and web_screenshot.
//
// A stable keeps one Chromium running while it is needed, starts a new one when it
// has died or served long enough, and lets a few pages be open at a time. A page
// lives in a browser context of its own, with a proxy address of its own, and ends
// with its call: nothing of it is seen by the next one.
package browser
