package sdk

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
	"google.golang.org/protobuf/proto"
)

// Call is one invocation: its facts, none of which the caller could choose but
// Arguments, and what can be done for it while it runs.
type Call struct {
	ID        string
	Name      string          // the tool's or prompt's name, the resource's URI
	Arguments json.RawMessage // the bytes as they came; at least {}

	// SessionRef is a durable handle of the caller's session, for Plugin.HostFor
	// after the call has ended. Empty when there is no session.
	SessionRef string
	Agent      string
	Namespace  string // session/{id}, subagent/{id}, patrol/{task} or wisp/{id}
	Run        string
	ModelTier  string // low, balanced or high
	Profile    string
	Chain      []string // plugins above this call, outermost first

	CanAnswer      bool // the caller can answer a question
	CanElicit      bool // its client shows forms
	MayTask        bool // it may start background tasks
	ListsFindTools bool

	// Round counts the times this call was run; 0 is the first. From the second on
	// Input holds the answers by request id and State what NeedInput kept.
	Round int
	Input map[string]Answer
	State []byte
	// RetryOf is the id of the call this one repeats, if it does.
	RetryOf string

	// TimeLimit is what the host gives the call; waiting for answers doesn't count.
	// The context is done when it is over.
	TimeLimit   time.Duration
	TraceParent string
	LogLevel    string // lowest level the caller wants of Log; empty = none asked for

	plugin *Plugin
	out    *eventStream
}

// Progress tells the caller how far the work is; total 0 = unknown.
func (c *Call) Progress(done, total float64, message string) {
	c.out.send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Progress{
		Progress: &pluginv1.Progress{Progress: done, Total: total, Message: utf8(message)},
	}})
}

// Log sends a log message to the caller; for the host's log use Logger. level is
// one of MCP's: debug, info, notice, warning, error, critical, alert, emergency.
func (c *Call) Log(level, logger string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		raw, _ = json.Marshal(err.Error()) // a string: can't fail
	}
	c.out.send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Log{
		Log: &pluginv1.Log{Level: utf8(level), Logger: utf8(logger), Data: raw},
	}})
}

// Partial sends a part of the result ahead. The final result still holds all.
func (c *Call) Partial(blocks ...Content) {
	c.out.send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Partial{
		Partial: &pluginv1.Partial{Content: contentToProto(blocks)},
	}})
}

// Host gives the host's services, acting for this call; valid until it ends.
func (c *Call) Host() *Host {
	return &Host{conn: c.plugin.host, scope: &pluginv1.Scope{By: &pluginv1.Scope_CallId{CallId: c.ID}}}
}

// Ask asks and waits, for handlers that can't be run again. Prefer NeedInput: a
// question asked here is lost when this process ends.
func (c *Call) Ask(ctx context.Context, q InputRequest) (Answer, error) { return c.Host().Ask(ctx, q) }

// Shared gives the shared folder.
func (c *Call) Shared() *Shared { return c.plugin.Shared() }

// Logger is the plugin's log with the call's id.
func (c *Call) Logger() *slog.Logger { return c.plugin.log.With("call_id", c.ID) }

func newCall(p *Plugin, req *pluginv1.InvokeRequest, out *eventStream) *Call {
	run, attempt := req.GetRun(), req.GetAttempt()
	c := &Call{
		ID: req.GetCallId(), Name: req.GetName(), Arguments: req.GetArguments(),
		SessionRef: req.GetSessionRef(), Agent: run.GetAgent(), Namespace: run.GetNamespace(),
		Run: run.GetRun(), ModelTier: run.GetModelTier(), Profile: run.GetProfile(), Chain: run.GetChain(),
		CanAnswer: run.GetCanAnswer(), CanElicit: run.GetCanElicit(), MayTask: run.GetMayTask(),
		ListsFindTools: run.GetListsFindTools(),
		Round:          int(attempt.GetRound()), State: attempt.GetState(), RetryOf: attempt.GetRetryOfCallId(),
		TimeLimit: millis(req.GetDeadlineMs()), TraceParent: req.GetTraceParent(), LogLevel: req.GetLogLevel(),
		plugin: p, out: out,
	}
	if len(c.Arguments) == 0 || string(c.Arguments) == "null" {
		c.Arguments = json.RawMessage("{}")
	}
	if in := attempt.GetInput(); len(in) > 0 {
		c.Input = make(map[string]Answer, len(in))
		for id, a := range in {
			c.Input[id] = answerFromProto(a)
		}
	}
	return c
}

// eventStream orders the events of one call: any goroutine may send, and nothing
// follows the result.
type eventStream struct {
	mu     sync.Mutex
	stream pluginv1.PluginService_InvokeServer
	ended  bool
	p      *Plugin
}

func (s *eventStream) send(e *pluginv1.InvokeEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if n := proto.Size(e); n > maxEvent {
		s.p.log.Warn("an event larger than a message is dropped", "bytes", n)
		return
	}
	if err := s.stream.Send(e); err != nil {
		s.ended = true // the caller is gone; the handler hears it by its context
	}
}

// finish sends the result. One that fits no message becomes an error.
func (s *eventStream) finish(r *pluginv1.Result) error {
	e := &pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Result{Result: r}}
	if n := size(e, r); n > maxEvent {
		e.Event = &pluginv1.InvokeEvent_Result{Result: failed(Errorf(ExecutionFailed,
			"the result has %d bytes, a message at most %d; a tool puts more into a file under /shared", n, wire.MaxMessage).WithRef(refMessageSize))}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.ended = true
	return s.stream.Send(e)
}

// size is how many bytes a result has on the wire; of a plain one at most so many,
// for to count it exactly takes as long as to send it.
func size(e *pluginv1.InvokeEvent, r *pluginv1.Result) int {
	if r.GetError() == nil && r.GetNeedsInput() == nil && r.GetChunk() == nil && len(r.GetContent()) <= 16 {
		n := 1024 + len(r.GetStructured()) + len(r.GetMeta()) + len(r.GetRaw())
		for _, c := range r.GetContent() {
			if _, text := c.GetBlock().(*pluginv1.Content_Text); !text {
				return proto.Size(e)
			}
			n += len(c.GetText()) + len(c.GetAnnotations())
		}
		if n <= maxEvent {
			return n
		}
	}
	return proto.Size(e)
}

// maxEvent leaves room for the frame around the largest message.
const maxEvent = wire.MaxMessage - 1024

func failed(err error) *pluginv1.Result {
	e := asError(err)
	return &pluginv1.Result{
		IsError: true, Error: e.proto(),
		Content: []*pluginv1.Content{{Block: &pluginv1.Content_Text{Text: utf8(e.Message)}}},
	}
}
