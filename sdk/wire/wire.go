// Package wire holds the few constants on which host and plugins must agree
// before they can talk: the handshake, the names in it and the size limits.
package wire

import "github.com/hashicorp/go-plugin"

const (
	// PluginSet is the one key of the plugin set both sides serve.
	PluginSet = "bulkhead"
	// HostServiceID is the broker id of the host service, usable from Configure on.
	HostServiceID = 1
	// MaxMessage is the largest message either side accepts, in bytes. What is
	// larger passes through the shared folder.
	MaxMessage = 4 << 20
	// StreamWindow and ConnWindow are the flow-control windows of both sides, in
	// bytes. Fixed ones bound what a peer can make the other buffer, and spare the
	// pings by which gRPC else measures the connection at every call.
	StreamWindow = 1 << 20
	ConnWindow   = MaxMessage
	// MaxState is the most state, in bytes, a question may carry.
	MaxState = 64 << 10
	// MaxRounds is how often one call may ask.
	MaxRounds = 10
	// MaxOrientation is the length limit of one orientation text, in characters.
	MaxOrientation = 2000

	// EnvShared names the real folder behind /shared to plugins and scripts;
	// EnvSharedLegacy is the name the first seed gives it.
	EnvShared       = "BULKHEAD_SHARED"
	EnvSharedLegacy = "ROCKBOT_SHARED_PATH"
)

// Handshake is frozen: the protocol's major version is in the proto package.
var Handshake = plugin.HandshakeConfig{
	ProtocolVersion:  1,
	MagicCookieKey:   "BULKHEAD_PLUGIN",
	MagicCookieValue: "4f0b7d0e6c7a4b0f9f0e2d8f6d1c5a39",
}

// ToolName is the pattern every tool name matches.
const ToolName = `^[A-Za-z0-9_-]{1,64}$`
