// Package anthropic speaks the Messages API, streaming. Its SDK brings a hundred
// modules for what is one request here.
package anthropic

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/llm/chat"
	"github.com/bulkhead-dev/bulkhead/plugins/llm/wire"
)

// BaseURL is where the API is.
const BaseURL = "https://api.anthropic.com"

const (
	version    = "2023-06-01"
	usualLimit = 4096    // tokens of an answer; the API wants a number
	maxEvent   = 8 << 20 // bytes of one event
)

// Provider is the API at an address.
type Provider struct {
	Base, Key string
	Wire      *wire.Client
}

type block struct {
	Type   string  `json:"type"`
	Text   string  `json:"text,omitempty"`
	Source *source `json:"source,omitempty"`
	// Of tool_use and tool_result.
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

type source struct {
	Type  string `json:"type"`
	Media string `json:"media_type"`
	Data  []byte `json:"data"` // base64 in JSON
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

type request struct {
	Model     string          `json:"model"`
	MaxTokens int             `json:"max_tokens"`
	System    string          `json:"system,omitempty"`
	Messages  []message       `json:"messages"`
	Tools     []tool          `json:"tools,omitempty"`
	Choice    *choice         `json:"tool_choice,omitempty"`
	Format    *outputSettings `json:"output_config,omitempty"`
	Stream    bool            `json:"stream"`
}

type outputSettings struct {
	Format struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	} `json:"format"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type choice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

func build(model string, r *chat.Request) (*request, error) {
	out := &request{Model: model, MaxTokens: r.MaxTokens, Stream: true}
	if out.MaxTokens == 0 {
		out.MaxTokens = usualLimit
	}
	for _, m := range r.Messages {
		role := m.Role
		if role == "tool" {
			role = "user"
		}
		var blocks []block
		for _, p := range m.Content {
			switch p.Type {
			case chat.Text:
				if m.Role == "system" {
					out.System = strings.TrimPrefix(out.System+"\n\n"+p.Text, "\n\n")
				} else if p.Text != "" { // an empty block is refused
					blocks = append(blocks, block{Type: "text", Text: p.Text})
				}
			case chat.Image:
				blocks = append(blocks, block{Type: "image", Source: &source{"base64", p.MIME, p.Data}})
			case chat.ToolCall:
				blocks = append(blocks, block{Type: "tool_use", ID: p.ID, Name: p.Name, Input: object(p.Arguments)})
			case chat.ToolResult:
				blocks = append(blocks, block{Type: "tool_result", ToolUseID: p.ID, Content: p.Text, IsError: p.IsError})
			default:
				return nil, fmt.Errorf("this provider takes no content of type %s", p.Type)
			}
		}
		if len(blocks) == 0 {
			continue
		}
		// Turns of one role follow each other in other APIs; here they are one.
		if n := len(out.Messages); n > 0 && out.Messages[n-1].Role == role {
			out.Messages[n-1].Content = append(out.Messages[n-1].Content, blocks...)
		} else {
			out.Messages = append(out.Messages, message{role, blocks})
		}
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, tool(t))
	}
	switch r.Choice {
	case "", "auto":
	case "none":
		out.Choice = &choice{Type: "none"}
	case "required":
		out.Choice = &choice{Type: "any"}
	default:
		out.Choice = &choice{Type: "tool", Name: r.Choice}
	}
	if len(r.Schema) > 0 {
		out.Format = &outputSettings{}
		out.Format.Format.Type, out.Format.Format.Schema = "json_schema", r.Schema
	}
	return out, nil
}

func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// Generate asks a model.
func (p *Provider) Generate(ctx context.Context, model string, r *chat.Request, delta func(string)) (chat.Answer, error) {
	req, err := build(model, r)
	if err != nil {
		return chat.Answer{}, err
	}
	raw, err := json.Marshal(req)
	if err != nil {
		return chat.Answer{}, err
	}
	h, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(p.Base, "/")+"/v1/messages", bytes.NewReader(raw))
	if err != nil {
		return chat.Answer{}, err
	}
	h.Header.Set("Content-Type", "application/json")
	h.Header.Set("Accept", "text/event-stream")
	h.Header.Set("Anthropic-Version", version)
	h.Header.Set("X-Api-Key", p.Key)
	resp, err := p.Wire.Do(h)
	if err != nil {
		return chat.Answer{}, err
	}
	defer resp.Body.Close()
	return readStream(resp.Body, delta)
}

// Embed is not part of this API.
func (p *Provider) Embed(context.Context, string, []string) ([][]float32, error) {
	return nil, errors.New("this provider has no embeddings")
}

type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	Block struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Text  string          `json:"text"`
		Input json.RawMessage `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Partial string `json:"partial_json"`
		Stop    string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage `json:"usage"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

type usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Read   int64 `json:"cache_read_input_tokens"`
	Made   int64 `json:"cache_creation_input_tokens"`
}

// overloaded is the status that stands for an error event.
var overloaded = map[string]int{"overloaded_error": 529, "api_error": 500, "rate_limit_error": 429, "invalid_request_error": 400, "authentication_error": 401}

func readStream(from io.Reader, delta func(string)) (a chat.Answer, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxEvent)
	var text strings.Builder
	calls := map[int]*strings.Builder{} // arguments by block
	order := map[int]int{}              // its call in a.Calls
	begun := false
	fail := func(status int, message string) (chat.Answer, error) {
		return a, &chat.Failure{Status: status, Message: message, Begun: begun}
	}
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fail(0, "the provider's stream can't be read")
		}
		switch e.Type {
		case "message_start":
			u := e.Message.Usage
			a.Model, a.Usage.Input, a.Usage.Output = e.Message.Model, u.Input+u.Read+u.Made, u.Output
		case "content_block_start":
			if e.Block.Type == "tool_use" {
				order[e.Index], calls[e.Index] = len(a.Calls), &strings.Builder{}
				a.Calls = append(a.Calls, chat.Call{ID: e.Block.ID, Name: e.Block.Name})
			}
		case "content_block_delta":
			begun = true
			switch e.Delta.Type {
			case "text_delta":
				text.WriteString(e.Delta.Text)
				delta(e.Delta.Text)
			case "input_json_delta":
				if c := calls[e.Index]; c != nil {
					c.WriteString(e.Delta.Partial)
				}
			}
		case "message_delta":
			a.Finish = finishes[e.Delta.Stop]
			if e.Usage.Output > 0 {
				a.Usage.Output = e.Usage.Output
			}
		case "message_stop":
			a.Text = text.String()
			for index, b := range calls {
				a.Calls[order[index]].Arguments = chat.Arguments(b.String())
			}
			return a, nil
		case "error":
			return fail(overloaded[e.Error.Type], e.Error.Message)
		}
	}
	var f *chat.Failure
	switch err := lines.Err(); {
	case errors.As(err, &f):
		f.Begun = f.Begun || begun
		return a, f
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return a, err
	case err != nil:
		return fail(0, err.Error())
	}
	return fail(0, "the provider's stream ended before the answer did")
}

var finishes = map[string]string{"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls", "refusal": "filter", "pause_turn": "stop", "model_context_window_exceeded": "length"}
