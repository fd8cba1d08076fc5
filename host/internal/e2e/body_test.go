package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// A body is one JSON object whose keys stand there once, as they are written; what is
// wrong with another is said in words of ours, and nothing runs.
func TestBodiesAreStrict(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann := w.as("ann")
	for name, c := range map[string]struct{ body, word string }{
		"no body":            {"", "has no body"},
		"null":               {"null", "no JSON object"},
		"a list":             {`[{"arguments":{}}]`, "no JSON object"},
		"white space":        {" \n", "body is"},
		"another case":       {`{"ARGUMENTS":{"x":1}}`, `"ARGUMENTS"`},
		"both cases":         {`{"arguments":{},"Arguments":{"x":1}}`, `"Arguments"`},
		"twice":              {`{"arguments":{"x":1},"arguments":{"x":2}}`, `"arguments" twice`},
		"twice, escaped":     {`{"arguments":{"x":1},"\u0061rguments":{"x":2}}`, `"arguments" twice`},
		"a number for text":  {`{"session":7}`, "session is a string, not number"},
		"text for a number":  {`{"timeout_ms":"soon"}`, "timeout_ms is a whole number, not string"},
		"half a millisecond": {`{"timeout_ms":0.5}`, "timeout_ms is a whole number"},
		"twice, deep inside": {`{"arguments":{"a":[{"x":1,"x":2}]}}`, `the key "x" twice`},
		"too deep":           {`{"arguments":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, "deep"},
	} {
		a := ann.do("POST", "/v1/tools/fx_echo/call", c.body)
		failed(a, 400, "BH1002")
		if !strings.Contains(gjson.Get(a.body, "error.message").Str, c.word) || strings.Contains(a.body, "json:") || strings.Contains(a.body, "Go ") {
			t.Errorf("%s: %s", name, clip(a.body))
		}
	}
	if a := ann.do("POST", "/v1/tools/fx_echo/call", `{}`); a.code != 200 {
		t.Errorf("an empty object: %d %s", a.code, a.body)
	}
	refused(ann.do("POST", "/v1/sessions/s/turns", `{"role":"user","text":"a","TEXT":"b"}`), 400, "BH1002")
	for _, path := range []string{"/v1/events?follow=maybe", "/v1/questions?all=1", "/v1/tools?all=yes"} {
		refused(ann.do("GET", path, ""), 400, "BH1003")
	}
	failed(ann.do("POST", "/v1/tools/fx_echo/call?internal=yes", `{}`), 400, "BH1003")
}

// Whatever a tool itself returns has the status 200, an error of its own too; what the
// host says of the call has one of its own.
func TestStatusOfToolsOwnErrors(t *testing.T) {
	w := newAPIWorld(t, notesInstance("fx"), "notes")
	w.serve()
	ann := w.as("ann")
	for _, code := range []string{"not_found", "denied", "unavailable", "timeout", "invalid_arguments", "conflict", "tool_not_found"} {
		a := ann.call("fx_fail", `{"code":"`+code+`"}`)
		if a.code != 200 || gjson.Get(a.body, "error.code").Str != code || !gjson.Get(a.body, "is_error").Bool() {
			t.Errorf("%s: %d %s", code, a.code, clip(a.body))
		}
	}
	if a := ann.call("get_from_working_memory", `{"key":"nothing"}`); a.code != 200 {
		t.Errorf("the host's own tool: %d %s", a.code, clip(a.body))
	}
	failed(ann.call("fx_none", "{}"), 404, "BH1001")
	failed(w.as("bob").call("fx_fail", `{"code":"not_found"}`), 403, "BH5001")
}

// Messages of MCP are read the same by everybody on the way, and refused in our words.
func TestOddMCPMessages(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann := w.as("ann")
	session := w.initialize("/mcp", ann.token)
	inSession := []string{"Mcp-Session-Id", session, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	call := func(token string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fx_slow","arguments":{"ms":20,"steps":2},"_meta":{"progressToken":` + token + `}}}`
	}
	for name, c := range map[string]struct {
		body string
		code int
		word string
	}{
		"a key twice":            {`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, 400, `\"method\" twice`},
		"in another case":        {`{"jsonrpc":"2.0","id":1,"method":"ping","METHOD":"tools/list"}`, 400, `\"method\" twice`},
		"in the params":          {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fx_echo","NAME":"_"}}`, 400, `\"name\" twice`},
		"more keys than any":     {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1}}`, 400, "at most 16 keys"},
		"token list":             {call(`[]`), 200, "progressToken is a string or an integer"},
		"token object":           {call(`{"a":1}`), 200, "progressToken is a string or an integer"},
		"token true":             {call(`true`), 200, "progressToken is a string or an integer"},
		"token 1.5":              {call(`1.5`), 200, "progressToken is a string or an integer"},
		"a long token":           {call(`"` + strings.Repeat("t", 200<<10) + `"`), 200, "of at most 256 bytes"},
		"token null":             {call(`null`), 200, `"text":"done"`},
		"a whole token":          {call(`9007199254740993`), 200, `"progressToken":9007199254740993`},
		"an answer to nothing":   {`{"jsonrpc":"2.0","id":"x","result":{"a":1}}`, 400, "nothing waits for an answer to"},
		"an error for nothing":   {`{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}`, 400, "nothing waits for an answer to 7"},
		"the answer to a ping":   {`{"jsonrpc":"2.0","id":7,"result":{}}`, 202, ""},
		"params of another kind": {`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":[]}}`, 200, "do not have the form that its method asks for"},
	} {
		a := ann.do("POST", "/mcp", c.body, inSession...)
		if a.code != c.code || !strings.Contains(a.body, c.word) || strings.Contains(a.body, "json:") || len(a.body) > 4000 {
			t.Errorf("%s: %d %s", name, a.code, clip(a.body))
		}
	}
	if a := ann.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,`+fxCall+`,`+modernMeta+`}}`, append(modernHeaders("tools/call", "fx_echo"), "Bulkhead-Session", "no/such id")...); a.code != 400 {
		t.Errorf("a session id that can't be one: %d %s", a.code, a.body)
	}
	hello := func(info string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{` + info + `}},"clientInfo":{"name":"t","version":"1"}}}`
	}
	for name, info := range map[string]string{"long": `"x":"` + strings.Repeat("y", 16<<10) + `"`, "many": strings.Repeat(`"x":[],`, 400) + `"y":1`} {
		if a := ann.do("POST", "/mcp", hello(info), inSession[2:]...); a.code != 400 || !strings.Contains(a.body, "the params of initialize") || a.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("a client that tells of itself at length (%s): %d %v %s", name, a.code, a.header, clip(a.body))
		}
	}
	if a := ann.do("POST", "/mcp", hello(`"x":"`+strings.Repeat("y", 15<<10)+`"`), inSession[2:]...); a.code != 200 {
		t.Errorf("15 KiB of a client's own: %d %s", a.code, clip(a.body))
	}
	r := w.rawMCP()
	r.say(hello(`"x":"` + strings.Repeat("y", 16<<10) + `"`))
	if m := r.hear(); !strings.Contains(m.Get("error.message").Str, "the params of initialize") {
		t.Errorf("at length on stdio: %s", m)
	}
	r.say(`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/list"}`)
	if m := r.hear(); m.Get("error.code").Int() != -32600 {
		t.Errorf("on stdio: %s", m)
	}
}

// A session that its client ends takes its streams with it, and they count no more.
func TestDeleteEndsStreams(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann := w.as("ann")
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	for range 70 { // more than one agent may have open
		id := w.initialize("/mcp", ann.token)
		f := ann.follow(ctx, "GET", "/mcp", "", "Mcp-Session-Id", id, "Accept", "text/event-stream")
		if f.code != 200 {
			t.Fatalf("a stream: %d", f.code)
		}
		if a := ann.do("DELETE", "/mcp", "", "Mcp-Session-Id", id); a.code != 200 {
			t.Fatalf("DELETE: %d %s", a.code, a.body)
		}
		testbin.Await(t, 10*time.Second, "the stream to end", func() bool { return !f.open() })
		if a := ann.do("GET", "/mcp", "", "Mcp-Session-Id", id, "Accept", "text/event-stream"); a.code != 404 {
			t.Fatalf("a stream of the ended session: %d", a.code)
		}
	}
}
