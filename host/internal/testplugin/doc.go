//go:build linux

// Command testplugin is a plugin that behaves and misbehaves on request, for the
// tests of launch and supervision. It is written against the protocol and not the
// sdk, since the sdk keeps plugins from most of what it does.
//
// TESTPLUGIN_START chooses what happens instead of an honest handshake; the name
// of an invoked tool chooses what a call does; see tools.go.
package main
