package e2e

import (
	"bufio"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// askingHTTP is the address of a server that asks and runs tasks, and that is
// nobody's child.
func askingHTTP(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(testbin.Build(t, module+"plugins/mcp/testdata/askserver"), "http=127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + strings.TrimSpace(line) + "/mcp"
}

var taskID = regexp.MustCompile(`t_[a-z0-9]+`)

// A task's result comes to its session's inbox once, also when the host was killed
// while it ran; what it asks meanwhile is answered like any question.
func TestBackgroundTasks(t *testing.T) {
	w := newAsking(t, `
    task_poll_min = "20ms"
    server "ask" {
      url   = "`+askingHTTP(t)+`"
      tasks = true
      elicitation {
        mode = "handback"
      }
    }
`)
	call := w.in("talk")
	inbox := func(word string) (text string, count int) {
		text = said(call("inbox_read", `{}`))
		return text, strings.Count(text, word)
	}
	start := func(tool, args string) string {
		t.Helper()
		r := call(tool, args)
		id := taskID.FindString(said(r))
		if r.IsError || id == "" || !strings.Contains(said(r), "started as a background task") {
			t.Fatalf("no task: %s %+v", said(r), r.Error)
		}
		return id
	}

	killed := start("ask__work", `{"task":true,"steps":60}`)
	w.kill()
	w.serve()
	w.awaitTool("ask__work")
	call = w.in("talk") // the door has another port now
	testbin.Await(t, 30*time.Second, "the result", func() bool { _, n := inbox(killed + ` (`); return n > 0 })
	if text, n := inbox("Background task " + killed); n != 1 || !strings.Contains(text, "is done") || !strings.Contains(text, "worked") {
		t.Errorf("told %d times: %s", n, text)
	}
	if r := call("get_from_working_memory", `{"key":"mcp-task/ask/`+killed+`/result"}`); r.IsError || !strings.Contains(said(r), "worked") {
		t.Errorf("%s %+v", said(r), r.Error)
	}

	asking := start("mcp_invoke_tool", `{"server_name":"ask","tool_name":"work","arguments":{"task":true,"message":"Which one?","schema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`)
	var id string
	testbin.Await(t, 30*time.Second, "the question", func() bool {
		text, _ := inbox("")
		id = questionID.FindString(text)
		return id != ""
	})
	if r := w.in("elsewhere")("mcp_answer", `{"question_id":"`+id+`","answers":{"name":"Eve"}}`); r.Error == nil || r.Error.Code != "not_found" {
		t.Errorf("another session answered: %s", said(r))
	}
	if r := call("mcp_answer", `{"question_id":"`+id+`","answers":{"name":"Ada"}}`); r.IsError || !strings.Contains(said(r), "settled") {
		t.Errorf("%s %+v", said(r), r.Error)
	}
	testbin.Await(t, 30*time.Second, "the result", func() bool { _, n := inbox("Background task " + asking); return n > 0 })
	if text, _ := inbox(""); !strings.Contains(text, "Ada") {
		t.Error(text)
	}

	long := start("ask__work", `{"task":true,"steps":1000000}`)
	if r := w.in("elsewhere")("mcp_cancel_task", `{"task_id":"`+long+`"}`); r.Error == nil {
		t.Errorf("another session cancelled: %s", said(r))
	}
	if r := call("mcp_cancel_task", `{"task_id":"`+long+`"}`); r.IsError {
		t.Errorf("%s", said(r))
	}
	// Its ending is no news to whoever ended it.
	if _, n := inbox("Background task " + long); n != 0 {
		t.Errorf("told %d times", n)
	}
}
