// Package mcpserver is the MCP door.
//
// The library speaks the protocol of both eras: negotiation, errors, the shape of
// every message. What carries a caller's or a plugin's data goes round it as
// bytes: arguments are read from the message as it came, lists and results are
// spliced into the library's answer just before it is written. Plugins' schemas
// never enter the library at all, so none of them can upset it.
//
// A Conn is one client on one pair of streams, with a session of its own; several
// clients of a running host share nothing but the core.
package mcpserver
