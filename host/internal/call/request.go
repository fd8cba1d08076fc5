package call

import (
	"context"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Caller is who calls, as the host knows it; nothing in it came from the caller
// unchecked.
type Caller struct {
	Agent     *policy.Agent
	Session   *session.Session // nil: the caller has none, as a plugin acting as itself
	Run       string
	ModelTier string // low | balanced | high
	Door      string // cli | http | mcp | plugin
	CanElicit bool   // the client can be asked while it waits
}

// Request is one call as a door hands it in.
type Request struct {
	Caller
	Tool       string
	Arguments  []byte // JSON object as sent; empty is {}
	ToolCallID string // the caller's own id, echoed; empty: the host's id
	Timeout    time.Duration
	Kind       pluginv1.InvokeRequest_Kind
	Completion *pluginv1.CompletionTarget
	Owner      string // for kinds other than tool: the plugin asked

	Raw      bool // results are never shaped
	Internal bool // the operator may call internal tools
	// Hold is how long the caller waits for a question to be answered before it
	// is told to come back. Zero answers at once.
	Hold time.Duration
	// Capable says whether the caller's own client can settle a kind of question,
	// where nobody else may; nil: it can settle all.
	Capable func(kind string) bool
	// Asked, if not nil, hears of the questions the call waits for. It must not block.
	Asked func(context.Context, []store.Question)
	// Events, if not nil, hears progress, logs and partial results in order, from
	// one goroutine, before Call returns.
	Events      func(*pluginv1.InvokeEvent)
	TraceParent string
	LogLevel    string
}

// Reply is the end of a call. Result is never nil; a failure is a result with
// IsError and Error set.
type Reply struct {
	CallID     string
	ToolCallID string
	Tool       string // resolved name
	Result     *pluginv1.Result
	Questions  []store.Question // open ones the call waits for
	Returned   bool             // Result is what the tool itself returned, an error perhaps
}

// Failed turns an error into the result every caller understands.
func Failed(err error) *pluginv1.Result { return fault.From(err).Result() }

// Text makes a plain result of one text.
func Text(s string) *pluginv1.Result {
	return &pluginv1.Result{Content: []*pluginv1.Content{{Block: &pluginv1.Content_Text{Text: s}}}}
}
