package httpapi

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/mcpserver"
)

// mcpHTTP is MCP's Streamable HTTP transport.
func (a *API) mcpHTTP(w http.ResponseWriter, r *http.Request, who who) {
	if r.Method == http.MethodGet && r.Header.Get(server.HeaderKeySessionID) == "" {
		// A client that looks for the transport of 2024: only this status tells it,
		// without an alarm, that there is none.
		w.Header().Set("Allow", "POST, DELETE")
		http.Error(w, "a stream belongs to a session: initialize by POST first", http.StatusMethodNotAllowed)
		return
	}
	if r.Method == http.MethodGet {
		if err := who.hand.lasts(); err != nil {
			fail(w, err)
			return
		}
	}
	a.MCP.ServeHTTP(w, r, mcpserver.Caller{Agent: who.agent, Session: r.PathValue("id"), Lasts: who.hand.lasts})
}

// mcp turns the connection into a stream of MCP messages, for a client that
// speaks stdio to `bulkhead mcp`.
func (a *API) mcp(w http.ResponseWriter, r *http.Request, who who) {
	s, err := a.Sessions.Open(r.Context(), who.agent, r.Header.Get(api.HeaderSession))
	if err != nil {
		fail(w, err)
		return
	}
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		fail(w, err)
		return
	}
	defer c.Close()
	if err := c.SetDeadline(time.Time{}); err != nil {
		return
	}
	if _, err := c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mcp\r\n\r\n")); err != nil {
		return
	}
	stop := contextClose(r.Context(), c)
	defer stop()
	// The server's own reader ends the request's context with its input, and what
	// is in flight would get no answer: only what it holds already comes from it.
	early, err := buffered.Peek(buffered.Reader.Buffered())
	if err != nil {
		return
	}
	in := io.MultiReader(bytes.NewReader(early), c)
	if err := a.MCP.Serve(r.Context(), who.agent, s, in, c); err != nil {
		a.Log.Debug("an MCP client left", "session", s.ID, "error", err)
	}
}

// contextClose closes c when ctx ends, so that a blocked read returns.
func contextClose(ctx context.Context, c net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.Close() })
}
