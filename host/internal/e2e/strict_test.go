package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

const fxCall = `"method":"tools/call","params":{"name":"fx_echo","arguments":{}`

// What the revisions say of messages and headers is kept to the letter.
func TestStrictMessages(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann := w.as("ann")
	session := w.initialize("/mcp", ann.token)
	plain := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	inSession := append([]string{"Mcp-Session-Id", session}, plain...)
	modernCall := `{"jsonrpc":"2.0","id":1,` + fxCall + `,` + modernMeta + `}}`
	for name, c := range map[string]struct {
		method, body string
		headers      []string
		code         int
		path, want   string // of the answer's JSON; an empty path looks for want in the text
	}{
		"id null":                {"POST", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, inSession, 400, "error.code", "-32600"},
		"id object":              {"POST", `{"jsonrpc":"2.0","id":{},` + fxCall + `}}`, inSession, 400, "error.code", "-32600"},
		"id true":                {"POST", `{"jsonrpc":"2.0","id":true,` + fxCall + `}}`, inSession, 400, "error.code", "-32600"},
		"id list":                {"POST", `{"jsonrpc":"2.0","id":[],"method":"tools/list"}`, inSession, 400, "error.code", "-32600"},
		"id null, modern":        {"POST", `{"jsonrpc":"2.0","id":null,` + fxCall + `,` + modernMeta + `}}`, modernHeaders("tools/call", "fx_echo"), 400, "error.code", "-32600"},
		"a batch":                {"POST", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, inSession, 400, "error.code", "-32600"},
		"no session":             {"POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, plain, 400, "", "Mcp-Session-Id"},
		"no session, DELETE":     {"DELETE", "", nil, 400, "", "Mcp-Session-Id"},
		"unknown session":        {"POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, append([]string{"Mcp-Session-Id", "made-up"}, plain...), 404, "", "session"},
		"another name in header": {"POST", modernCall, modernHeaders("tools/call", "fx_other"), 400, "error.code", "-32020"},
		"both names in the words": {"POST", modernCall, modernHeaders("tools/call", "fx_other"), 400, "error.message",
			`"header mismatch: Mcp-Name: header value \"fx_other\" does not match body value \"fx_echo\""`},
		"the inner name":         {"POST", modernCall, modernHeaders("tools/call", "_"), 400, "", `header value \"_\" does not match body value \"fx_echo\"`},
		"the id of a mismatch":   {"POST", modernCall, modernHeaders("tools/call", "fx_other"), 400, "id", "1"},
		"a name in base64":       {"POST", modernCall, modernHeaders("tools/call", "=?base64?ZnhfZWNobw==?="), 200, "result.isError", ""},
		"no name":                {"POST", modernCall, modernHeaders("tools/call", ""), 400, "error.code", "-32020"},
		"another method":         {"POST", modernCall, modernHeaders("tools/list", "fx_echo"), 400, "error.code", "-32020"},
		"no version header":      {"POST", modernCall, inSession, 400, "error.code", "-32020"},
		"an older version":       {"POST", modernCall, append([]string{"MCP-Protocol-Version", "2025-11-25"}, inSession...), 400, "error.code", "-32020"},
		"a version without meta": {"POST", `{"jsonrpc":"2.0","id":1,` + fxCall + `}}`, append([]string{"Mcp-Session-Id", session}, modernHeaders("tools/call", "fx_echo")...), 400, "error.code", "-32602"},
		"compressed":             {"POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, append([]string{"Content-Encoding", "gzip"}, inSession...), 415, "error.ref", `"BH1030"`},
		"plain text":             {"POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{"Mcp-Session-Id", session, "Content-Type", "text/plain"}, 415, "error.ref", `"BH1030"`},
		"of no type":             {"POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{"Mcp-Session-Id", session}, 415, "error.ref", `"BH1030"`},
		"with a charset":         {"POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{"Mcp-Session-Id", session, "Content-Type", "application/json; charset=utf-8"}, 200, "id", "1"},
	} {
		a := ann.do(c.method, "/mcp", c.body, c.headers...)
		ok := strings.Contains(a.body, c.want)
		if c.path != "" {
			ok = gjson.Get(a.body, c.path).Raw == c.want
		}
		if a.code != c.code || !ok {
			t.Errorf("%s: %d %s", name, a.code, clip(a.body))
		}
	}
	if code, body := w.post("/mcp", ann.token, session, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); code != 200 {
		t.Errorf("the session after all that: %d %s", code, clip(body))
	}
}

// An id stands for one request at a time, so that a cancel means that one.
func TestOneIDTwice(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann := w.as("ann")
	session := w.initialize("/mcp", ann.token)
	headers := []string{"Mcp-Session-Id", session, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	slow := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fx_slow","arguments":{"ms":60000}}}`
	answered := make(chan answer, 1)
	go func() { answered <- ann.do("POST", "/mcp", slow, headers...) }()
	running := func() int { return w.plugin("fx").InFlight }
	testbin.Await(t, 10*time.Second, "the call to run", func() bool { return running() == 1 })
	if a := ann.do("POST", "/mcp", `{"jsonrpc":"2.0","id":7,`+fxCall+`}}`, headers...); a.code != 400 || gjson.Get(a.body, "error.code").Int() != -32600 || !strings.Contains(a.body, "7 is in flight") {
		t.Errorf("the id again: %d %s", a.code, clip(a.body))
	}
	if a := ann.do("POST", "/mcp", `{"jsonrpc":"2.0","id":"7",`+fxCall+`}}`, headers...); a.code != 200 {
		t.Errorf("an id of another type: %d %s", a.code, clip(a.body))
	}
	other := w.initialize("/mcp", ann.token)
	if a := ann.do("POST", "/mcp", `{"jsonrpc":"2.0","id":7,`+fxCall+`}}`, append([]string{"Mcp-Session-Id", other}, headers[2:]...)...); a.code != 200 {
		t.Errorf("the id in another session: %d %s", a.code, clip(a.body))
	}
	ann.do("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, headers...)
	testbin.Await(t, 10*time.Second, "the call to end", func() bool { return running() == 0 })
	<-answered
	if a := ann.do("POST", "/mcp", `{"jsonrpc":"2.0","id":7,`+fxCall+`}}`, headers...); a.code != 200 {
		t.Errorf("the id after its call: %d %s", a.code, clip(a.body))
	}

	r := w.rawMCP()
	r.say(slow)
	testbin.Await(t, 10*time.Second, "the call on stdio to run", func() bool { return running() == 1 })
	r.say(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	if m := r.hear(); m.Get("error.code").Int() != -32600 || m.Get("id").Raw != "null" {
		t.Errorf("the id again on stdio: %s", m)
	}
	r.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	testbin.Await(t, 10*time.Second, "the call on stdio to end", func() bool { return running() == 0 })
}

// The form of an answer is what Accept likes best, JSON where it likes all alike.
func TestAcceptedForms(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann := w.as("ann")
	const json, lines, events = "application/json", "application/x-ndjson", "text/event-stream"
	for accept, want := range map[string]string{
		"": json, "*/*": json, "application/json, text/event-stream": json, "text/html, */*;q=0.1": json, "application/*": json,
		"text/event-stream": events, "Text/Event-Stream": events, "application/json;q=0.5, text/event-stream": events,
		"application/x-ndjson;q=0.9, text/event-stream;q=0.8": lines, "text/event-stream;q=0, application/json": json,
		"text/event-stream;q=0, */*": json, "application/json;q=0, */*": lines, "text/event-streams": json, "text/*": events,
		"x/y; note=\"text/event-stream\"": json, "image/png": json, "application/json;q=0": "", "*/*;q=0": "",
	} {
		a := ann.call("fx_echo", "{}", "Accept", accept)
		got := strings.Split(a.header.Get("Content-Type"), ";")[0]
		if want == "" {
			failed(a, 406, "BH1031")
		} else if a.code != 200 || got != want {
			t.Errorf("Accept: %s is answered with %d %s", accept, a.code, got)
		}
	}
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	for accept, want := range map[string]string{"": events, "*/*": events, "application/x-ndjson": lines, "application/x-ndjson;q=0.1, text/event-stream": events} {
		resp := ann.send(ctx, "GET", "/v1/events", "", "Accept", accept)
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != want {
			t.Errorf("events, Accept: %s is answered with %d %s", accept, resp.StatusCode, got)
		}
		_ = resp.Body.Close()
	}
	for name, headers := range map[string][]string{
		"compressed": {"Content-Encoding", "gzip"}, "a form": {"Content-Type", "application/x-www-form-urlencoded"}, "text": {"Content-Type", "text/plain"},
	} {
		refusedMedia(t, name, ann.call("fx_echo", "{}", headers...))
	}
	refused(ann.do("POST", "/v1/sessions/s/turns", `{"role":"user","text":"x"}`, "Content-Type", "text/plain"), 415, "BH1030")
	if a := ann.call("fx_echo", "{}", "Content-Encoding", "identity", "Content-Type", "application/json; charset=UTF-8"); a.code != 200 {
		t.Errorf("as it is: %d %s", a.code, a.body)
	}
}

func refusedMedia(t *testing.T, name string, a answer) {
	t.Helper()
	if r := failed(a, 415, "BH1030"); r.ToolName != "fx_echo" {
		t.Errorf("%s: %+v", name, r)
	}
}
