// Package chrome runs a headless Chromium behind walls: namespaces and a file tree
// of its own, no network but a loopback device, and on that a relay to the proxy
// outside, which is the only way to anywhere.
//
// The relay is this very binary, run again inside the walls: it listens for the
// browser, starts it, and ends with it. Each page has a loopback address of its
// own for the proxy, which the relay passes on as the connection's tag.
package chrome
