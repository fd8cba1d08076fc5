package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// startAsking starts the bridge with a server of an era and an elicitation block.
func startAsking(t *testing.T, era, elicitation string, more ...sdktest.Option) *sdktest.Session {
	t.Helper()
	s := conf{"name": "ask", "command": []string{badtest.Ask(t), era}}
	if elicitation != "" {
		s["elicitation"] = json.RawMessage(elicitation)
	}
	opts := append([]sdktest.Option{sdktest.Config(conf{"server": []conf{s}}.String()), sdktest.Granted("shared", "tool:llm_generate", "tool:my_answerer", "turns")}, more...)
	session := ending(t, sdktest.Start(t, Plugin(), opts...))
	awaitTool(t, session, "ask__ask")
	return session
}

var eras = []string{"legacy", "modern"}

// model answers llm_generate with a fixed text and keeps what it was sent.
type model struct {
	mu    sync.Mutex
	sent  []string
	reply string
}

func (m *model) serve(s *sdktest.Session) {
	s.Host.Tool("llm_generate", func(args json.RawMessage) (sdk.Result, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sent = append(m.sent, string(args))
		if m.reply == "" {
			return sdk.Result{}, sdk.Errorf(sdk.Unavailable, "no model")
		}
		return sdk.JSON(map[string]string{"message": m.reply})
	})
}

const (
	wantsName    = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	wantsBoth    = `{"type":"object","properties":{"mailbox":{"type":"string"},"name":{"type":"string"}},"required":["name"]}`
	wantsConfirm = `{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}`
	mayConfirm   = `{"type":"object","properties":{"name":{"type":"string"},"confirm":{"type":"boolean","default":true}}}`
	wantsSecret  = `{"type":"object","properties":{"note":{"type":"string","description":"Your password"}}}`
	wantsColor   = `{"type":"object","properties":{"color":{"type":"string","enum":["red","blue"]}},"required":["color"]}`
	withDefaults = `{"type":"object","properties":{"name":{"type":"string","default":"John"},"n":{"type":"integer","default":30},"ok":{"type":"boolean","default":true}}}`
)

func ask(schema string) string { return `{"message":"Which one?","schema":` + schema + `}` }

// The rules of elicitation, one row each, by which a question of a server of either
// era is answered; what the server got stands in the result.
func TestQuestionsAreAnsweredByTheRules(t *testing.T) {
	for _, era := range eras {
		for name, c := range map[string]struct {
			elicitation, args, reply string
			got, note                string // parts of the result; "" = must not be a note
		}{
			"defaults that cover all":        {`{"defaults":{"Name":"Ada"}}`, ask(wantsName), "", `"content":{"name":"Ada"}`, "from configured defaults"},
			"defaults beat decisions":        {`{"defaults":{"confirm":"true"}}`, ask(wantsConfirm), "", `"content":{"confirm":true}`, "answered"},
			"defaults don't beat secrets":    {`{"defaults":{"note":"x"}}`, ask(wantsSecret), "", `"action":"decline"`, "credential (password)"},
			"model":                          {``, ask(wantsName), `{"action":"accept","content":{"name":"Ada","x":1}}`, `"content":{"name":"Ada"}`, "by the responder"},
			"model with defaults":            {`{"defaults":{"mailbox":"work"}}`, ask(wantsBoth), `Sure: {"action":"accept","content":{"NAME":"Ada","mailbox":"home"}}`, `"content":{"mailbox":"work","name":"Ada"}`, "by the responder"},
			"model declines":                 {``, ask(wantsName), `{"action":"decline"}`, `"action":"decline"`, "Ask the user"},
			"model is wrong":                 {``, ask(wantsName), `{"action":"accept","content":{"name":5}}`, `"action":"decline"`, "does not fit"},
			"model fails":                    {``, ask(wantsName), ``, `"action":"decline"`, "nobody could answer"},
			"model decides nothing":          {``, ask(wantsConfirm), `{"action":"accept","content":{"confirm":true}}`, `"action":"decline"`, "is a decision"},
			"optional decisions are left":    {``, ask(mayConfirm), `{"action":"accept","content":{"name":"Ada","confirm":true}}`, `"content":{"name":"Ada"}`, "by the responder"},
			"a parameter of the tool":        {`{"mode":"decline"}`, ask(wantsColor), ``, `"action":"decline"`, "pass color the next time"},
			"denied field":                   {`{"denied_fields":["NAME"]}`, ask(wantsName), `{"action":"accept","content":{"name":"Ada"}}`, `"action":"decline"`, "denied_fields"},
			"mode decline":                   {`{"mode":"decline","defaults":{"name":"Ada"}}`, ask(wantsName), ``, `"action":"decline"`, "not answered"},
			"mode defaults":                  {`{"mode":"defaults","defaults":{"n":"7"}}`, ask(withDefaults), ``, `"content":{"name":"John","n":7,"ok":true}`, "from defaults"},
			"mode defaults without any":      {`{"mode":"defaults"}`, ask(wantsName), `{"action":"accept","content":{"name":"Ada"}}`, `"action":"decline"`, "defaults for all of it"},
			"nothing asked":                  {``, ask(`{"type":"object","properties":{}}`), ``, `"action":"accept"`, "asks for nothing"},
			"unreadable":                     {``, ask(`{"type":"object","properties":{"a":{"type":"blob"}}}`), ``, `"action":"decline"`, "type"},
			"page":                           {``, `{"message":"Sign in","url":"https://x.example/in"}`, ``, `"action":"decline"`, "page in a browser"},
			"unknown responder is no model":  {`{"responder":"tool:nobody"}`, ask(wantsName), `{"action":"accept","content":{"name":"Ada"}}`, `"action":"decline"`, "lacks the grant tool:nobody"},
			"conversation takes choices":     {`{"responder":"conversation"}`, ask(wantsColor), `{"action":"accept","content":{"color":"blue"}}`, `"content":{"color":"blue"}`, "by the responder"},
			"conversation gives no texts":    {`{"responder":"conversation"}`, ask(wantsName), `{"action":"accept","content":{"name":"Ada"}}`, `"action":"decline"`, "choices only"},
			"no more than max_per_call":      {`{"max_per_call":2,"defaults":{"name":"Ada"}}`, `{"message":"Which?","times":3,"schema":` + wantsName + `}`, ``, `"action":"decline"`, "more than max_per_call 2"},
			"none at all":                    {`{"max_per_call":0,"defaults":{"name":"Ada"}}`, ask(wantsName), ``, `"action":"decline"`, "max_per_call 0"},
			"a tool of another plugin":       {`{"responder":"tool:my_answerer"}`, ask(wantsName), ``, `"content":{"name":"by tool"}`, "by the responder"},
			"a failed call carries the note": {`{"mode":"decline"}`, `{"message":"Which?","fail":true,"schema":` + wantsName + `}`, ``, `no luck`, "declined"},
		} {
			t.Run(era+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := startAsking(t, era, c.elicitation)
				m := &model{reply: c.reply}
				m.serve(s)
				s.Host.Say("user", "make it blue; my password is hunter2")
				s.Host.Tool("my_answerer", func(args json.RawMessage) (sdk.Result, error) {
					if !strings.Contains(string(args), `"message":"Which one?"`) {
						return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "%s", args)
					}
					return sdk.RawJSON(json.RawMessage(`{"action":"accept","content":{"name":"by tool"}}`)), nil
				})
				r := s.Call("ask__ask", c.args)
				text := strings.ReplaceAll(r.Text, `\"`, `"`) + r.Message
				if era == "legacy" && strings.Contains(name, "defaults") { // the library sorts the members of what it reads
					text = strings.ReplaceAll(text, `"n":7,"name":"John"`, `"name":"John","n":7`)
				}
				if !strings.Contains(text, c.got) {
					t.Errorf("the server did not get %s: %s", c.got, text)
				}
				if !strings.Contains(text, "[bulkhead] Server") || !strings.Contains(text, c.note) {
					t.Errorf("the agent is not told %q: %s", c.note, text)
				}
				for _, sent := range m.sent {
					if strings.Contains(sent, "hunter2") {
						t.Errorf("a secret goes to the model: %s", sent)
					}
				}
			})
		}
	}
}

// A server whose questions nobody answers is told so, and others what is answered.
func TestWhatServersAreToldOfQuestions(t *testing.T) {
	for _, era := range eras {
		for mode, want := range map[string]string{"off": `{}`, "auto": `{"elicitation":{"form":{}}}`, "handback": `{"elicitation":{"form":{},"url":{}}}`} {
			if era == "legacy" && mode == "handback" {
				want = `{"elicitation":{"form":{}}}` // nobody can be led to a page while a request waits
			}
			s := startAsking(t, era, `{"mode":"`+mode+`"}`)
			s.Call("ask__stats", `{}`).WantText(`"capabilities":` + want)
		}
		s := startAsking(t, era, `{"mode":"off"}`)
		if r := s.Call("ask__ask", ask(wantsName)); era == "legacy" {
			r.WantText("-32601")
		} else if !strings.Contains(r.Text, "decline") {
			t.Errorf("%+v", r)
		}
	}
}

// What nobody promised is refused: sampling and roots.
func TestOtherRequestsOfServers(t *testing.T) {
	for _, method := range []string{"sampling/createMessage", "roots/list"} {
		s := startAsking(t, "legacy", "")
		s.Call("ask__ask", `{"method":"`+method+`"}`).WantText("-32601")
		s = startAsking(t, "modern", "")
		s.Call("ask__ask", `{"method":"`+method+`"}`).WantError("execution_failed", method)
	}
}

// A call that is lost after a declined question is not sent again behind the agent's
// back, though its tool may be called twice; after an answer it is. A server that
// asks for ever ends.
func TestDeclinedQuestionsEndTheMatter(t *testing.T) {
	for _, era := range eras {
		for elicitation, want := range map[string]string{`{"mode":"decline"}`: "asked one question", `{"defaults":{"name":"Ada"}}`: "asked 2 questions"} {
			s := startAsking(t, era, elicitation)
			r := s.Call("ask__ask_again", `{"message":"Which?","die":true,"schema":`+wantsName+`}`)
			r.WantError("execution_failed", "exit code 7")
			if era == "modern" && strings.Contains(want, "2") {
				want = "sent again" // with the answer there is already
			}
			if !strings.Contains(r.Message, want) || strings.Contains(want, "one") && strings.Contains(r.Message, "sent again") {
				t.Errorf("%s %s: %s", era, elicitation, r.Message)
			}
			s.Call("ask__stats", `{}`).WantText("calls")
		}
	}
	s := startAsking(t, "modern", `{"mode":"decline"}`)
	s.Call("ask__ask", `{"times":1000,"schema":`+wantsName+`}`).WantError("execution_failed", "asked 12 times")
}

// Only the caller's own attempt hands a question back: one that is repeated for it
// gets the responder.
func TestRepeatedCallsAreNotHandedBack(t *testing.T) {
	s := startAsking(t, "modern", `{"mode":"handback"}`)
	(&model{reply: `{"action":"accept","content":{"name":"by model"}}`}).serve(s)
	s.Call("ask__ask_again", `{"message":"Which?","dieOnce":true,"schema":`+wantsName+`}`).WantText("by model")
	r := s.Call("ask__ask_again", `{"message":"Which?","dieOnce":true,"schema":`+wantsName+`}`)
	if len(r.Questions) != 1 || r.Questions[0].Kind != "form" {
		t.Fatalf("%+v", r)
	}
	if _, ok := s.Host.State(pendingPrefix); ok || len(r.State) == 0 {
		t.Errorf("no state: %+v", r)
	}
	r = s.Call("ask__ask_again", `{"message":"Which?","dieOnce":true,"schema":`+wantsName+`}`, sdktest.Answering(r, map[string][2]string{"q0": {"accept", `{"name":"Ada","extra":1}`}}))
	r.WantText("Ada")
	if strings.Contains(r.Text, "extra") {
		t.Errorf("what the form does not ask for was sent: %s", r.Text)
	}
}

// Rounds in one call, several questions in one round, with and without a state.
func TestRounds(t *testing.T) {
	s := startAsking(t, "modern", `{"defaults":{"name":"Ada"},"max_per_call":10}`)
	s.Call("ask__ask", `{"times":3,"schema":`+wantsName+`}`).WantText(`state "round-3"`)
	s.Call("ask__ask", `{"noState":true,"schema":`+wantsName+`}`).WantText(`state ""`)
	r := s.Call("ask__ask", `{"keys":4,"schema":`+wantsName+`}`)
	if n := strings.Count(r.Text, `\"name\":\"Ada\"`); n != 4 && strings.Count(r.Text, `"name":"Ada"`) != 4 {
		t.Errorf("%d of 4 answers: %s", n, r.Text)
	}
	s.Call("ask__ask", `{"keys":17,"schema":`+wantsName+`}`).WantError("execution_failed", "17 things")
}

// Two calls of a server of the older revisions: a question on the connection may be
// either's, so both are booked with it and the model is told of both.
func TestQuestionsOfOneOfTwoCalls(t *testing.T) {
	s := startAsking(t, "legacy", "")
	m := &model{reply: `{"action":"decline"}`}
	m.serve(s)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			s.Call("ask__ask", fmt.Sprintf(`{"message":"Which?","color":"c%d","times":2,"schema":%s}`, i, wantsName))
		})
	}
	wg.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	both := 0
	for _, sent := range m.sent {
		if strings.Contains(sent, "c0") && strings.Contains(sent, "c1") {
			both++
		}
	}
	t.Logf("%d of %d questions were asked while both ran", both, len(m.sent))
	if len(m.sent) == 0 {
		t.Error("no question reached the model")
	}
}

// A worker passes on what its server asks, of either era, and tasks with it.
func TestQuestionsThroughAWorker(t *testing.T) {
	for _, era := range eras {
		s := tasking(t, era, nil, conf{"isolation": "server", "elicitation": json.RawMessage(`{"defaults":{"name":"Ada"}}`)})
		s.Call("ask__ask", ask(wantsName)).WantText("asked one question")
		if e := told(t, s, started(t, s, `{"task":true,"schema":`+wantsName+`}`)); !strings.Contains(e.Text, "Ada") {
			t.Errorf("%s: %+v", era, e)
		}
	}
}

// A question that was handed back is answered by the bridge's own tool, and the call
// goes on: with the next question, then with its result.
func TestAnswersByTheTool(t *testing.T) {
	s := startAsking(t, "modern", `{"mode":"handback"}`)
	awaitTool(t, s, "mcp_answer")
	for _, how := range []string{`"answers":{"name":"Ada"}`, `"answers":"{\"name\":\"Ada\"}"`} {
		r := s.Call("ask__ask", `{"message":"Which?","schema":`+wantsName+`}`)
		if len(r.Questions) != 1 || r.Questions[0].Open == "" {
			t.Fatalf("%+v", r)
		}
		id := r.Questions[0].Open
		s.Call("mcp_answer", `{"question_id":"`+id+`",`+how+`}`).WantText("Ada")
		s.Call("mcp_answer", `{"question_id":"`+id+`",`+how+`}`).WantError("not_found", id)
	}
	r := s.Call("ask__ask", `{"message":"Which?","schema":`+wantsName+`}`)
	if r := s.Call("mcp_answer", `{"question_id":"`+r.Questions[0].Open+`","decline":true}`); !strings.Contains(r.Text, "declined") {
		t.Errorf("%+v", r)
	}
	s.Call("mcp_answer", `{"question_id":"q_none","answers":{"name":"Ada"}}`).WantError("not_found", "q_none")
	s.Call("mcp_answer", `{"question_id":"q_none"}`).WantError("invalid_arguments", "answers are missing")
}
