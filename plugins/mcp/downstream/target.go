package downstream

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/hide"
)

// Kinds of transport.
const (
	Auto  = "auto"
	HTTP  = "http"
	SSE   = "sse"
	Stdio = "stdio"
)

// Eras of the protocol.
const (
	Modern = "modern" // 2026-07-28: every request stands alone
	Legacy = "legacy" // up to 2025-11-25: an initialize handshake first
)

// Target says where a server is and how to reach it.
type Target struct {
	Name      string
	Transport string
	// Known is what an earlier connect found, so that it need not be tried again.
	Known Known

	URL     string
	Headers map[string]string
	// AllowAddr, when set, says which addresses may be dialled; the check is on the
	// resolved address, and no proxy is used.
	AllowAddr func(netip.AddrPort) error

	Command []string
	Dir     string
	Env     map[string]string
	Walls   Walls
	pipes   *pipes // in a worker: of a program that runs
	// Secrets are never repeated in what this package says of the server.
	Secrets []string
	hide    *hide.Values
	// Isolated lets a process of its own do all the talking.
	Isolated bool

	// Asks are the kinds of questions that Events.Asked answers.
	Asks Asks
	// CallTimeout is the most one call may take; transports need a limit of their own.
	CallTimeout time.Duration
	// DiscoverTimeout is how long server/discover may stay unanswered.
	DiscoverTimeout time.Duration
	Log             *slog.Logger
	ClientVersion   string
}

// Known is what can be remembered of a server.
type Known struct {
	Transport string `json:"transport,omitempty"`
	Era       string `json:"era,omitempty"`
}

// Walls are what a program may reach.
type Walls struct {
	Profile    string // strict or none
	NoNetwork  bool
	Read       []string
	Write      []string
	Home       string // its own folder, writable
	SharedDir  string // real folder behind /shared
	DataMemory int64
}

// Change is a notice that something the server offers changed.
type Change string

// Kinds of change.
const (
	ToolsChanged     Change = "tools"
	PromptsChanged   Change = "prompts"
	ResourcesChanged Change = "resources"
)

// Events take what a server sends on its own; they must not block, but for Asked.
type Events struct {
	Changed         func(Change)
	ResourceUpdated func(uri string)
	// Asked answers an elicitation that comes on the connection; unlike the others
	// it may take its time. ctx is the context of the request it came with, if any.
	Asked func(ctx context.Context, params json.RawMessage) json.RawMessage
}

// closeTime is what ending a connection may take.
const closeTime = 5 * time.Second

func orDefault(d, other time.Duration) time.Duration {
	if d <= 0 {
		return other
	}
	return d
}

// detached is a context with the values of ctx that lives for d.
func detached(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}
