package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"google.golang.org/protobuf/proto"
)

// Reply is what a call gave.
type Reply struct {
	// Events are what came before the result, in order: "progress 1/2 message",
	// "log level data" and "partial text".
	Events     []string
	Text       string // the text blocks, joined by blank lines
	Structured json.RawMessage
	Raw        json.RawMessage // of prompts, resources and completions
	IsError    bool
	Code       string // of the error; empty = none
	Ref        string
	Retryable  bool
	RetryAfter time.Duration // of a retryable error; 0 = at any time
	Message    string        // of the error
	Files      []sdk.FileRef
	Questions  []Question
	State      []byte // what a question carries
	Chunk      *sdk.ChunkHint

	t TB
}

// Question is one request of a result that asks.
type Question struct {
	ID, Kind, Message, URL string
	Schema                 json.RawMessage
	Decision, NoFallback   bool
	// Open is the id under which the plugin may answer it itself (AnswerQuestion).
	Open string
}

// CallOption changes one call.
type CallOption func(*call)

type call struct {
	req     *pluginv1.InvokeRequest
	timeout time.Duration
	ctx     context.Context
}

// Within limits the time of the call; the default is 20 s.
func Within(d time.Duration) CallOption { return func(c *call) { c.timeout = d } }

// Until cancels the call with ctx.
func Until(ctx context.Context) CallOption { return func(c *call) { c.ctx = ctx } }

// Answering runs the next round of a call that asked, with the answers by request
// id as action and JSON content, such as {"city": {"accept", `{"name":"Oslo"}`}}.
func Answering(asked *Reply, answers map[string][2]string) CallOption {
	return func(c *call) {
		c.req.Attempt = &pluginv1.Attempt{Round: 1, State: asked.State, Input: map[string]*pluginv1.Answer{}}
		for id, a := range answers {
			c.req.Attempt.Input[id] = &pluginv1.Answer{Action: a[0], Content: []byte(a[1]), AnsweredBy: "tester"}
		}
	}
}

// InSession sets the durable handle of the call's session.
func InSession(handle string) CallOption { return func(c *call) { c.req.SessionRef = handle } }

// CallID sets the id of the call.
func CallID(id string) CallOption { return func(c *call) { c.req.CallId = id } }

// Prompt makes the call that of a prompt, Resource that of a resource by URI.
func Prompt() CallOption {
	return func(c *call) { c.req.Kind = pluginv1.InvokeRequest_KIND_PROMPT }
}

// Resource makes the call that of a resource by URI.
func Resource() CallOption {
	return func(c *call) { c.req.Kind = pluginv1.InvokeRequest_KIND_RESOURCE }
}

// Completing makes the call a completion of one argument: ref is a prompt's name or
// a template's URI, context the arguments settled so far as JSON.
func Completing(kind, ref, argument, value, context string) CallOption {
	return func(c *call) {
		c.req.Kind = pluginv1.InvokeRequest_KIND_COMPLETE
		c.req.Completion = &pluginv1.CompletionTarget{RefKind: kind, Ref: ref, Argument: argument, Value: value, Context: []byte(context)}
	}
}

var callIDs atomic.Int64

// Call calls a tool with JSON arguments and waits for its result. It fails the
// test when the protocol is broken, not when the tool says no.
func (s *Session) Call(tool, arguments string, opts ...CallOption) *Reply {
	s.t.Helper()
	r, err := s.invoke(tool, arguments, opts...)
	if err != nil {
		s.t.Fatalf("call of %q: %v", tool, err)
	}
	return r
}

func (s *Session) invoke(name, arguments string, opts ...CallOption) (*Reply, error) {
	c := &call{
		timeout: limit, ctx: context.Background(),
		req: &pluginv1.InvokeRequest{
			CallId: fmt.Sprintf("call-%d", callIDs.Add(1)), Kind: pluginv1.InvokeRequest_KIND_TOOL,
			Name: name, Arguments: []byte(arguments), SessionRef: "test-session", Run: s.opts.run,
		},
	}
	for _, o := range opts {
		o(c)
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout)
	defer cancel()
	c.req.DeadlineMs = c.timeout.Milliseconds()
	s.Host.began(c.req.CallId)
	defer s.Host.ended(c.req.CallId)
	stream, err := s.client.Invoke(ctx, c.req)
	if err != nil {
		return nil, err
	}
	r := &Reply{t: s.t}
	results := 0
	for {
		e, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && results == 1:
			return r, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%d results came, one is due", results)
		case err != nil:
			return nil, err
		case e.GetResult() != nil:
			results++
			r.read(e.GetResult())
			s.opened(r, c, e.GetResult())
		case results > 0:
			return nil, errors.New("an event came after the result")
		default:
			r.Events = append(r.Events, eventText(e))
		}
	}
}

// opened keeps the questions of a result, so that the plugin can answer them.
func (s *Session) opened(r *Reply, c *call, result *pluginv1.Result) {
	if result.GetNeedsInput() == nil {
		return
	}
	again := proto.Clone(c.req).(*pluginv1.InvokeRequest)
	ids := s.Host.keep(result, func(ctx context.Context, answers map[string]*pluginv1.Answer) (*pluginv1.Result, error) {
		again.CallId = fmt.Sprintf("call-%d", callIDs.Add(1))
		again.Attempt = &pluginv1.Attempt{Round: c.req.GetAttempt().GetRound() + 1, State: result.GetNeedsInput().GetState(), Input: answers}
		s.Host.began(again.CallId)
		defer s.Host.ended(again.CallId)
		stream, err := s.client.Invoke(ctx, again)
		if err != nil {
			return nil, err
		}
		for {
			e, err := stream.Recv()
			if err != nil || e.GetResult() != nil {
				return e.GetResult(), err
			}
		}
	})
	for i := range r.Questions {
		r.Questions[i].Open = ids[i]
	}
}

func eventText(e *pluginv1.InvokeEvent) string {
	switch x := e.GetEvent().(type) {
	case *pluginv1.InvokeEvent_Progress:
		return fmt.Sprintf("progress %v/%v %s", x.Progress.GetProgress(), x.Progress.GetTotal(), x.Progress.GetMessage())
	case *pluginv1.InvokeEvent_Log:
		return fmt.Sprintf("log %s %s", x.Log.GetLevel(), x.Log.GetData())
	case *pluginv1.InvokeEvent_Partial:
		return "partial " + texts(x.Partial.GetContent())
	}
	return "unknown event"
}

func texts(blocks []*pluginv1.Content) string {
	var out []string
	for _, c := range blocks {
		if t, ok := c.GetBlock().(*pluginv1.Content_Text); ok {
			out = append(out, t.Text)
		}
	}
	return strings.Join(out, "\n\n")
}

func (r *Reply) read(p *pluginv1.Result) {
	r.Text, r.Structured, r.Raw, r.IsError = texts(p.GetContent()), p.GetStructured(), p.GetRaw(), p.GetIsError()
	r.Code, r.Ref = p.GetError().GetCode(), p.GetError().GetRef()
	r.Retryable, r.Message = p.GetError().GetRetryable(), p.GetError().GetMessage()
	r.RetryAfter = time.Duration(p.GetError().GetRetryAfterMs()) * time.Millisecond
	r.State = p.GetNeedsInput().GetState()
	for _, c := range p.GetContent() {
		if f := c.GetFile(); f != nil {
			r.Files = append(r.Files, sdk.FileRef{Path: f.GetPath(), Name: f.GetName(), Size: f.GetSize(), MIME: f.GetMime(), Note: f.GetNote()})
		}
	}
	for _, q := range p.GetNeedsInput().GetRequests() {
		r.Questions = append(r.Questions, Question{
			ID: q.GetId(), Kind: q.GetKind(), Message: q.GetMessage(), URL: q.GetUrl(), Schema: q.GetSchema(),
			Decision: q.GetDecision(), NoFallback: q.GetNoFallback(),
		})
	}
	if c := p.GetChunk(); c != nil {
		r.Chunk = &sdk.ChunkHint{
			KeyBase: c.GetKeyBase(), Threshold: c.GetThreshold(), ChunkMax: c.GetChunkMax(),
			TTL: time.Duration(c.GetTtlMs()) * time.Millisecond, Category: c.GetCategory(),
		}
	}
}

// WantText fails the test unless the call succeeded with a text that has part in it.
func (r *Reply) WantText(part string) {
	r.t.Helper()
	if r.IsError || !strings.Contains(r.Text, part) {
		r.t.Fatalf("a result with %q is wanted, not (error %q) %q", part, r.Code, r.Text)
	}
}

// WantError fails the test unless the call failed with the code and a message
// that has part in it.
func (r *Reply) WantError(code, part string) {
	r.t.Helper()
	if r.Code != code || !strings.Contains(r.Message, part) {
		r.t.Fatalf("error %s with %q is wanted, not %q: %s (text %q)", code, part, r.Code, r.Message, r.Text)
	}
}
