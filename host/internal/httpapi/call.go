package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const ndjson = "application/x-ndjson"

// call runs a tool. With Accept: application/x-ndjson progress and logs come as
// lines before the result.
func (a *API) call(w http.ResponseWriter, r *http.Request) {
	var in api.CallRequest
	agent, err := a.agent(r)
	if err == nil {
		err = body(r, &in)
	}
	if err != nil {
		fail(w, err)
		return
	}
	id := in.Session
	if id == "" {
		id = r.Header.Get(api.HeaderSession)
	}
	s, err := a.Sessions.Open(r.Context(), agent, id)
	if err != nil {
		fail(w, err)
		return
	}
	req := call.Request{
		Caller: call.Caller{Agent: agent, Session: s, Run: first(in.Run, r.Header.Get(api.HeaderRun), s.ID),
			ModelTier: first(in.ModelTier, agent.ModelTier, "balanced"), Door: "cli"},
		Tool: r.PathValue("name"), Arguments: in.Arguments, ToolCallID: in.ToolCallID,
		Timeout: time.Duration(in.TimeoutMs) * time.Millisecond,
		Raw:     r.URL.Query().Get("shape") == "none", Internal: r.URL.Query().Get("internal") == "true",
	}
	stream := strings.Contains(r.Header.Get("Accept"), ndjson)
	out := lines{w: w, rc: http.NewResponseController(w)}
	if stream {
		w.Header().Set("Content-Type", ndjson)
		req.Events = out.event
	}
	reply := a.Pipeline.Call(r.Context(), req)
	result := resultView(reply, s.ID)
	if stream {
		out.send(api.CallEvent{Result: result})
		return
	}
	code := http.StatusOK
	if e := reply.Result.Error; e != nil {
		switch class := fault.Class(e.Code); class {
		case fault.ExecutionFailed, fault.AuthRequired, fault.Interrupted: // the tool's own word
		default:
			code = status(class)
		}
	}
	write(w, code, result)
}

func first(s ...string) string {
	for _, v := range s {
		if v != "" {
			return v
		}
	}
	return ""
}

func resultView(reply *call.Reply, session string) *api.CallResult {
	r := reply.Result
	out := &api.CallResult{ToolCallID: reply.ToolCallID, ToolName: reply.Tool, Content: content.Blocks(r.Content),
		Structured: content.Valid(r.Structured), IsError: r.IsError, Session: session}
	if e := r.Error; e != nil {
		out.Error = &api.Error{Code: e.Code, Message: e.Message, Retryable: e.Retryable, Ref: e.Ref, RetryAfterMs: e.RetryAfterMs}
		out.IsError = true
	}
	for _, q := range reply.Questions {
		out.Questions = append(out.Questions, q.ID)
	}
	return out
}

// lines writes JSON lines, each flushed under its own deadline.
type lines struct {
	w  http.ResponseWriter
	rc *http.ResponseController
	mu sync.Mutex
}

const writeTimeout = 30 * time.Second

func (l *lines) send(v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A reader that left ends the request's context; nobody else needs to know.
	_ = l.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, _ = l.w.Write(append(raw, '\n'))
	_ = l.rc.Flush()
}

func (l *lines) event(e *pluginv1.InvokeEvent) {
	switch ev := e.Event.(type) {
	case *pluginv1.InvokeEvent_Progress:
		l.send(api.CallEvent{Progress: &api.Progress{Progress: ev.Progress.Progress, Total: ev.Progress.Total, Message: ev.Progress.Message}})
	case *pluginv1.InvokeEvent_Log:
		l.send(api.CallEvent{Log: &api.Log{Level: ev.Log.Level, Logger: ev.Log.Logger, Data: content.Valid(ev.Log.Data)}})
	}
}

// questions lists the open ones, or all.
func (a *API) questions(r *http.Request) (any, error) {
	list, err := a.Questions.List(r.Context(), operator(), r.URL.Query().Get("all") != "true")
	if err != nil {
		return nil, err
	}
	out := make([]api.Question, len(list))
	for i, q := range list {
		out[i] = questionView(q)
	}
	return out, nil
}

func (a *API) question(r *http.Request) (any, error) {
	q, err := a.Questions.Get(r.Context(), operator(), r.PathValue("id"))
	return questionView(q), err
}

func (a *API) answer(r *http.Request) (any, error) {
	var in api.Answer
	if err := body(r, &in); err != nil {
		return nil, err
	}
	if in.Scope != "" && in.Scope != "once" {
		return nil, fault.New(fault.BadArguments, "scope %q: an approval holds once", in.Scope)
	}
	q, err := a.Questions.Answer(r.Context(), r.PathValue("id"), operator(), in.Action, in.Content, in.Reason)
	return questionView(q), err
}

func questionView(q store.Question) api.Question {
	return api.Question{ID: q.ID, Kind: q.Kind, Agent: q.Agent, Session: q.Session, Tool: q.Tool, Message: q.Message,
		Schema: content.Valid(q.Schema), URL: q.URL, Decision: q.Decision, CallerGone: q.CallerGone,
		CreatedAt: q.CreatedAt, ExpiresAt: q.ExpiresAt, Outcome: q.Outcome, AnsweredBy: q.AnsweredBy}
}
