package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// waitBeat is how often a caller that waits for an answer hears so.
const waitBeat = 10 * time.Second

// maxWord bounds ids and names a caller gives.
const maxWord = 256

// call runs a tool. A client that accepts JSON lines or server-sent events gets
// progress and logs before the result.
func (a *API) call(w http.ResponseWriter, r *http.Request, who who) {
	req, err := a.request(r, who)
	if err != nil {
		f := fault.From(err)
		refuseCall(w, r, statusFor(err, f), f)
		return
	}
	kind, err := wants(r, plainJSON, ndjson, eventStream)
	if err != nil {
		f := fault.From(err)
		refuseCall(w, r, statusFor(err, f), f)
		return
	}
	if kind == plainJSON {
		reply := a.Pipeline.Call(r.Context(), req)
		result := a.resultView(reply, req.Caller)
		status := callStatus(reply)
		if e := result.Error; e != nil {
			retryAfter(w, status, time.Duration(e.RetryAfterMs)*time.Millisecond)
		}
		write(w, status, result)
		return
	}
	out := open(w, kind)
	req.Events = func(e *pluginv1.InvokeEvent) { relay(out, e) }
	var waits atomic.Pointer[string]
	req.Asked = func(_ context.Context, questions []store.Question) {
		text := waitingFor(questions)
		waits.Store(&text)
		out.send("progress", 0, api.CallEvent{Progress: &api.Progress{Message: text}})
	}
	every := beatTime
	if req.Hold > 0 {
		every = waitBeat
	}
	stop := out.beats(every, func() {
		if text := waits.Load(); text != nil && !who.operator {
			out.send("progress", 0, api.CallEvent{Progress: &api.Progress{Message: *text}})
			return
		}
		if !who.operator {
			out.beat()
		}
	})
	if !who.operator {
		out.begin()
	}
	reply := a.Pipeline.Call(r.Context(), req)
	stop()
	out.send("result", 0, api.CallEvent{Result: a.resultView(reply, req.Caller)})
}

func waitingFor(questions []store.Question) string {
	ids := make([]string, len(questions))
	for i, q := range questions {
		ids[i] = q.ID + " (" + q.Kind + ")"
	}
	return "waiting for " + strings.Join(ids, ", ")
}

// request is the call a body and its headers ask for.
func (a *API) request(r *http.Request, who who) (req call.Request, err error) {
	var in api.CallRequest
	if err := body(r, &in); err != nil {
		return req, err
	}
	tier := first(in.ModelTier, r.Header.Get(api.HeaderModelTier), who.agent.ModelTier, "balanced")
	if !slices.Contains([]string{"low", "balanced", "high"}, tier) {
		return req, fault.New(fault.BadArguments, "model_tier is low, balanced or high, not %.40q", tier)
	}
	run := first(in.Run, r.Header.Get(api.HeaderRun))
	switch {
	case in.TimeoutMs < 0:
		return req, fault.New(fault.BadArguments, "timeout_ms is a number of milliseconds, not %d", in.TimeoutMs)
	case len(run) > maxWord, len(in.ToolCallID) > maxWord:
		return req, fault.New(fault.BadArguments, "run and tool_call_id have at most %d bytes", maxWord)
	}
	shape := r.URL.Query().Get("shape")
	if shape != "" && shape != "none" {
		return req, fault.New(fault.BadArguments, "shape is none or left out, not %.40q", shape)
	}
	id := first(in.Session, r.Header.Get(api.HeaderSession))
	if id == "" && !who.operator {
		id = session.Default(who.agent.Name)
	}
	s, err := a.Sessions.Open(r.Context(), who.agent, id)
	if err != nil {
		return req, err
	}
	req = call.Request{
		Caller: call.Caller{Agent: who.agent, Session: s, Run: first(run, s.ID), ModelTier: tier, Door: who.door()},
		Tool:   r.PathValue("name"), Arguments: in.Arguments, ToolCallID: in.ToolCallID,
		Timeout: time.Duration(min(in.TimeoutMs, call.MaxTimeout.Milliseconds())) * time.Millisecond, Raw: shape == "none",
	}
	internal, err := flag(r, "internal", false)
	if err != nil {
		return req, err
	}
	if who.operator {
		req.Internal = internal
		return req, nil
	}
	req.Hold = a.Hold
	return req, nil
}

func first(s ...string) string {
	for _, v := range s {
		if v != "" {
			return v
		}
	}
	return ""
}

// callStatus is 200 for whatever the tool itself returned.
func callStatus(reply *call.Reply) int {
	e := reply.Result.Error
	if e == nil || reply.Returned {
		return http.StatusOK
	}
	switch class := fault.Class(e.Code); class {
	case fault.ExecutionFailed, fault.AuthRequired, fault.Interrupted:
		return http.StatusOK
	default:
		return statusOf(class)
	}
}

// refuseCall is an error in the shape of a call's result.
func refuseCall(w http.ResponseWriter, r *http.Request, status int, f *fault.Error) {
	retryAfter(w, status, f.RetryAfter)
	name := r.PathValue("name")
	if name == "" { // the door refuses before there are path values
		name = strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/tools/"), "/call")
	}
	write(w, status, api.CallResult{ToolName: clip(name), Content: content.Blocks(call.Failed(f).Content), IsError: true, Error: errorView(f)})
}

func (a *API) resultView(reply *call.Reply, who call.Caller) *api.CallResult {
	r := reply.Result
	out := &api.CallResult{ToolCallID: reply.ToolCallID, ToolName: reply.Tool, Content: content.Blocks(r.Content),
		Structured: content.Valid(r.Structured), IsError: r.IsError, Session: who.Session.ID, Files: a.files(reply, who)}
	if e := r.Error; e != nil {
		out.Error = &api.Error{Code: e.Code, Message: e.Message, Retryable: e.Retryable, Ref: e.Ref, RetryAfterMs: e.RetryAfterMs}
		out.IsError = true
	}
	for _, q := range reply.Questions {
		out.Questions = append(out.Questions, q.ID)
	}
	return out
}

// relay passes on what a running call says of itself.
func relay(out *stream, e *pluginv1.InvokeEvent) {
	switch ev := e.Event.(type) {
	case *pluginv1.InvokeEvent_Progress:
		out.send("progress", 0, api.CallEvent{Progress: &api.Progress{Progress: ev.Progress.Progress, Total: ev.Progress.Total, Message: ev.Progress.Message}})
	case *pluginv1.InvokeEvent_Log:
		out.send("log", 0, api.CallEvent{Log: &api.Log{Level: ev.Log.Level, Logger: ev.Log.Logger, Data: content.Valid(ev.Log.Data)}})
	}
}
