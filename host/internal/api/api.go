// Package api is the shapes of the HTTP API, shared by the server and by the
// command line that calls it over the control socket.
package api

import (
	"encoding/json"
	"time"
)

// Headers that say for whom a call is.
const (
	HeaderAgent     = "Bulkhead-Agent" // on the control socket only
	HeaderSession   = "Bulkhead-Session"
	HeaderRun       = "Bulkhead-Run"
	HeaderModelTier = "Bulkhead-Model-Tier"
)

// CallRequest is the body of POST /v1/tools/{name}/call.
type CallRequest struct {
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Session    string          `json:"session,omitempty"`
	Run        string          `json:"run,omitempty"`
	ModelTier  string          `json:"model_tier,omitempty"`
	TimeoutMs  int64           `json:"timeout_ms,omitempty"`
}

// CallResult is what every call answers.
type CallResult struct {
	ToolCallID string            `json:"tool_call_id"`
	ToolName   string            `json:"tool_name"`
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structured,omitempty"`
	IsError    bool              `json:"is_error"`
	Error      *Error            `json:"error,omitempty"`
	Questions  []string          `json:"questions,omitempty"` // open ones the call waits for
	Session    string            `json:"session,omitempty"`
	Files      []File            `json:"files,omitempty"` // those the content names, for GET /v1/files/{id}
}

// File is a file of a call's result. The id is good for the agent and the session
// of the call only.
type File struct {
	ID   string `json:"id"`
	Path string `json:"path"`
	Name string `json:"name,omitempty"`
	Size int64  `json:"size,omitempty"`
	Mime string `json:"mime,omitempty"`
}

// Error is the error of a call or of a request.
type Error struct {
	Code         string `json:"code"`
	Message      string `json:"message"`
	Retryable    bool   `json:"retryable"`
	Ref          string `json:"ref,omitempty"`
	RetryAfterMs int64  `json:"retry_after_ms,omitempty"`
}

func (e *Error) Error() string {
	if e.Ref == "" {
		return e.Message
	}
	return e.Message + " (" + e.Ref + ")"
}

// CallEvent is one line of a streamed call: progress and logs, then the result.
type CallEvent struct {
	Progress *Progress   `json:"progress,omitempty"`
	Log      *Log        `json:"log,omitempty"`
	Result   *CallResult `json:"result,omitempty"`
}

// Progress of a running call; Total is 0 when unknown.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
	Message  string  `json:"message,omitempty"`
}

// Log is one line a tool logged for its caller.
type Log struct {
	Level  string          `json:"level"`
	Logger string          `json:"logger,omitempty"`
	Data   json.RawMessage `json:"data"`
}

// Status is the host and its plugins.
type Status struct {
	Host     HostStatus     `json:"host"`
	Plugins  []PluginStatus `json:"plugins"`
	Warnings []string       `json:"warnings,omitempty"`
}

// HostStatus is the host's own part of Status.
type HostStatus struct {
	PID       int       `json:"pid"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Config    string    `json:"config,omitempty"`
	Doors     []string  `json:"doors"`
}

// PluginStatus is one plugin instance.
type PluginStatus struct {
	Name          string     `json:"name"`
	Binary        string     `json:"binary"`
	Version       string     `json:"version"`
	State         string     `json:"state"`
	Detail        string     `json:"detail,omitempty"`
	PID           int        `json:"pid"`
	Generation    uint64     `json:"generation"`
	Restarts      int        `json:"restarts"`
	Tools         int        `json:"tools"`
	InFlight      int        `json:"in_flight"`
	Queued        int        `json:"queued"`
	Sandbox       *Sandbox   `json:"sandbox"`
	LastError     string     `json:"last_error"`
	LastRef       string     `json:"last_ref,omitempty"`
	LastErrorAt   *time.Time `json:"last_error_at,omitempty"`
	Kept          *Kept      `json:"kept,omitempty"` // nil: the newest binary and config run
	Tail          []string   `json:"tail,omitempty"`
	MissingGrants []string   `json:"missing_grants,omitempty"`
	NextAttempt   *time.Time `json:"next_attempt,omitempty"`
	Refused       []string   `json:"refused,omitempty"`
}

// Kept says why an older generation of a plugin, or its older config, goes on.
type Kept struct {
	Reason string    `json:"reason"`
	Ref    string    `json:"ref"`
	Since  time.Time `json:"since"`
}

// Reloaded is the answer of POST /v1/reload.
type Reloaded struct {
	Status
	Notes []string `json:"notes"` // what of the config waits for the next start
}

// Sandbox is what holds a plugin.
type Sandbox struct {
	Profile string   `json:"profile"`
	Network string   `json:"network"`
	InForce []string `json:"in_force"`
	Missing []string `json:"missing,omitempty"`
}

// Tool is one tool of the registry.
type Tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Source       string          `json:"source"`
	Plugin       string          `json:"plugin"`
	Group        string          `json:"group"`
	Tier         string          `json:"tier"`
	Exposure     string          `json:"exposure"`
	Visibility   string          `json:"visibility"`
	InputSchema  json.RawMessage `json:"input_schema"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
	Note         string          `json:"note,omitempty"`
}

// Question is something that waits for a person, an agent or a model.
type Question struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind"`
	Agent      string          `json:"agent"`
	Session    string          `json:"session"`
	Tool       string          `json:"tool"`
	Message    string          `json:"message"`
	Schema     json.RawMessage `json:"schema,omitempty"`
	URL        string          `json:"url,omitempty"`
	Decision   bool            `json:"decision"`
	CallerGone bool            `json:"caller_gone"`
	CreatedAt  time.Time       `json:"created_at"`
	ExpiresAt  time.Time       `json:"expires_at"`
	Outcome    string          `json:"outcome"`
	AnsweredBy string          `json:"answered_by,omitempty"`
}

// Answer is the body of POST /v1/questions/{id}.
type Answer struct {
	Action  string          `json:"action"` // accept | decline | cancel | approve | deny
	Content json.RawMessage `json:"content,omitempty"`
	Scope   string          `json:"scope,omitempty"` // once
	Reason  string          `json:"reason,omitempty"`
}

// Guide is one guide; Markdown is empty in lists.
type Guide struct {
	Name     string `json:"name"`
	Summary  string `json:"summary"`
	Plugin   string `json:"plugin"`
	Markdown string `json:"markdown,omitempty"`
}

// InboxItem is one entry of a session's inbox.
type InboxItem struct {
	Seq  uint64          `json:"seq"`
	At   time.Time       `json:"at"`
	Kind string          `json:"kind"`
	Text string          `json:"text"`
	Data json.RawMessage `json:"data,omitempty"`
}

// AgentStatus is what an agent that is no approver sees of the host.
type AgentStatus struct {
	Host    AgentHost     `json:"host"`
	Plugins []AgentPlugin `json:"plugins"`
}

// AgentHost is the host's own part of AgentStatus.
type AgentHost struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
}

// AgentPlugin is a plugin of which the agent may call Tools tools.
type AgentPlugin struct {
	Name        string     `json:"name"`
	Version     string     `json:"version"`
	State       string     `json:"state"`
	Tools       int        `json:"tools"`
	NextAttempt *time.Time `json:"next_attempt,omitempty"`
}

// Turn is the body of POST /v1/sessions/{id}/turns.
type Turn struct {
	Role   string `json:"role"` // user | assistant | system | tool
	Text   string `json:"text"`
	Author string `json:"author,omitempty"`
}

// Turns says how many turns the host keeps of a session.
type Turns struct {
	Session string `json:"session"`
	Turns   int    `json:"turns"`
}

// Context is what belongs into the prompt of a session's next turn.
type Context struct {
	Orientation []string          `json:"orientation"`
	Hints       []json.RawMessage `json:"hints"`
	Inbox       []InboxItem       `json:"inbox"`
}

// AuditRow is one line of the audit trail.
type AuditRow struct {
	Seq          uint64          `json:"seq"`
	At           time.Time       `json:"at"`
	CallID       string          `json:"call_id"`
	ParentCallID string          `json:"parent_call_id,omitempty"`
	Agent        string          `json:"agent"`
	Session      string          `json:"session"`
	Tool         string          `json:"tool"`
	Plugin       string          `json:"plugin"`
	Tier         string          `json:"tier"`
	Door         string          `json:"door"`
	Status       string          `json:"status"`
	Ref          string          `json:"ref,omitempty"`
	DurationMs   int64           `json:"duration_ms"`
	ArgsHash     string          `json:"args_hash"`
	ArgsBytes    int64           `json:"args_bytes"`
	ResultBytes  int64           `json:"result_bytes"`
	Arguments    json.RawMessage `json:"arguments,omitempty"`
	Result       string          `json:"result,omitempty"`
	Note         string          `json:"note,omitempty"`
}
