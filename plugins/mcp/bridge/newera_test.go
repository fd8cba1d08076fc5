package bridge

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// overHTTP runs the asking server over HTTP, so that it outlives bridges.
func overHTTP(t *testing.T) conf {
	t.Helper()
	port := freePort(t)
	serve(t, port, exec.Command(badtest.Ask(t), "http=127.0.0.1:"+port))
	return conf{"name": "ask", "url": "http://127.0.0.1:" + port + "/mcp", "tasks": true}
}

func fullConfig(general conf, servers ...conf) sdktest.Option {
	if general == nil {
		general = conf{}
	}
	general["server"], general["task_poll_min"] = servers, "10ms"
	return sdktest.Config(general.String())
}

// A task goes on while the bridge is away. What ended before a crash and was not
// told is told afterwards, once.
func TestTasksOutliveTheBridge(t *testing.T) {
	server := overHTTP(t)
	s := ending(t, sdktest.Start(t, Plugin(), fullConfig(nil, server)))
	awaitTool(t, s, "ask__work")
	running := started(t, s, `{"task":true,"steps":40}`)
	untold := started(t, s, `{"task":true}`)
	told(t, s, untold)
	badtest.Await(t, "the ledger", func() bool { return ledger(t, s, untold).Delivered })

	next := ending(t, sdktest.Start(t, Plugin(), fullConfig(nil, server), sdktest.Unconfigured()))
	for _, id := range []string{running, untold} {
		r := ledger(t, s, id)
		r.Delivered = false
		next.Host.SetState(taskPrefix+id, mustJSON(r))
	}
	old := taskRecord{ID: "t_old", Server: "ask", Delivered: true, Status: downstream.TaskCompleted, Resolved: time.Now().Add(-25 * time.Hour)}
	gone := taskRecord{ID: "t_gone", Server: "elsewhere", Session: "test-session", Status: downstream.TaskWorking, Expires: time.Now().Add(time.Hour)}
	next.Host.SetState(taskPrefix+old.ID, mustJSON(old))
	next.Host.SetState(taskPrefix+gone.ID, mustJSON(gone))
	next.Configure(conf{"server": []conf{server}, "task_poll_min": "10ms"}.String())
	next.Activate()
	for id, want := range map[string]string{running: "is done", untold: "is done", gone.ID: "was lost"} {
		if e := told(t, next, id); !strings.Contains(e.Text, want) {
			t.Errorf("%s: %+v", id, e)
		}
	}
	badtest.Await(t, "the old record to be forgotten", func() bool { _, ok := next.Host.State(taskPrefix + old.ID); return !ok })
}

// A question of a task is asked in its session while the task is looked at further.
func TestTaskHandsBack(t *testing.T) {
	server := overHTTP(t)
	server["elicitation"] = json.RawMessage(`{"mode":"handback","defaults":{"mailbox":"work"}}`)
	s := ending(t, sdktest.Start(t, Plugin(), fullConfig(nil, server)))
	awaitTool(t, s, "ask__work")
	asked := make(chan sdktest.Question, 4)
	s.Host.Answer(func(q sdktest.Question) sdk.Answer {
		asked <- q
		return sdk.Answer{Action: "accept", Content: json.RawMessage(`{"name":"Ada"}`), AnsweredBy: "tester"}
	})
	id := started(t, s, `{"task":true,"message":"Which?","schema":`+wantsBoth+`}`)
	e := told(t, s, id)
	if !strings.Contains(e.Text, "Ada") || !strings.Contains(e.Text, "work") {
		t.Errorf("%+v", e)
	}
	q := <-asked
	if len(asked) > 0 || q.Kind != "form" || strings.Contains(string(q.Schema), "mailbox") || !strings.Contains(q.Message, "Which?") {
		t.Errorf("%d more, %+v", len(asked), q)
	}
}

// What changes is told over the subscription of the newer era, on both transports.
func TestListChangedOverASubscription(t *testing.T) {
	for name, server := range map[string]conf{"http": overHTTP(t), "stdio": {"name": "ask", "command": []string{badtest.Ask(t), "modern"}}} {
		t.Run(name, func(t *testing.T) {
			s := ending(t, sdktest.Start(t, Plugin(), fullConfig(conf{"surface_refresh": "0s"}, server)))
			awaitTool(t, s, "ask__grow")
			if hasTool(s, "ask__grown") {
				t.Fatal("the tool is there already")
			}
			s.Call("ask__grow", `{}`).WantText("grown")
			awaitTool(t, s, "ask__grown")
		})
	}
}

// Completions go to the server a prompt or template is of, and come back as they are.
func TestCompletions(t *testing.T) {
	for _, era := range eras {
		s := startAsking(t, era, "")
		for _, c := range []struct{ kind, ref, want string }{
			{"prompt", "ask__plan", `"ref":{"type":"ref/prompt","name":"plan"}`},
			{"resource", "ask://item/{id}", `"ref":{"type":"ref/resource","uri":"ask://item/{id}"}`},
		} {
			raw := s.Call(c.ref, "{}", sdktest.Completing(c.kind, c.ref, "topic", "o", `{"style":"short"}`)).Raw
			for _, want := range []string{c.want, `"values":["one","two"]`, "12345678901234567890", `"argument":{"name":"topic","value":"o"}`, `"context":{"arguments":{"style":"short"}}`} {
				if !strings.Contains(string(raw), want) {
					t.Errorf("%s %s: %s lacks %s", era, c.kind, raw, want)
				}
			}
		}
		if raw := s.Call("nobody__s", "{}", sdktest.Completing("prompt", "nobody__s", "a", "b", "")).Raw; !strings.Contains(string(raw), `"values":[]`) {
			t.Errorf("%s", raw)
		}
	}
}

// Servers nobody here wrote ask, and run tasks.
func TestServersOfOthersAsk(t *testing.T) {
	bin := badtest.Build(t, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	for mode, tools := range map[string]map[string]string{
		"false": {"test_elicitation": "action=accept", "test_elicitation_sep1034_defaults": "action=accept"},
		"true": {"test_input_required_result_elicitation": "Hello, Ada!", "test_input_required_result_request_state": "state-ok", "test_input_required_result_multi_round": "Ada likes red",
			"test_input_required_result_tampered_state": "state-ok", "test_input_required_result_capabilities": "fulfilled"},
	} {
		port := freePort(t)
		serve(t, port, exec.Command(bin, "-http=127.0.0.1:"+port, "-stateless="+mode))
		s := start(t, nil, conf{"name": "go", "url": "http://127.0.0.1:" + port, "elicitation": json.RawMessage(
			`{"mode":"defaults","defaults":{"name":"Ada","color":"red","ok":"true","username":"ada","email":"ada@x.example","response":"yes"}}`)})
		awaitTool(t, s, "go__test_simple_text")
		for tool, want := range tools {
			r := s.Call("go__"+tool, `{"message":"Who?"}`)
			if r.IsError || !strings.Contains(r.Text, want) {
				t.Errorf("stateless=%s %s: %s %s", mode, tool, r.Text, r.Message)
			}
		}
	}
	s := start(t, conf{"task_poll_min": "100ms"}, conf{"name": "everything", "command": npm(t, "server-everything", "stdio"), "tasks": true,
		"elicitation": json.RawMessage(`{"mode":"defaults","defaults":{"interpretation":"snake"}}`)})
	awaitTool(t, s, "everything__simulate-research-query")
	r := s.Call("everything__simulate-research-query", `{"topic":"python","ambiguous":true}`)
	r.WantText("started as a background task")
	if e := told(t, s, taskID.FindString(r.Text)); !strings.Contains(e.Text, "python (snake)") {
		t.Errorf("%s", e.Text)
	}
	if r := s.Call("everything__trigger-elicitation-request", `{}`); !strings.Contains(r.Text, "declined") || !strings.Contains(r.Text, "credential") {
		t.Errorf("a form that speaks of a PIN: %s", r.Text)
	}
}

// Over the older HTTP a server can't be answered, and so is not told that it would;
// over the newer it is. An error that wants a page visited says which.
func TestWhatIsToldOverEachTransport(t *testing.T) {
	for mode, path := range map[string]string{"streamableHttp": "/mcp", "sse": "/sse"} {
		argv := npm(t, "server-everything", mode)
		port := freePort(t)
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "PORT="+port)
		serve(t, port, cmd)
		s := start(t, nil, conf{"name": "everything", "url": "http://127.0.0.1:" + port + path})
		awaitTool(t, s, "everything__echo")
		if got := hasTool(s, "everything__trigger-elicitation-request"); got == (mode == "sse") {
			t.Errorf("%s: offered %v", mode, got)
		}
	}
	s := startAsking(t, "legacy", "")
	s.Call("ask__ask", `{"pages":true,"message":"Sign\nin","url":"https://x.example/in"}`).WantError("auth_required", "https://x.example/in (Sign in)")
}

func TestAggregatorsAreUnwrapped(t *testing.T) {
	twice := `{"serverName":"my-Aggregator","toolName":"invoke_tool","arguments":"{\"serverName\":\"mail\",\"id\":9007199254740993}"}`
	if got := unwrapped("the aggregator", "invoke_tool", json.RawMessage(twice)); string(got) != `{"serverName":"mail","id":9007199254740993}` {
		t.Errorf("%s", got)
	}
	for name, c := range map[string][3]string{
		"other server":  {"mail", "invoke_tool", twice},
		"other tool":    {"aggregator", "send", twice},
		"wrapped once":  {"aggregator", "invoke_tool", `{"serverName":"mail","toolName":"send","arguments":"{}"}`},
		"no JSON":       {"aggregator", "invoke_tool", `{"serverName":"aggregator","toolName":"invoke_tool","arguments":"x"}`},
		"not an object": {"aggregator", "invoke_tool", `{"serverName":"aggregator","toolName":"invoke_tool","arguments":"[1]"}`},
	} {
		if got := unwrapped(c[0], c[1], json.RawMessage(c[2])); string(got) != c[2] {
			t.Errorf("%s: %s", name, got)
		}
	}
}
