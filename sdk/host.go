package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Host is the host's services in one scope: for a call (Call.Host), for a session
// by handle (Plugin.HostFor), or as the plugin itself (Plugin.Host). Usable from
// Configure on. Failures are *Error; without the grant a request is denied.
type Host struct {
	conn  *hostConn
	scope *pluginv1.Scope
}

// For gives the same services for the session behind a durable handle.
func (h *Host) For(handle string) *Host {
	return &Host{conn: h.conn, scope: &pluginv1.Scope{By: &pluginv1.Scope_Handle{Handle: handle}}}
}

// State is the plugin's own durable key-value store, the same in every scope.
func (h *Host) State() *State { return &State{h} }

// Memory is the working memory of the scope's session.
func (h *Host) Memory() *Memory { return &Memory{h} }

// Session is the list of tools and the conversation of the scope's session.
func (h *Host) Session() *Session { return &Session{h} }

// Event is a notice to a session's inbox.
type Event struct {
	Kind string
	Text string
	Data json.RawMessage
	// DedupID makes a second event with the same id vanish; empty = never.
	DedupID string
}

// Publish puts an event into the inbox of the scope's session and gives its number.
func (h *Host) Publish(ctx context.Context, e Event) (uint64, error) {
	resp, err := ask(ctx, h, hostQuick, &pluginv1.PublishEventRequest{
		Scope: h.scope, Kind: utf8(e.Kind), Text: utf8(e.Text), Data: e.Data, DedupId: utf8(e.DedupID),
	}, pluginv1.HostServiceClient.PublishEvent)
	return resp.GetSeq(), err
}

// Ask asks and waits until it is answered, the question expires or ctx is done.
// The question dies with this process; NeedInput doesn't.
func (h *Host) Ask(ctx context.Context, q InputRequest) (Answer, error) {
	limit := 24 * time.Hour // the host ends it by the question's own time
	if q.TTL > 0 {
		limit = q.TTL + hostQuick
	}
	resp, err := ask(ctx, h, limit, &pluginv1.AskRequest{Scope: h.scope, Request: requestToProto(q)}, pluginv1.HostServiceClient.Ask)
	if err != nil {
		return Answer{}, err
	}
	return answerFromProto(resp.GetAnswer()), nil
}

// AnswerQuestion settles a question that this plugin asked by NeedInput or Ask in
// the scope's session, as that session's agent: action is accept, decline or
// cancel. A question of another session is unknown, and a decision is taken only
// after the user has said something since it was asked. It gives the result of the
// call that goes on; known is false when its caller still waits and gets it.
func (h *Host) AnswerQuestion(ctx context.Context, id, action string, content json.RawMessage) (r Result, known bool, err error) {
	resp, err := ask(ctx, h, hostSlow, &pluginv1.AnswerQuestionRequest{
		Scope: h.scope, QuestionId: utf8(id), Action: action, Content: content,
	}, pluginv1.HostServiceClient.AnswerQuestion)
	if err != nil || resp.GetResult() == nil {
		return Result{}, false, err
	}
	return resultFromProto(resp.GetResult()), true, nil
}

// CallEvents takes what a nested call sends before its result; each may be nil.
type CallEvents struct {
	Progress func(done, total float64, message string)
	Log      func(level, logger string, data json.RawMessage)
	Partial  func(blocks []Content)
}

// CallTool calls a tool, for which the plugin needs the grant tool:NAME. timeout
// 0 = the tool's own, within what is left of the calling call. The arguments are
// sent as they are. A result that says the tool failed comes back as a Result
// with its Error; err is for calls that gave none.
func (h *Host) CallTool(ctx context.Context, tool string, arguments json.RawMessage, timeout time.Duration, events ...CallEvents) (Result, error) {
	return h.callTool(ctx, &pluginv1.CallToolRequest{Tool: tool, Arguments: arguments}, timeout, events)
}

// CallOwnTool is CallTool for a tool that this plugin offers with WithSource(source).
// When the host has given the name to another plugin, or to another source of this
// one, nothing runs and the result's Error has the ref RefNameTaken.
func (h *Host) CallOwnTool(ctx context.Context, tool, source string, arguments json.RawMessage, timeout time.Duration, events ...CallEvents) (Result, error) {
	return h.callTool(ctx, &pluginv1.CallToolRequest{Tool: tool, Arguments: arguments, OwnSource: source}, timeout, events)
}

// RefNameTaken is the ref of errors that say that a name is another's.
const RefNameTaken = "BH2015"

func (h *Host) callTool(ctx context.Context, req *pluginv1.CallToolRequest, timeout time.Duration, events []CallEvents) (Result, error) {
	req.Scope, req.TimeoutMs = h.scope, timeout.Milliseconds()
	limit := hostSlow
	if timeout > 0 {
		limit = timeout + hostQuick // the host keeps the time, this is the backstop
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := h.conn.client(ctx)
	if err != nil {
		return Result{}, err
	}
	stream, err := client.CallTool(ctx, req)
	if err != nil {
		return Result{}, errorFromStatus(err)
	}
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return Result{}, Errorf(ExecutionFailed, "the call of %q ended without a result", req.GetTool()).WithRef(refFailed)
		}
		if err != nil {
			return Result{}, errorFromStatus(err)
		}
		if r := e.GetResult(); r != nil {
			return resultFromProto(r), nil
		}
		for _, ev := range events {
			ev.take(e)
		}
	}
}

func (ev CallEvents) take(e *pluginv1.InvokeEvent) {
	switch x := e.GetEvent().(type) {
	case *pluginv1.InvokeEvent_Progress:
		if ev.Progress != nil {
			ev.Progress(x.Progress.GetProgress(), x.Progress.GetTotal(), x.Progress.GetMessage())
		}
	case *pluginv1.InvokeEvent_Log:
		if ev.Log != nil {
			ev.Log(x.Log.GetLevel(), x.Log.GetLogger(), x.Log.GetData())
		}
	case *pluginv1.InvokeEvent_Partial:
		if ev.Partial != nil {
			var blocks []Content
			for _, c := range x.Partial.GetContent() {
				blocks = append(blocks, contentFromProto(c))
			}
			ev.Partial(blocks)
		}
	}
}

// DeriveRun makes a handle for a run below the session of the given one, with
// grant runs: namespace is subagent/{id}, wisp/{id} or patrol/{task}, profile no
// wider than the parent's. ttl 0 = until released.
func (h *Host) DeriveRun(ctx context.Context, handle, namespace, profile string, ttl time.Duration) (string, error) {
	resp, err := ask(ctx, h, hostQuick, &pluginv1.DeriveRunRequest{
		Handle: handle, Namespace: utf8(namespace), Profile: utf8(profile), TtlMs: ttl.Milliseconds(),
	}, pluginv1.HostServiceClient.DeriveRun)
	return resp.GetHandle(), err
}

// ReleaseRun ends a derived handle.
func (h *Host) ReleaseRun(ctx context.Context, handle string) error {
	_, err := ask(ctx, h, hostQuick, &pluginv1.ReleaseRunRequest{Handle: handle}, pluginv1.HostServiceClient.ReleaseRun)
	return err
}
