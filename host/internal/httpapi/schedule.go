package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// boardTool is the internal tool by which a scheduler shows its tasks; the host knows
// no more of it.
const (
	boardTool = "schedule_board"
	boardTime = 20 * time.Second
)

// boardArgs are what the scheduler is asked.
type boardArgs struct {
	Action string `json:"action"`
	Agent  string `json:"agent,omitempty"`
	Name   string `json:"name,omitempty"`
	By     string `json:"by,omitempty"`
	Limit  uint64 `json:"limit,omitempty"`
	Offset uint64 `json:"offset,omitempty"`
}

// steers is the tool that an agent must be allowed for an action.
var steers = map[string]string{
	"list": "list_scheduled_tasks", "show": "list_scheduled_tasks", "calendar": "list_scheduled_tasks",
	"run": "run_scheduled_task", "pause": "pause_scheduled_task", "resume": "resume_scheduled_task", "cancel": "cancel_scheduled_task",
}

// schedule lists tasks: an agent's own, or with the power to approve all.
func (a *API) schedule(r *http.Request, who who) (any, error) {
	limit, err := number(r, "limit")
	if err != nil {
		return nil, err
	}
	offset, err := number(r, "offset")
	if err != nil {
		return nil, err
	}
	return a.board(r, who, boardArgs{Action: "list", Limit: min(limit, 1<<20), Offset: min(offset, 1<<20)})
}

func (a *API) scheduled(r *http.Request, who who) (any, error) {
	return a.board(r, who, boardArgs{Action: "show", Name: r.PathValue("name")})
}

func (a *API) steer(r *http.Request, who who) (any, error) {
	action := r.PathValue("action")
	switch action {
	case "run", "pause", "resume", "cancel":
		return a.board(r, who, boardArgs{Action: action, Name: r.PathValue("name"), By: who.by().Name})
	}
	return nil, fault.New(fault.BadArguments, "unknown action %.40q: run, pause, resume or cancel", action)
}

// calendar is the fires to come as iCalendar.
func (a *API) calendar(w http.ResponseWriter, r *http.Request, who who) {
	result, err := a.ask(r, who, boardArgs{Action: "calendar"})
	if err != nil {
		fail(w, err)
		return
	}
	text := ""
	if len(result.Content) > 0 {
		if t, ok := result.Content[0].Block.(*pluginv1.Content_Text); ok {
			text = t.Text
		}
	}
	w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(text)) // a reader that left needs no word
}

func (a *API) board(r *http.Request, who who, in boardArgs) (any, error) {
	result, err := a.ask(r, who, in)
	if err != nil {
		return nil, err
	}
	if !json.Valid(result.Structured) {
		return nil, fault.New(fault.CallFailed, "%s gave no JSON", boardTool)
	}
	return json.RawMessage(result.Structured), nil
}

// ask asks the scheduler. Whose tasks they are is settled here and not by it.
func (a *API) ask(r *http.Request, who who, in boardArgs) (*pluginv1.Result, error) {
	snap := a.Registry.Snapshot()
	if _, ok := snap.Tool(boardTool); !ok {
		return nil, fault.New(fault.NoScheduler, "no plugin of this host schedules anything")
	}
	if whose := r.URL.Query().Get("agent"); who.all() {
		in.Agent = whose
	} else if whose != "" && whose != who.agent.Name {
		return nil, fault.New(fault.NotApprover, "agent %q may see and steer its own tasks only", who.agent.Name)
	}
	if in.Agent == "" && (!who.all() || in.Name != "") {
		in.Agent = who.agent.Name
	}
	if t, ok := snap.Tool(steers[in.Action]); !who.operator && (!ok || !who.agent.Allows(t)) {
		return nil, fault.New(fault.NotAllowed, "agent %q may not use %q", who.agent.Name, steers[in.Action])
	}
	if len(in.Name) > 4*maxWord || len(in.Agent) > maxWord {
		return nil, fault.New(fault.BadArguments, "a name has at most %d bytes", maxWord)
	}
	args, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(r.Context(), boardTime)
	defer end()
	reply := a.Pipeline.Call(ctx, call.Request{Tool: boardTool, Arguments: args, Timeout: boardTime, Raw: true, Internal: true,
		Caller: call.Caller{Agent: who.agent, ModelTier: "balanced", Door: who.door()}})
	if e := reply.Result.Error; e != nil {
		if e.Code == string(fault.NotFound) {
			return nil, fault.New(fault.UnknownTask, "%s", e.Message)
		}
		return nil, &fault.Error{Class: fault.Class(e.Code), Ref: fault.Ref(e.Ref), Message: e.Message, Retryable: e.Retryable, RetryAfter: time.Duration(e.RetryAfterMs) * time.Millisecond}
	}
	return reply.Result, nil
}
