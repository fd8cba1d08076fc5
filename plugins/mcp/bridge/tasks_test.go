package bridge

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func tasking(t *testing.T, era string, general, server conf) *sdktest.Session {
	t.Helper()
	if general == nil {
		general = conf{}
	}
	s := conf{"name": "ask", "command": []string{badtest.Ask(t), era}, "tasks": true}
	for k, v := range server {
		s[k] = v
	}
	general["server"], general["task_poll_min"] = []conf{s}, "10ms"
	session := ending(t, sdktest.Start(t, Plugin(), sdktest.Config(general.String()), sdktest.Granted("shared", "tool:llm_generate")))
	awaitTool(t, session, "ask__work")
	return session
}

var taskID = regexp.MustCompile(`t_[a-z0-9]+`)

// started starts a task and gives its id; it is written down by then.
func started(t *testing.T, s *sdktest.Session, args string) string {
	t.Helper()
	r := s.Call("ask__work", args)
	r.WantText("started as a background task")
	id := taskID.FindString(r.Text)
	if raw, ok := s.Host.State(taskPrefix + id); !ok || strings.Contains(string(raw), "hunter2") {
		t.Fatalf("the task is not written down, or with a secret: %s", raw)
	}
	return id
}

// told waits for the word of a task.
func told(t *testing.T, s *sdktest.Session, id string) sdk.Event {
	t.Helper()
	var found sdk.Event
	badtest.Await(t, "the word of "+id, func() bool {
		n := 0
		for _, e := range s.Host.Events() {
			if e.DedupID == id {
				found = e
				n++
			}
		}
		if n > 1 {
			t.Fatalf("%s was told %d times", id, n)
		}
		return n == 1
	})
	return found
}

func ledger(t *testing.T, s *sdktest.Session, id string) (r taskRecord) {
	t.Helper()
	raw, _ := s.Host.State(taskPrefix + id)
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTasks(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := tasking(t, era, nil, conf{"elicitation": json.RawMessage(`{"defaults":{"name":"Ada"}}`)})
			s.Call("ask__work", `{}`).WantText("done at once")
			id := started(t, s, `{"task":true,"steps":3,"password":"hunter2"}`)
			e := told(t, s, id)
			if !strings.Contains(e.Text, "is done") || !strings.Contains(e.Text, "worked") || e.Kind != "mcp_task" {
				t.Errorf("%+v", e)
			}
			badtest.Await(t, "the ledger", func() bool { return ledger(t, s, id).Delivered })

			id = started(t, s, `{"task":true,"schema":`+wantsName+`}`)
			if e := told(t, s, id); !strings.Contains(e.Text, "Ada") || !strings.Contains(e.Text, "asked one question") {
				t.Errorf("%+v", e)
			}
			if e := told(t, s, started(t, s, `{"task":true,"fails":true}`)); !strings.Contains(e.Text, "failed: it went wrong") {
				t.Errorf("%+v", e)
			}
			if e := told(t, s, started(t, s, `{"task":true,"forgets":true}`)); !strings.Contains(e.Text, "was lost") {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestTasksAreStopped(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := tasking(t, era, nil, conf{"task_timeout": "1s"})
			id := started(t, s, `{"task":true,"steps":1000000}`)
			s.Call("mcp_cancel_task", `{"task_id":"`+id+`"}`, sdktest.InSession("another")).WantError("not_found", "no background task")
			s.Call("mcp_cancel_task", `{"task_id":"t_nothing"}`).WantError("not_found", "no background task")
			s.Call("mcp_cancel_task", `{"task_id":"`+id+`"}`).WantText("is cancelled")
			s.Call("mcp_cancel_task", `{"task_id":"`+id+`"}`).WantText("had ended already")
			if r := ledger(t, s, id); r.Status != "cancelled" || !r.Delivered {
				t.Errorf("%+v", r)
			}
			id = started(t, s, `{"task":true,"steps":1000000}`)
			if e := told(t, s, id); !strings.Contains(e.Text, "ran out of time") {
				t.Errorf("%+v", e)
			}
			for _, e := range s.Host.Events() {
				if strings.Contains(e.Text, "was cancelled by") {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

// There are only so many tasks of a session and in all.
func TestTaskLimits(t *testing.T) {
	s := tasking(t, "modern", conf{"max_tasks": 3, "max_tasks_per_session": 2}, nil)
	long := `{"task":true,"steps":1000000}`
	first := started(t, s, long)
	started(t, s, long)
	r := s.Call("ask__work", long)
	r.WantError("unavailable", "max_tasks_per_session")
	if !strings.Contains(r.Message, first) {
		t.Errorf("the running ones are not named: %s", r.Message)
	}
	s.Call("ask__work", long, sdktest.InSession("another")).WantText("started")
	s.Call("ask__work", long, sdktest.InSession("a third")).WantError("unavailable", "max_tasks)")
	s.Call("mcp_cancel_task", `{"task_id":"`+first+`"}`).WantText("is cancelled")
	s.Call("ask__work", long, sdktest.InSession("a third")).WantText("started")
}

// New settings that take a server away, or its tasks, end what runs there.
func TestTasksEndWithTheirServer(t *testing.T) {
	s := tasking(t, "modern", nil, nil)
	id := started(t, s, `{"task":true,"steps":1000000}`)
	s.Configure(conf{"server": []conf{}}.String())
	if e := told(t, s, id); !strings.Contains(e.Text, "was cancelled") {
		t.Errorf("%+v", e)
	}
	if hasTool(s, "mcp_cancel_task") || hasTool(s, "mcp_answer") {
		t.Error("tools of what no server has are still offered")
	}
}

// A server that dies for good loses its tasks after so many looks.
func TestTasksOfADeadServer(t *testing.T) {
	s := tasking(t, "modern", conf{"task_poll_failures": 2, "task_poll_max": "20ms"}, nil)
	id := started(t, s, `{"task":true,"steps":1000000}`)
	s.Call("ask__ask", `{"times":0,"die":true,"schema":`+wantsName+`}`)
	if e := told(t, s, id); !strings.Contains(e.Text, "was lost") {
		t.Errorf("%+v", e)
	}
}
