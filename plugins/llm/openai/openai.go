// Package openai speaks the chat API of OpenAI, which OpenRouter, Ollama, vLLM, LM
// Studio and others have too. The request is written here, so that schemas stay the
// bytes they are; connection, stream and answers are the official client's.
package openai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/bulkhead-dev/bulkhead/plugins/llm/chat"
	"github.com/bulkhead-dev/bulkhead/plugins/llm/wire"
)

// BaseURL is where OpenAI's own API is.
const BaseURL = "https://api.openai.com/v1"

// Provider is the API at an address.
type Provider struct{ client openai.Client }

// New makes a provider. Retries are the caller's.
func New(base, key string, w *wire.Client) *Provider {
	return &Provider{openai.NewClient(option.WithBaseURL(strings.TrimSuffix(base, "/")+"/"), option.WithAPIKey(key),
		option.WithHTTPClient(w), option.WithMaxRetries(0))}
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content,omitempty"`
	Calls   []call          `json:"tool_calls,omitempty"`
	CallID  string          `json:"tool_call_id,omitempty"`
}

type call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Arguments   *string         `json:"arguments,omitempty"`
}

type part struct {
	Type  string      `json:"type"`
	Text  string      `json:"text,omitempty"`
	Image *imageURL   `json:"image_url,omitempty"`
	Audio *inputAudio `json:"input_audio,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type inputAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type request struct {
	Model     string          `json:"model"`
	Messages  []message       `json:"messages"`
	Tools     []toolParam     `json:"tools,omitempty"`
	Choice    json.RawMessage `json:"tool_choice,omitempty"`
	Format    *format         `json:"response_format,omitempty"`
	MaxTokens int             `json:"max_completion_tokens,omitempty"`
	Stream    bool            `json:"stream"`
	Options   struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type toolParam struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type format struct {
	Type   string `json:"type"`
	Schema struct {
		Name   string          `json:"name"`
		Strict bool            `json:"strict"`
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

func build(model string, r *chat.Request) ([]byte, error) {
	out := request{Model: model, MaxTokens: r.MaxTokens, Stream: true}
	out.Options.Usage = true
	for _, m := range r.Messages {
		all, err := messages(m)
		if err != nil {
			return nil, err
		}
		out.Messages = append(out.Messages, all...)
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, toolParam{"function", function{Name: t.Name, Description: t.Description, Parameters: t.InputSchema}})
	}
	switch r.Choice {
	case "":
	case "auto", "none", "required":
		out.Choice = quoted(r.Choice)
	default:
		out.Choice = json.RawMessage(`{"type":"function","function":{"name":` + string(quoted(r.Choice)) + `}}`)
	}
	if len(r.Schema) > 0 {
		out.Format = &format{Type: "json_schema"}
		out.Format.Schema.Name, out.Format.Schema.Strict, out.Format.Schema.Schema = "answer", true, r.Schema
	}
	return json.Marshal(out)
}

// messages are those one turn becomes: each result of a tool is one of its own.
func messages(m chat.Message) (all []message, err error) {
	var parts []part
	var calls []call
	plain := true
	for _, p := range m.Content {
		switch p.Type {
		case chat.Text:
			parts = append(parts, part{Type: "text", Text: p.Text})
		case chat.Image:
			plain = false
			parts = append(parts, part{Type: "image_url", Image: &imageURL{"data:" + p.MIME + ";base64," + base64.StdEncoding.EncodeToString(p.Data)}})
		case chat.Audio:
			plain = false
			parts = append(parts, part{Type: "input_audio", Audio: &inputAudio{base64.StdEncoding.EncodeToString(p.Data), strings.TrimPrefix(strings.TrimPrefix(p.MIME, "audio/"), "x-")}})
		case chat.ToolCall:
			arguments := "{}"
			if len(p.Arguments) > 0 {
				arguments = string(p.Arguments)
			}
			calls = append(calls, call{p.ID, "function", function{Name: p.Name, Arguments: &arguments}})
		case chat.ToolResult:
			text := p.Text
			if p.IsError {
				text = "Error: " + text
			}
			all = append(all, message{Role: "tool", CallID: p.ID, Content: quoted(text)})
		default:
			return nil, fmt.Errorf("there is no content of type %q", p.Type)
		}
	}
	if len(parts) == 0 && len(calls) == 0 {
		return all, nil
	}
	out := message{Role: m.Role, Calls: calls}
	switch {
	case len(parts) == 0:
	case plain: // as a string, which every server reads
		var texts []string
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
		out.Content = quoted(strings.Join(texts, "\n\n"))
	default:
		if out.Content, err = json.Marshal(parts); err != nil {
			return nil, err
		}
	}
	return append(all, out), nil
}

func quoted(s string) json.RawMessage {
	raw, err := json.Marshal(s)
	if err != nil { // a string: can't fail
		panic(err)
	}
	return raw
}

// Generate asks a model.
func (p *Provider) Generate(ctx context.Context, model string, r *chat.Request, delta func(string)) (chat.Answer, error) {
	raw, err := build(model, r)
	if err != nil {
		return chat.Answer{}, err
	}
	stream := p.client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{}, option.WithRequestBody("application/json", raw))
	defer stream.Close()
	var a chat.Answer
	var text strings.Builder
	type building struct {
		id, name  string
		arguments strings.Builder
	}
	var calls []*building
	begun := false
	for stream.Next() {
		chunk := stream.Current()
		if chunk.Model != "" {
			a.Model = chunk.Model
		}
		if u := chunk.Usage; u.PromptTokens+u.CompletionTokens > 0 {
			a.Usage = chat.Usage{Input: u.PromptTokens, Output: u.CompletionTokens}
		}
		if len(chunk.Choices) == 0 {
			continue
		}
		c := chunk.Choices[0]
		if c.FinishReason != "" {
			a.Finish = finish(c.FinishReason)
		}
		if t := c.Delta.Content + c.Delta.Refusal; t != "" {
			begun = true
			text.WriteString(t)
			delta(t)
		}
		for _, tc := range c.Delta.ToolCalls {
			begun = true
			if tc.Index < 0 || tc.Index > 127 {
				return a, &chat.Failure{Message: "the provider numbers a call of a tool oddly", Begun: true}
			}
			for int(tc.Index) >= len(calls) {
				calls = append(calls, &building{})
			}
			b := calls[tc.Index]
			b.id, b.name = b.id+tc.ID, b.name+tc.Function.Name
			b.arguments.WriteString(tc.Function.Arguments)
		}
	}
	if err := stream.Err(); err != nil {
		return a, failure(err, begun)
	}
	if a.Finish == "" {
		return a, &chat.Failure{Message: "the provider's stream ended before the answer did", Begun: begun}
	}
	a.Text = text.String()
	for _, b := range calls {
		if b.name != "" {
			a.Calls = append(a.Calls, chat.Call{ID: b.id, Name: b.name, Arguments: chat.Arguments(b.arguments.String())})
		}
	}
	return a, nil
}

func finish(reason string) string {
	switch reason {
	case "function_call":
		return "tool_calls"
	case "content_filter":
		return "filter"
	}
	return reason
}

// failure finds what was said beneath the client's own words.
func failure(err error, begun bool) error {
	var f *chat.Failure
	switch {
	case errors.As(err, &f):
		f.Begun = f.Begun || begun
		return f
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &chat.Failure{Message: "the provider's answer can't be read: " + clip(err.Error()), Begun: begun}
}

func clip(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}

// Embed turns texts into vectors.
func (p *Provider) Embed(ctx context.Context, model string, texts []string) ([][]float32, error) {
	raw, err := json.Marshal(map[string]any{"model": model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	var out struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := p.client.Post(ctx, "embeddings", json.RawMessage(raw), &out); err != nil {
		return nil, failure(err, false)
	}
	all := make([][]float32, len(texts))
	for _, d := range out.Data {
		if d.Index < 0 || d.Index >= len(all) || len(d.Embedding) == 0 {
			return nil, &chat.Failure{Message: "the provider's vectors do not fit the texts"}
		}
		all[d.Index] = d.Embedding
	}
	for i, v := range all {
		if v == nil {
			return nil, &chat.Failure{Message: fmt.Sprintf("the provider gave no vector for text %d", i)}
		}
	}
	return all, nil
}
