package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// newAsking is a bridge with a server that asks; ASK stands for its program.
func newAsking(t *testing.T, servers string, more ...string) *world {
	t.Helper()
	servers = strings.ReplaceAll(servers, "ASK", fmt.Sprintf("%q", testbin.Build(t, module+"plugins/mcp/testdata/askserver")))
	w, _ := newBridge(t, servers)
	raw, err := os.ReadFile(filepath.Join(w.dir, "config.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("config.hcl", string(raw)+strings.Join(more, ""))
	w.serve()
	w.awaitTool("ask__ask")
	return w
}

const handingBack = `
    server "ask" {
      command = [ASK, "modern"]
      elicitation {
        mode     = "handback"
        defaults = { mailbox = "work" }
      }
    }
`

const (
	askName    = `{"message":"Who is it?","schema":{"type":"object","properties":{"mailbox":{"type":"string"},"name":{"type":"string"}},"required":["name"]}}`
	askConfirm = `{"message":"Delete 12 rows?","schema":{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}}`
)

var questionID = regexp.MustCompile(`q_[a-z0-9]+`)

// in is a caller in one session of the HTTP API.
func (w *world) in(session string) func(tool, args string) api.CallResult {
	a := w.as("")
	return func(tool, args string) api.CallResult {
		w.t.Helper()
		got := a.call(tool, args, "Bulkhead-Session", session)
		return into[api.CallResult](got, got.code) // the body has the same shape whatever the status
	}
}

func said(r api.CallResult) string {
	raw, err := json.Marshal(r.Content)
	if err != nil {
		panic(err) // it came as JSON
	}
	return strings.ReplaceAll(string(raw), `\"`, `"`)
}

func asks(t *testing.T, r api.CallResult) string {
	t.Helper()
	id := questionID.FindString(said(r))
	if id == "" || r.Error == nil || r.Error.Code != "interrupted" {
		t.Fatalf("no question: %s %+v", said(r), r.Error)
	}
	return id
}

// A question goes to the agent at once; only its own session answers it, once, with
// what fits; the call then goes on with the server's own state.
func TestHandback(t *testing.T) {
	w := newAsking(t, handingBack)
	call, other := w.in("talk"), w.in("elsewhere")
	begin := time.Now()
	r := call("ask__ask", askName)
	id := asks(t, r)
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("the agent waited %s for its own question", d)
	}
	for _, want := range []string{"Who is it?", `"name"`, "an answer fits"} {
		if !strings.Contains(said(r), want) {
			t.Errorf("the question lacks %s: %s", want, said(r))
		}
	}
	if strings.Contains(said(r), "mailbox") {
		t.Errorf("what the settings answer is asked: %s", said(r))
	}
	strange := said(other("mcp_answer", `{"question_id":"`+id+`","answers":{"name":"Eve"}}`))
	unknown := said(other("mcp_answer", `{"question_id":"q_nothing","answers":{"name":"Eve"}}`))
	if strings.ReplaceAll(strange, id, "ID") != strings.ReplaceAll(unknown, "q_nothing", "ID") || !strings.Contains(unknown, "no question") {
		t.Errorf("a question of another session differs from none:\n%s\n%s", strange, unknown)
	}
	for name, bad := range map[string]string{"type": `"answers":{"name":7}`, "missing": `"answers":{}`, "none": `"x":1`, "no object": `"answers":[1]`} {
		if r := call("mcp_answer", `{"question_id":"`+id+`",`+bad+`}`); r.Error == nil || r.Error.Code != "invalid_arguments" {
			t.Errorf("%s: %s %+v", name, said(r), r.Error)
		}
	}
	r = call("mcp_answer", `{"question_id":"`+id+`","answers":{"name":"Ada"}}`)
	for _, want := range []string{`"content":{"mailbox":"work","name":"Ada"}`, `state "round-1"`, "asked one question"} {
		if r.IsError || !strings.Contains(said(r), want) {
			t.Errorf("the result lacks %s: %s", want, said(r))
		}
	}
	if r := call("mcp_answer", `{"question_id":"`+id+`","answers":{"name":"Eve"}}`); r.Error == nil {
		t.Errorf("answered twice: %s", said(r))
	}

	t.Run("rounds", func(t *testing.T) {
		id := asks(t, call("ask__ask", strings.Replace(askName, "{", `{"times":2,`, 1)))
		r := call("mcp_answer", `{"question_id":"`+id+`","answers":"{\"name\":\"Ada\"}"}`)
		next := questionID.FindString(said(r))
		if r.IsError || next == "" || next == id {
			t.Fatalf("no second question: %s", said(r))
		}
		r = call("mcp_answer", `{"question_id":"`+next+`","answers":{"name":"Bob"}}`)
		if !strings.Contains(said(r), "Bob") || !strings.Contains(said(r), "asked 2 questions") {
			t.Error(said(r))
		}
	})
	t.Run("declined", func(t *testing.T) {
		id := asks(t, call("ask__ask", askName))
		if r := call("mcp_answer", `{"question_id":"`+id+`","decline":true}`); !strings.Contains(said(r), `"action":"decline"`) {
			t.Error(said(r))
		}
	})
	t.Run("decision", func(t *testing.T) {
		id := asks(t, call("ask__ask", askConfirm))
		yes := `{"question_id":"` + id + `","answers":{"confirm":true}}`
		if r := call("mcp_answer", yes); r.Error == nil || !strings.Contains(said(r), "ask the user") {
			t.Fatalf("an agent decided: %s", said(r))
		}
		a := w.as("")
		a.do("POST", "/v1/sessions/talk/turns", `{"role":"user","text":"sure","author":"another agent"}`)
		if r := call("mcp_answer", yes); r.Error == nil {
			t.Fatalf("an agent's words decided: %s", said(r))
		}
		a.do("POST", "/v1/sessions/talk/turns", `{"role":"user","text":"yes, delete them"}`)
		if r := call("mcp_answer", yes); !strings.Contains(said(r), `"confirm":true`) {
			t.Error(said(r))
		}
	})
	t.Run("by the server's own name", func(t *testing.T) {
		id := asks(t, call("mcp_invoke_tool", `{"server_name":"ask","tool_name":"ask","arguments":`+askName+`}`))
		if r := call("mcp_answer", `{"question_id":"`+id+`","answers":{"name":"Ada"}}`); !strings.Contains(said(r), "Ada") {
			t.Error(said(r))
		}
	})
	t.Run("by repeating the call", func(t *testing.T) {
		id := asks(t, call("ask__ask", askName))
		w.ok("answer", id, "name=Ada")
		if r := call("ask__ask", askName); r.IsError || !strings.Contains(said(r), "Ada") {
			t.Error(said(r))
		}
	})
	t.Run("page", func(t *testing.T) {
		r := call("ask__ask", `{"message":"Sign in","url":"https://x.example/in"}`)
		id := asks(t, r)
		if !strings.Contains(said(r), "https://x.example/in") {
			t.Error(said(r))
		}
		if r := call("mcp_answer", `{"question_id":"`+id+`","answers":{}}`); !strings.Contains(said(r), `"action":"accept"`) {
			t.Error(said(r))
		}
	})
}

// An open question outlives the bridge's process and the host's.
func TestHandbackSurvivesRestarts(t *testing.T) {
	w := newAsking(t, handingBack)
	id := asks(t, w.in("talk")("ask__ask", askName))
	before := w.plugin("mcp")
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testbin.Await(t, 10*time.Second, "the bridge to be back", func() bool {
		p := w.plugin("mcp")
		return p.State == "ready" && p.Generation > before.Generation
	})
	w.kill()
	w.serve()
	w.awaitTool("ask__ask")
	r := w.in("talk")("mcp_answer", `{"question_id":"`+id+`","answers":{"name":"Ada"}}`)
	if r.IsError || !strings.Contains(said(r), `state "round-1"`) || !strings.Contains(said(r), "Ada") {
		t.Errorf("%s %+v", said(r), r.Error)
	}
}

// Past its limits, and where the caller can't answer, a question is declined in the
// call; one nobody answers expires.
func TestHandbackLimits(t *testing.T) {
	w := newAsking(t, "    max_pending_questions_per_session = 1\n"+strings.Replace(handingBack, "elicitation {", "handback_ttl = \"3s\"\n      elicitation {", 1))
	call := w.in("talk")
	asks(t, call("ask__ask", askName))
	r := call("ask__ask", strings.Replace(askName, "Who", "What", 1))
	if r.IsError || !strings.Contains(said(r), `"action":"decline"`) || !strings.Contains(said(r), "max_pending_questions_per_session") {
		t.Errorf("%s", said(r))
	}
	asks(t, w.in("another")("ask__ask", askName))
	testbin.Await(t, 30*time.Second, "the expiry to be told", func() bool {
		return strings.Contains(said(call("inbox_read", `{}`)), "nobody answered in time")
	})
	asks(t, call("ask__ask", strings.Replace(askName, "Who", "Why", 1)))
}

// Past the host's own limits too: the call goes on without an answer.
func TestHandbackPastTheHostsLimits(t *testing.T) {
	w := newAsking(t, "    max_pending_questions_per_session = 100\n"+handingBack)
	call := w.in("talk")
	for i := range 5 {
		asks(t, call("ask__ask", strings.Replace(askName, "Who", fmt.Sprintf("Who%d", i), 1)))
	}
	r := call("ask__ask", askName)
	if r.IsError || !strings.Contains(said(r), `"action":"decline"`) || !strings.Contains(said(r), "5 questions are open in this session") {
		t.Errorf("%s %+v", said(r), r.Error)
	}
}

// Clients that can show forms are shown them: in the newer era by the result, in
// the older while the call waits.
func TestHandbackToClientsWithForms(t *testing.T) {
	w := newAsking(t, handingBack)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for _, tool := range []string{"ask__ask", "mcp_invoke_tool"} {
			t.Run(version+"/"+tool, func(t *testing.T) {
				s := connect(t, w, version, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					if !strings.Contains(r.Params.Message, "Who is it?") {
						t.Errorf("asked %q", r.Params.Message)
					}
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
				}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				args := askName
				if tool != "ask__ask" {
					args = `{"server_name":"ask","tool_name":"ask","arguments":` + askName + `}`
				}
				r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
				if err != nil || r.IsError || !strings.Contains(text(t, r), `"name":"Ada"`) {
					t.Errorf("%v %+v", err, r)
				}
			})
		}
	}
}

// A restricted tool called by way of another comes back with its question in time,
// and runs when it was approved.
func TestApprovalThroughInvokeTool(t *testing.T) {
	w := newAsking(t, "    server \"ask\" {\n      command = [ASK, \"modern\"]\n      tier    = \"restricted\"\n    }\n", "policy {\n  approval_reply_after = \"1s\"\n}\n")
	call := w.in("talk")
	args := `{"server_name":"ask","tool_name":"stats"}`
	r := call("mcp_invoke_tool", args)
	id := questionID.FindString(said(r))
	if r.Error == nil || r.Error.Ref != "BH5005" || id == "" {
		t.Fatalf("%s %+v", said(r), r.Error)
	}
	w.ok("approve", id)
	if r := call("mcp_invoke_tool", args); r.IsError || !strings.Contains(said(r), `"calls":1`) {
		t.Errorf("%s %+v", said(r), r.Error)
	}
}

// A server's tier is the operator's word: it lowers and raises, and follows a reload.
func TestServerTiers(t *testing.T) {
	w := newAsking(t, "    server \"ask\" {\n      command = [ASK, \"modern\"]\n      tier    = \"standard\"\n    }\n    server \"plain\" {\n      command = [ASK]\n    }\n")
	w.awaitTool("plain__ask")
	for tool, want := range map[string]string{"ask__ask": `"tier": "standard"`, "plain__ask": `"tier": "elevated"`} {
		if out := w.ok("tools", tool, "--json"); !strings.Contains(out, want) {
			t.Errorf("%s: %s", tool, out)
		}
	}
	raw, err := os.ReadFile(filepath.Join(w.dir, "config.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("config.hcl", strings.Replace(string(raw), `"standard"`, `"restricted"`, 1))
	w.ok("reload")
	testbin.Await(t, 30*time.Second, "the new tier", func() bool {
		out, _, code := w.runQuiet("tools", "ask__ask", "--json")
		return code == 0 && strings.Contains(out, `"tier": "restricted"`)
	})
}
