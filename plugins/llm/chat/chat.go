// Package chat is a request to a model and its answer, in the terms of llm_generate
// and of no provider. Schemas and arguments stay the bytes they came as.
package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Kinds of content.
const (
	Text       = "text"
	Image      = "image"
	Audio      = "audio"
	ToolCall   = "tool_call"
	ToolResult = "tool_result"
)

// Request is what a model is asked.
type Request struct {
	Messages  []Message
	Tools     []Tool
	Choice    string // auto, none, required, or the name of a tool; "" = auto
	Schema    json.RawMessage
	MaxTokens int // of the answer; 0 = the model's own limit
}

// Message is one turn.
type Message struct {
	Role    string `json:"role"` // system, user, assistant or tool
	Content Parts  `json:"content"`
}

// Part is a piece of a turn.
type Part struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"` // of text, and of tool_result
	Path string `json:"path,omitempty"` // of image and audio, in the shared folder
	// Of tool_call, and id of tool_result.
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`

	MIME string `json:"-"` // of Data
	Data []byte `json:"-"` // of image and audio, read from Path
}

// Parts are the content of a turn; a text alone may be written as a string.
type Parts []Part

// UnmarshalJSON reads a string or an array of parts.
func (p *Parts) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*p = Parts{{Type: Text, Text: text}}
		return nil
	}
	var all []Part
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	*p = all
	return nil
}

// Tool is what a model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// Answer is what a model said.
type Answer struct {
	Text   string
	Calls  []Call
	Finish string // stop, length, tool_calls or filter
	Model  string
	Usage  Usage
}

// Call is a tool that the model wants called.
type Call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object
}

// Usage counts tokens.
type Usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// Provider speaks to a model. delta takes the answer's text as it comes. Errors are
// *Failure where the provider said something.
type Provider interface {
	Generate(ctx context.Context, model string, r *Request, delta func(string)) (Answer, error)
	Embed(ctx context.Context, model string, texts []string) ([][]float32, error)
}

// Failure is a refusal of a provider.
type Failure struct {
	Status  int    // of HTTP; 0 = the connection failed
	Message string // free of secrets
	After   time.Duration
	// Begun says that part of the answer came before.
	Begun bool
}

func (f *Failure) Error() string {
	if f.Status == 0 {
		return f.Message
	}
	return fmt.Sprintf("HTTP %d: %s", f.Status, f.Message)
}

// Again reports whether the same request may succeed later.
func (f *Failure) Again() bool {
	return !f.Begun && (f.Status == 0 || f.Status == 408 || f.Status == 409 || f.Status == 429 || f.Status >= 500)
}

// Arguments are a model's words for the arguments of a call, made an object: what can't
// be read stays as text under one key, so that whoever called can tell the model.
func Arguments(raw string) json.RawMessage {
	var object map[string]json.RawMessage
	if raw == "" {
		return json.RawMessage("{}")
	}
	if json.Unmarshal([]byte(raw), &object) == nil && object != nil {
		return json.RawMessage(raw)
	}
	odd, err := json.Marshal(map[string]string{"unreadable": raw})
	if err != nil { // a string: can't fail
		panic(err)
	}
	return odd
}
