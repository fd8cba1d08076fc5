// Package downstream speaks MCP with one server.
//
// Connect finds out how: a program on stdio, Streamable HTTP or the older SSE,
// and the revision of the protocol, by server/discover first and the initialize
// handshake where that fails. What it found is told, so that the next connect
// need not try. Messages go through the transports of mcp-go as raw JSON: what
// a server sends in schemas, results and unknown members arrives as its bytes.
//
// A Conn is used by any number of calls at once. It never reconnects: when it is
// done its owner makes another.
package downstream
