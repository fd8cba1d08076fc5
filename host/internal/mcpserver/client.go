package mcpserver

import (
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bulkhead-dev/bulkhead/host/internal/session"
)

// client is the library's view of one client on streams; those on HTTP have the
// library's own.
type client struct {
	session *session.Session
	notify  chan mcp.JSONRPCNotification
	ready   atomic.Bool

	mu           sync.Mutex
	info         mcp.Implementation
	capabilities mcp.ClientCapabilities
	level        mcp.LoggingLevel
	version      string
	seen         uint64 // version of the session list the client was told of
}

var (
	_ server.SessionWithClientInfo      = (*client)(nil)
	_ server.SessionWithLogging         = (*client)(nil)
	_ server.SessionWithProtocolVersion = (*client)(nil)
)

func (c *client) Initialize()       { c.ready.Store(true) }
func (c *client) Initialized() bool { return c.ready.Load() }
func (c *client) SessionID() string { return c.session.ID }
func (c *client) NotificationChannel() chan<- mcp.JSONRPCNotification {
	return c.notify
}

func (c *client) GetClientInfo() mcp.Implementation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info
}

func (c *client) SetClientInfo(i mcp.Implementation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.info = i
}

func (c *client) GetClientCapabilities() mcp.ClientCapabilities {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.capabilities
}

func (c *client) SetClientCapabilities(caps mcp.ClientCapabilities) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.capabilities = caps
}

func (c *client) SetLogLevel(l mcp.LoggingLevel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level = l
}

func (c *client) GetLogLevel() mcp.LoggingLevel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.level
}

func (c *client) ProtocolVersion() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

func (c *client) SetProtocolVersion(v string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = v
}

// newList reports, once, that the session's own list is another than the client
// was told of. A client of 2026-07-28 has none of its own.
func (c *client) newList() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	version := c.session.Version()
	news := version != c.seen && c.version != "" && !mcp.IsModernProtocol(c.version)
	c.seen = version
	return news
}
