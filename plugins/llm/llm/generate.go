package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/llm/account"
	"github.com/bulkhead-dev/bulkhead/plugins/llm/chat"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	mostMessages = 2000
	mostTools    = 512
	mostMedia    = 20
	openCalls    = 4 // of an agent with a budget, so that it goes over it by little
	longestWait  = 30 * time.Second
	endTime      = 5 * time.Second
)

type generateArgs struct {
	ModelTier string          `json:"model_tier,omitempty" doc:"low, balanced or high; balanced without it."`
	Messages  json.RawMessage `json:"messages" doc:"Turns: {role: system, user, assistant or tool; content: a text, or parts of type text, image, audio, tool_call, tool_result}."`
	Tools     json.RawMessage `json:"tools,omitempty" doc:"What the model may call: {name, description, input_schema}."`
	Choice    string          `json:"tool_choice,omitempty" doc:"auto, none, required, or a tool's name."`
	Schema    json.RawMessage `json:"response_schema,omitempty" doc:"JSON Schema that the answer's text is to fit."`
	MaxTokens int             `json:"max_output_tokens,omitempty"`
	Purpose   string          `json:"purpose,omitempty" doc:"What it is for, in a few words; for the log."`
}

// generated is the result of llm_generate.
type generated struct {
	Message   string      `json:"message"`
	Calls     []chat.Call `json:"tool_calls"`
	Usage     usage       `json:"usage"`
	Model     string      `json:"model"`
	TierUsed  string      `json:"model_tier_used"`
	Finish    string      `json:"finish_reason"`
	Exchanged string      `json:"substituted,omitempty"` // why another tier answered
}

type usage struct {
	chat.Usage
	Cost float64 `json:"cost"`
}

func (g *gateway) generateTool() *sdk.Tool {
	return sdk.RawTool("llm_generate", "Asks a language model. The answer's text comes as it is written.", generateSchema, g.generate,
		sdk.WithTitle("Ask a model"), sdk.WithTier(sdk.Standard), sdk.WithGroup("llm"), sdk.WithSource("llm"), sdk.Internal(), sdk.Unshaped(), sdk.WithTimeout(15*time.Minute))
}

var generateSchema = json.RawMessage(`{"type":"object","required":["messages"],"additionalProperties":false,"properties":{
"model_tier":{"type":"string","enum":["low","balanced","high"],"description":"Tier of the model; balanced without it."},
"messages":{"type":"array","minItems":1,"items":{"type":"object"},"description":"Turns: {role: system, user, assistant or tool, content: a text, or parts of type text {text}, image and audio {path}, tool_call {id, name, arguments}, tool_result {id, text, is_error}}."},
"tools":{"type":"array","items":{"type":"object"},"description":"What the model may call: {name, description, input_schema}."},
"tool_choice":{"type":"string","description":"auto, none, required, or a tool's name."},
"response_schema":{"type":"object","description":"JSON Schema that the answer's text is to fit."},
"max_output_tokens":{"type":"integer","minimum":1},
"purpose":{"type":"string","description":"What it is for, in a few words; for the log."}}}`)

func (g *gateway) generate(ctx context.Context, call *sdk.Call) (sdk.Result, error) {
	a := g.active.Load()
	var in generateArgs
	dec := json.NewDecoder(bytes.NewReader(call.Arguments))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "the arguments can't be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	r, err := in.request()
	if err != nil {
		return sdk.Result{}, err
	}
	if in.ModelTier == "" {
		in.ModelTier = "balanced"
	}
	sees, hears := r.needs()
	order, why, err := a.route(in.ModelTier, sees, hears)
	if err != nil {
		return sdk.Result{}, err
	}
	if err := g.load(r, a); err != nil {
		return sdk.Result{}, err
	}
	agent := payer(call)
	if err := g.book.Begin(ctx, agent, a.budget(agent), openCalls); err != nil {
		return sdk.Result{}, spent(err)
	}
	limit, cancel := context.WithTimeoutCause(ctx, a.Timeout.Std(), errSlow)
	defer cancel()
	answer, m, used, err := a.ask(limit, order, &r.Request, func(text string) { call.Partial(sdk.Text(text)) })
	// What was used is counted although nobody waits any more.
	end, done := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer done()
	if booked := g.book.End(end, agent, used); booked != nil {
		call.Logger().Warn("what a call used is not counted", "agent", agent, "error", booked)
	}
	if err != nil {
		return sdk.Result{}, told(ctx, limit, m, err)
	}
	call.Logger().Debug("a model answered", "agent", agent, "purpose", in.Purpose, "model", answer.Model, "tier", m.Tier, "input_tokens", answer.Usage.Input, "output_tokens", answer.Usage.Output)
	if m.Tier != in.ModelTier && why == "" {
		why = fmt.Sprintf("the provider of tier %s failed", in.ModelTier)
	}
	if m.Tier == in.ModelTier {
		why = ""
	}
	out := generated{Message: answer.Text, Calls: answer.Calls, Usage: usage{answer.Usage, used.Cost()}, Model: answer.Model, TierUsed: m.Tier, Finish: answer.Finish, Exchanged: why}
	if out.Calls == nil {
		out.Calls = []chat.Call{}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return sdk.Result{}, err
	}
	return sdk.Result{Content: []sdk.Content{sdk.Text(answer.Text)}, Structured: raw}, nil
}

// payer is whose budget a call uses: the agent's, or that of the plugin that calls
// for itself.
func payer(call *sdk.Call) string {
	switch {
	case call.Agent != "":
		return call.Agent
	case len(call.Chain) > 0:
		return "plugin " + call.Chain[0]
	}
	return "plugin"
}

func spent(err error) error {
	var s *account.Spent
	if errors.As(err, &s) {
		return sdk.Errorf(sdk.Denied, "%v", s).After(max(time.Until(s.Again), time.Second))
	}
	return sdk.Errorf(sdk.Unavailable, "%w", err).After(time.Second)
}

// request is a checked request with the media it names.
type request struct {
	chat.Request
	media []*chat.Part
}

func (in *generateArgs) request() (*request, error) {
	bad := func(format string, args ...any) (*request, error) {
		return nil, sdk.Errorf(sdk.InvalidArguments, format, args...)
	}
	r := &request{Request: chat.Request{Choice: in.Choice, Schema: in.Schema, MaxTokens: in.MaxTokens}}
	if err := json.Unmarshal(in.Messages, &r.Messages); err != nil {
		return bad("messages can't be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if len(in.Tools) > 0 {
		if err := json.Unmarshal(in.Tools, &r.Tools); err != nil {
			return bad("tools can't be read: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
	}
	if string(in.Schema) == "null" {
		r.Schema = nil
	}
	if len(r.Messages) == 0 || len(r.Messages) > mostMessages || len(r.Tools) > mostTools {
		return bad("1 to %d messages and at most %d tools are taken", mostMessages, mostTools)
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		if !slices.Contains([]string{"system", "user", "assistant", "tool"}, m.Role) {
			return bad("messages[%d]: the role is system, user, assistant or tool, not %q", i, m.Role)
		}
		for j := range m.Content {
			p := &m.Content[j]
			switch p.Type {
			case chat.Text:
			case chat.Image, chat.Audio:
				if m.Role != "user" {
					return bad("messages[%d]: only a user's turn holds images and recordings", i)
				}
				if p.Path == "" {
					return bad("messages[%d].content[%d] has no path", i, j)
				}
				r.media = append(r.media, p)
			case chat.ToolCall, chat.ToolResult:
				if p.ID == "" || (p.Type == chat.ToolCall) != (m.Role == "assistant") {
					return bad("messages[%d].content[%d]: a tool_call with its id stands in an assistant's turn, a tool_result in a tool's", i, j)
				}
			default:
				return bad("messages[%d].content[%d]: the type is text, image, audio, tool_call or tool_result, not %q", i, j, p.Type)
			}
		}
	}
	if len(r.media) > mostMedia {
		return bad("at most %d images and recordings are taken", mostMedia)
	}
	for i, t := range r.Tools {
		if t.Name == "" || !bytes.HasPrefix(bytes.TrimSpace(t.InputSchema), []byte("{")) {
			return bad("tools[%d] has no name, or no object as input_schema", i)
		}
	}
	return r, nil
}

// needs says whether a model must see or hear for this.
func (r *request) needs() (sees, hears bool) {
	for _, p := range r.media {
		sees, hears = sees || p.Type == chat.Image, hears || p.Type == chat.Audio
	}
	return sees, hears
}

// chars are the characters of the texts.
func (r *request) chars() (n int) {
	for _, m := range r.Messages {
		for _, p := range m.Content {
			n += len(p.Text) + len(p.Arguments)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Description) + len(t.InputSchema)
	}
	return n
}

// route gives the models to ask, in order, and why the first is none of the tier that
// was wanted. What holds an image never goes to a model that does not see.
func (a *active) route(tier string, sees, hears bool) (order []*model, why string, err error) {
	able := func(t string) *model {
		m := a.models[t]
		if m == nil || (sees && !m.ImageInput) || (hears && !m.AudioInput) {
			return nil
		}
		return m
	}
	for _, t := range standIns[tier] {
		m := able(t)
		if m == nil {
			continue
		}
		if t != tier {
			why = fmt.Sprintf("there is no model of tier %s", tier)
			if a.models[tier] != nil {
				why = fmt.Sprintf("the model of tier %s takes no such input", tier)
			}
		}
		order = append(order, m)
		for _, f := range m.Fallback {
			if x := able(f); x != nil && !slices.Contains(order, x) {
				order = append(order, x)
			}
		}
		return order, why, nil
	}
	what := "model is configured"
	switch {
	case len(a.models) == 0:
	case hears && sees:
		what = "configured model takes images and recordings"
	case sees:
		what = "configured model takes images"
	case hears:
		what = "configured model takes recordings"
	}
	return nil, "", sdk.Errorf(sdk.Unavailable, "no %s; the operator adds one by a block model \"%s\" of plugin llm", what, tier)
}

// load reads the media from the shared folder, by what they are and not by their name.
func (g *gateway) load(r *request, a *active) error {
	if n := r.chars(); n > a.longest() {
		return sdk.Errorf(sdk.TooLarge, "the request has %d characters; the largest model here takes %d", n, a.longest())
	}
	for _, p := range r.media {
		raw, err := g.plugin.Shared().ReadFile(p.Path, int64(a.MaxImage))
		if err != nil {
			return err
		}
		p.MIME, _, _ = strings.Cut(http.DetectContentType(raw), ";")
		if p.MIME == "audio/wave" {
			p.MIME = "audio/wav"
		}
		want := []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
		if p.Type == chat.Audio {
			want = []string{"audio/wav", "audio/mpeg", "audio/mp3"}
		}
		if !slices.Contains(want, p.MIME) {
			return sdk.Errorf(sdk.InvalidArguments, "%q is %s; one of %s is taken", p.Path, p.MIME, strings.Join(want, ", "))
		}
		if p.MIME == "audio/mpeg" {
			p.MIME = "audio/mp3"
		}
		p.Data = raw
	}
	return nil
}

func (a *active) longest() (n int) {
	for _, m := range a.models {
		n = max(n, m.ContextChars)
	}
	return n
}

var errSlow = errors.New("the time for an answer is over")

// ask asks the models in order until one answers. A model is asked again while its
// provider is busy; the next one only when it has said nothing yet.
func (a *active) ask(ctx context.Context, order []*model, r *chat.Request, delta func(string)) (answer chat.Answer, m *model, used account.Used, err error) {
	for _, m = range order {
		for try := 0; ; try++ {
			sent := *r
			if m.MaxTokens > 0 && (sent.MaxTokens == 0 || sent.MaxTokens > m.MaxTokens) {
				sent.MaxTokens = m.MaxTokens
			}
			answer, err = a.speaks[m.Tier].Generate(ctx, m.Model, &sent, delta)
			u := m.used(answer.Usage)
			used.Calls, used.Input, used.Output, used.Micros = used.Calls+1, used.Input+u.Input, used.Output+u.Output, used.Micros+u.Micros
			if err == nil {
				if answer.Model == "" {
					answer.Model = m.Model
				}
				return answer, m, used, nil
			}
			var f *chat.Failure
			if !errors.As(err, &f) || f.Begun || ctx.Err() != nil {
				return answer, m, used, err
			}
			if !f.Again() || try >= a.Retries || !wait(ctx, try, f.After) {
				break
			}
		}
	}
	return answer, m, used, err
}

// wait waits before another try; false when there is no time for it.
func wait(ctx context.Context, try int, after time.Duration) bool {
	pause := 500 * time.Millisecond << try
	pause = max(min(pause, longestWait/2)+rand.N(pause/4), after)
	if deadline, ok := ctx.Deadline(); pause > longestWait || (ok && time.Until(deadline) < pause) {
		return false
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// told words what went wrong for whoever called.
func told(ctx, limit context.Context, m *model, err error) error {
	var f *chat.Failure
	name := "the model"
	if m != nil {
		name = fmt.Sprintf("the model of tier %s (%s)", m.Tier, m.Model)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(context.Cause(limit), errSlow):
		return sdk.Errorf(sdk.Timeout, "%s did not finish its answer within the setting timeout", name)
	case !errors.As(err, &f):
		return sdk.Errorf(sdk.ExecutionFailed, "%s: %v", name, err)
	case f.Begun:
		return sdk.Errorf(sdk.Interrupted, "%s broke off in the middle of its answer: %v", name, f)
	case f.Status == 401 || f.Status == 403:
		return sdk.Errorf(sdk.AuthRequired, "the provider of %s refuses the api_key: %v", name, f)
	case f.Again():
		return sdk.Errorf(sdk.Unavailable, "%s can't be asked now: %v", name, f).After(max(f.After, time.Second))
	}
	return sdk.Errorf(sdk.ExecutionFailed, "%s refused the request: %v", name, f)
}
