// Package web is the plugin that opens web pages. web_browse fetches an address,
// checks every address it really dials against a guard, decodes what came by its
// type and charset, takes the noise out of HTML and gives clean Markdown, with a
// first line that says where it came from and how.
//
// A fetch goes through fetch.go (requests, redirects, limits; the guard of
// sdk/netguard stands at the dial, the cache of package cache before it), decode.go
// (types and charsets), page.go (HTML to Markdown, in the bounds of package htmltree
// and of work.go), and is told by browse.go (the tool) and compose.go (the shape of
// its result). render.go asks for pages to be rendered where HTTP gives a shell.
package web
