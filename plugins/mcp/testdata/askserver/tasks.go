package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// task is a call that runs in the background: a step for every look at it.
type task struct {
	a         asked
	left      int
	answers   []string
	cancelled bool
	asking    bool
}

const stamp = `"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"`

func (s *server) work(p callParams, a asked) (string, int, string) {
	var caps struct{ Extensions map[string]json.RawMessage }
	_ = json.Unmarshal(p.Meta["io.modelcontextprotocol/clientCapabilities"], &caps) // none is no tasks
	_, may := caps.Extensions["io.modelcontextprotocol/tasks"]
	if !a.Task || s.modern && !may || !s.modern && len(p.Task) == 0 {
		return textResult("done at once"), 0, ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("srv-%d-%d", time.Now().UnixNano(), len(s.tasks))
	s.tasks[id] = &task{a: a, left: max(a.Steps, 1)}
	if a.Forgets {
		delete(s.tasks, id)
	}
	if s.modern {
		return fmt.Sprintf(`{"resultType":"task","taskId":%q,"status":"working",%s,"ttlMs":60000,"pollIntervalMs":20}`, id, stamp), 0, ""
	}
	return fmt.Sprintf(`{"task":{"taskId":%q,"status":"working",%s,"ttl":60000,"pollInterval":20}}`, id, stamp), 0, ""
}

func (t *task) status() string {
	switch {
	case t.cancelled:
		return "cancelled"
	case t.left > 0:
		return "working"
	case (t.a.Schema != nil) && len(t.answers) == 0:
		return "input_required"
	case t.a.Fails:
		return "failed"
	}
	return "completed"
}

func (t *task) result() string {
	return textResult("worked; answers " + strings.Join(t.answers, " "))
}

func (s *server) task(m message) (string, int, string) {
	var p struct {
		ID        string                     `json:"taskId"`
		Responses map[string]json.RawMessage `json:"inputResponses"`
	}
	_ = json.Unmarshal(m.Params, &p) // an unknown id is answered below
	s.mu.Lock()
	t := s.tasks[p.ID]
	if t == nil {
		s.mu.Unlock()
		return "", -32602, "unknown task " + p.ID
	}
	defer s.mu.Unlock()
	switch m.Method {
	case "tasks/cancel":
		t.cancelled = true
		if s.modern {
			return `{"resultType":"complete"}`, 0, ""
		}
	case "tasks/update":
		for _, r := range p.Responses {
			t.answers = append(t.answers, string(r))
		}
		return `{"resultType":"complete"}`, 0, ""
	case "tasks/result":
		if t.status() == "input_required" && !t.asking {
			t.asking = true
			s.mu.Unlock()
			got := s.request(t.a, fmt.Sprintf(`{"io.modelcontextprotocol/related-task":{"taskId":%q}}`, p.ID))
			s.mu.Lock()
			t.answers = append(t.answers, got)
		}
		if t.a.Fails {
			return "", -32000, "it went wrong"
		}
		return t.result(), 0, ""
	default:
		t.left--
	}
	status := t.status()
	body := fmt.Sprintf(`"taskId":%q,"status":%q,%s`, p.ID, status, stamp)
	if !s.modern {
		return `{` + body + `,"ttl":60000,"pollInterval":20}`, 0, ""
	}
	body += `,"ttlMs":60000,"pollIntervalMs":20,"resultType":"complete"`
	switch status {
	case "completed":
		body += `,"result":` + t.result()
	case "failed":
		body += `,"error":{"code":-32000,"message":"it went wrong"}`
	case "input_required":
		body += `,"inputRequests":{"q0":{"method":"elicitation/create","params":` + t.a.params() + `}}`
	}
	return `{` + body + `}`, 0, ""
}
