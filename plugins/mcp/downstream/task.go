package downstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// Methods of tasks, which run in the background of a server.
const (
	TaskGet    = string(mcp.MethodTasksGet)
	TaskResult = string(mcp.MethodTasksResult) // of 2025-11-25
	TaskCancel = string(mcp.MethodTasksCancel)
	TaskUpdate = "tasks/update" // of the extension
)

// States of a task.
const (
	TaskWorking   = "working"
	TaskAsking    = "input_required"
	TaskCompleted = "completed"
	TaskFailed    = "failed"
	TaskCancelled = "cancelled"
)

// Task is what a server says of a task.
type Task struct {
	ID       string
	Status   string
	Message  string
	Interval time.Duration // as the server proposes; 0 = it does not
	// Now is what the model may be told at once.
	Now string
	// Of the extension alone: what came of it, and what it asks.
	Result json.RawMessage
	Err    *RPCError
	Inputs map[string]InputRequest
}

// MayTask reports whether calls of a tool may become tasks on this connection. In
// the newer era the server decides; before, the tool says so.
func (c *Conn) MayTask(tool *Tool) bool {
	if c.modern() {
		var ext map[string]json.RawMessage
		_ = json.Unmarshal(c.Info.Capabilities["extensions"], &ext) // none is no tasks
		_, ok := ext[TasksExtension]
		return ok
	}
	var server struct {
		Requests struct {
			Tools struct {
				Call *struct{} `json:"call"`
			} `json:"tools"`
		} `json:"requests"`
	}
	var x struct {
		Execution struct {
			Tasks string `json:"taskSupport"`
		} `json:"execution"`
	}
	if tool == nil || json.Unmarshal(c.Info.Capabilities["tasks"], &server) != nil || server.Requests.Tools.Call == nil || json.Unmarshal(tool.Extra, &x) != nil {
		return false
	}
	return x.Execution.Tasks == "optional" || x.Execution.Tasks == "required"
}

// Modern reports whether the connection is of the newer era.
func (c *Conn) Modern() bool { return c.modern() }

type taskWire struct {
	Type    string                  `json:"resultType"`
	ID      string                  `json:"taskId"`
	Status  string                  `json:"status"`
	Message string                  `json:"statusMessage"`
	Poll    float64                 `json:"pollInterval"`
	PollMS  float64                 `json:"pollIntervalMs"`
	Result  json.RawMessage         `json:"result"`
	Error   *wireError              `json:"error"`
	Inputs  map[string]InputRequest `json:"inputRequests"`
	Meta    map[string]any          `json:"_meta"`
	Wrapped *taskWire               `json:"task"` // of 2025-11-25
}

type wireError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

const immediateMeta = "io.modelcontextprotocol/model-immediate-response"

// TaskCreated reads a result that is a task instead of an answer; nil = it answers.
func (c *Conn) TaskCreated(raw json.RawMessage) *Task {
	var w taskWire
	if json.Unmarshal(raw, &w) != nil {
		return nil
	}
	now, _ := w.Meta[immediateMeta].(string)
	switch {
	case c.modern() && w.Type == "task":
	case !c.modern() && w.Wrapped != nil && w.Wrapped.ID != "":
		w = *w.Wrapped
	default:
		return nil
	}
	t, err := w.task()
	if err != nil {
		return nil
	}
	t.Now = clip(now, 2000)
	return t
}

// ReadTask reads the answer to tasks/get.
func ReadTask(raw json.RawMessage) (*Task, error) {
	var w taskWire
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, fmt.Errorf("what the server says of the task can't be read: %w", err)
	}
	return w.task()
}

func (w *taskWire) task() (*Task, error) {
	if w.ID == "" || len(w.ID) > 1024 {
		return nil, fmt.Errorf("the server names a task without an id, or with one of %d bytes", len(w.ID))
	}
	t := &Task{ID: w.ID, Status: w.Status, Message: clip(strings.ToValidUTF8(w.Message, "\uFFFD"), 1000), Result: w.Result, Inputs: w.Inputs}
	if len(t.Inputs) > maxInputs {
		return nil, fmt.Errorf("the task asks %d things at once; at most %d are answered", len(t.Inputs), maxInputs)
	}
	if ms := max(w.Poll, w.PollMS); ms > 0 && ms < 1e9 {
		t.Interval = time.Duration(ms) * time.Millisecond
	}
	if w.Error != nil {
		t.Err = &RPCError{Code: w.Error.Code, Message: w.Error.Message, Data: w.Error.Data}
	}
	switch t.Status {
	case TaskWorking, TaskAsking, TaskCompleted, TaskFailed, TaskCancelled:
		return t, nil
	}
	return nil, fmt.Errorf("the task is in a state nobody knows: %q", clip(t.Status, 40))
}

// taskHeader repeats a task's id where the newer revision's servers look for it.
func taskHeader(h http.Header, method string, params json.RawMessage) {
	var p struct {
		ID string `json:"taskId"`
	}
	if strings.HasPrefix(method, "tasks/") && json.Unmarshal(params, &p) == nil {
		if v, ok := mcp.EncodeHeaderValue(p.ID); ok {
			h.Set(mcp.HeaderName, v)
		}
	}
}
