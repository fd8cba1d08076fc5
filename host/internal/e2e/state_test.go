package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
)

// A requestState is for one call: its agent, session, tool and arguments. With any
// other it is refused, and nothing runs; calls asked side by side are answered each
// for itself.
func TestRequestStateIsForOneCall(t *testing.T) {
	w := newAPIWorld(t, instance("fx", "")+instance("fy", ""), "fixture")
	w.serve()
	meta := strings.Replace(modernMeta, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}`, 1)
	call := func(agent, session, tool, arguments, more string) gjson.Result {
		t.Helper()
		a := w.as(agent).do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+more+`,`+meta+`}}`,
			append(modernHeaders("tools/call", tool), "Bulkhead-Session", session)...)
		return gjson.Parse(a.body)
	}
	asked := func(session, tool, arguments string) string {
		t.Helper()
		r := call("ann", session, tool, arguments, "")
		state := r.Get("result.requestState").Str
		if r.Get("result.resultType").Str != "input_required" || state == "" || !r.Get("result.inputRequests.who").Exists() {
			t.Fatalf("%s is not asked: %s", tool, clip(r.Raw))
		}
		return state
	}
	answer := func(state, name string) string {
		return fmt.Sprintf(`,"requestState":%q,"inputResponses":{"who":{"action":"accept","content":{"name":%q}}}`, state, name)
	}
	one, two := asked("s1", "fx_ask", `{"n":1}`), asked("s1", "fx_ask", `{"n":2}`)
	elsewhere := asked("s2", "fx_ask", `{"n":1}`)
	tampered := one[:len(one)-4] + "AAAA"
	const other, forged = "belongs to another call", "was not issued to this agent"
	for name, c := range map[string]struct{ agent, session, tool, arguments, state, want string }{
		"other arguments":                  {"ann", "s1", "fx_ask", `{"n":3}`, one, other},
		"the other question's call":        {"ann", "s1", "fx_ask", `{"n":2}`, one, other},
		"the same call, another session":   {"ann", "s2", "fx_ask", `{"n":1}`, one, other},
		"that session's state here":        {"ann", "s1", "fx_ask", `{"n":1}`, elsewhere, other},
		"another tool":                     {"ann", "s1", "fx_echo", `{"n":1}`, one, other},
		"the same tool of another plugin":  {"ann", "s1", "fy_ask", `{"n":1}`, one, other},
		"another agent":                    {"boss", "b2", "fx_ask", `{"n":1}`, one, forged},
		"an agent that may not call it":    {"bob", "b1", "fx_ask", `{"n":1}`, one, forged},
		"a changed state":                  {"ann", "s1", "fx_ask", `{"n":1}`, tampered, forged},
		"the question's id for a state":    {"ann", "s1", "fx_ask", `{"n":1}`, w.openQuestions()[0].ID, forged},
		"nothing for a state, as a string": {"ann", "s1", "fx_ask", `{"n":1}`, "", forged},
	} {
		r := call(c.agent, c.session, c.tool, c.arguments, answer(c.state, "Mallory"))
		if r.Get("error.code").Int() != -32602 || !strings.Contains(r.Get("error.message").Str, c.want) {
			t.Errorf("%s: %s", name, clip(r.Raw))
		}
	}
	if open := w.openQuestions(); len(open) != 3 {
		t.Errorf("after all that %d questions are open: %+v", len(open), open)
	}
	got := map[string]gjson.Result{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for arguments, more := range map[string]string{`{"n":1}`: answer(one, "Ada"), `{"n":2}`: answer(two, "Grace")} {
		wg.Go(func() {
			r := call("ann", "s1", "fx_ask", arguments, more)
			mu.Lock()
			defer mu.Unlock()
			got[arguments] = r
		})
	}
	wg.Wait()
	for arguments, name := range map[string]string{`{"n":1}`: "Ada", `{"n":2}`: "Grace"} {
		if text := got[arguments].Get("result.content.0.text").Str; text != "hello "+name+", state kept, arguments "+arguments {
			t.Errorf("%s answered by %s: %s", arguments, name, clip(got[arguments].Raw))
		}
	}
	// The retry once more runs nothing: it is a call of its own, which asks.
	if r := call("ann", "s1", "fx_ask", `{"n":1}`, answer(one, "Ada")); r.Get("result.resultType").Str != "input_required" {
		t.Errorf("the retry sent twice: %s", clip(r.Raw))
	}
}
