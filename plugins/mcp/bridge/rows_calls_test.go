package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// Sections 5.2 to 5.4 and 6: failures, hints, recovery, results, resources.
var rowsOfCalls = []fact{
	{number: "5.2.1", what: "a time-out is retryable, and not repeated here", held: []string{"TestTimeout"}},
	{number: "5.2.2", what: "refused parameters are an error with a hint, an unknown tool is told as such; neither is repeated", check: func(t *testing.T, w *rowsWorld) {
		r := w.Call("bad__strict", `{"file":"x"}`)
		if !r.IsError || !strings.Contains(r.Text, "Invalid arguments for tool strict") || !strings.Contains(r.Text, "[hint]") || !strings.Contains(r.Text, "Not sent: path") {
			t.Errorf("%+v", r)
		}
		for _, leaf := range view0(t, w, "bad").tools {
			if strings.Contains(leaf.Name, "spaces") {
				w.Call(leaf.typed, "{}").WantError("tool_not_found", "Unknown tool")
			}
		}
	}},
	{number: "5.2.3", what: "refused credentials are final until they change", held: []string{"TestCredentialsThatAreRefusedAreNotTriedAgain"}},
	{number: "5.2.4", what: "a lost connection: repeated once and over a new one where the call did not run or may run twice, else told", held: []string{"TestAServerThatDies", "TestALostSession"}, check: func(t *testing.T, w *rowsWorld) {
		w.Call("bad__faint", "{}").WantText("awake") // the server ended in the middle, and the tool is idempotent
	}},
	{number: "5.2.5", what: "a caller who cancels gets that, and the server hears it", check: func(t *testing.T, w *rowsWorld) {
		srv := mustFind(t, w, "empty")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ran := func() int { return strings.Count(w.Call("empty__log", "{}").Text, "bulkhead-") }
		before := ran()
		go func() {
			badtest.Await(t, "the call to run", func() bool { before++; return ran() > before })
			cancel()
		}()
		if _, err := srv.converse(ctx, &exchange{method: "tools/call", params: toolParams("sleep", json.RawMessage(`{"ms":30000}`)), asking: &asking{what: "the call"}}); !errors.Is(srv.failure(ctx, "the call", time.Minute, err), context.Canceled) {
			t.Errorf("%v", err)
		}
		badtest.Await(t, "the server to hear it", func() bool { return strings.Contains(w.Call("empty__log", "{}").Text, `"cancelled":["bulkhead-`) })
	}},
	{number: "5.2.6", what: "eight calls over one connection, a reconnect in the middle, eight runs; five reconnects leave one", held: []string{"TestCallsSurviveAReconnect"}},
	{number: "5.3.1", what: "hints from what was sent and what is declared, the first that applies, only on evidence", held: []string{"TestHints"}},
	{number: "5.3.2", what: "a hint never reads like a missing field", held: []string{"TestRecovery"}},
	{number: "5.3.3", what: "an unknown resource is answered with up to 50 there are, the server's own words kept", check: func(t *testing.T, w *rowsWorld) {
		r := w.Call("mcp_read_resource", args("server_name", "many", "uri", "other://x"))
		r.WantError("not_found", "unknown resource other://x")
		if !strings.Contains(r.Message, "bad://item/{id}, bad://r/A0, bad://r/A1") || !strings.Contains(r.Message, " and 21 more") {
			t.Error(r.Message)
		}
	}},
	{number: "5.4.1", what: "a missing field is seen in errors and in small successes with a text under error, in five wordings, and only when it is declared and was not sent", held: []string{"TestRecovery"}, check: func(t *testing.T, w *rowsWorld) {
		for _, kind := range []string{"message", "list"} {
			if r := w.Call("bad__blocks", `{"kind":"`+kind+`"}`); r.IsError {
				t.Errorf("%s: %+v", kind, r)
			}
		}
	}},
	{number: "5.4.2", what: "time zone, time and the operator's defaults fill in, at most four fields, each once", held: []string{"TestRecovery"}, check: func(t *testing.T, w *rowsWorld) {
		dir := filepath.Join(w.DataDir, "tool-defaults")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range []string{"a", "b", "c", "d", "e", "gone"} {
			all = append(all, fmt.Sprintf(`{"providerName":"p","tool":"needy","field":%q,"value":1}`, f))
		}
		if err := os.WriteFile(filepath.Join(dir, "bad.json"), []byte("["+strings.Join(all, ",")+"]"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := w.Call("bad__needy", `{"chain":true,"order_id":"1"}`)
		if !r.IsError || !strings.Contains(r.Text, "[recovery-trail]") || strings.Count(r.Text, "was filled in from") != 4 || !strings.Contains(r.Text, "given up after 4 fields") {
			t.Errorf("%+v", r)
		}
	}},
	{number: "5.4.3", what: "a field nobody knows is told with its schema, the sentence on it and calls that may have had it, as an error", check: func(t *testing.T, w *rowsWorld) {
		w.Call("bad__echo", `{"order":"4711"}`).WantText("4711")
		r := w.Call("bad__needy", `{}`)
		if !r.IsError || !strings.Contains(r.Text, "[mcp-recovery]") || !strings.Contains(r.Text, "Number of the order.") || !strings.Contains(r.Text, "Wants an order_id") || !strings.Contains(r.Text, `bad__echo {"order":"4711"}`) {
			t.Errorf("%+v", r)
		}
		var old recent
		for i := range 100 {
			old.note("s", "t", json.RawMessage(fmt.Sprintf(`{"order":%d}`, i)))
		}
		if got := old.about("s", "orderId"); len(got) != recentShown || !strings.Contains(got[0], "99") || len(old.calls["s"]) > recentCalls || old.about("other", "orderId") != nil || old.about("s", "x_id") != nil {
			t.Errorf("%q", got)
		}
	}},
	{number: "5.4.4", what: "clusters of failures and claims about capabilities", elsewhere: "this product keeps no memory of failures across sessions"},
	{number: "5.4.5", what: "filling in before a call", elsewhere: "wisps are no part of the bridge; a call that lacks a field is answered, then filled in"},
	{number: "6.1", what: "texts stay apart, and nothing is an empty result", check: func(t *testing.T, w *rowsWorld) {
		if r := w.Call("bad__blocks", `{"kind":"text"}`); r.Text != "one\n\ntwo" {
			t.Errorf("%q", r.Text)
		}
		for _, kind := range []string{"nothing", "absent"} {
			if r := w.Call("bad__blocks", `{"kind":"`+kind+`"}`); r.IsError || r.Text != "" || len(r.Files) != 0 {
				t.Errorf("%s: %+v", kind, r)
			}
		}
	}},
	{number: "6.2", what: "images and audio become files; what is no base64 passes as it came", check: func(t *testing.T, w *rowsWorld) {
		r := w.Call("bad__blocks", `{"kind":"audio"}`)
		if len(r.Files) != 1 || r.Files[0].MIME != "audio/wav" || r.Files[0].Size != 3 || !strings.HasPrefix(r.Files[0].Path, "/shared/attachments/") {
			t.Errorf("%+v", r)
		}
		if r := w.Call("bad__blocks", `{"kind":"notbase64"}`); r.IsError || len(r.Files) != 0 {
			t.Errorf("%+v", r)
		}
	}},
	{number: "6.3", what: "a resource inside a result keeps URI, type and text; a blob is a file that knows its URI", check: func(t *testing.T, w *rowsWorld) {
		for kind, want := range map[string]string{"embedded": "bad://doc text/plain inside", "blob": "bad://pic image/png "} {
			r, err := w.bridge.result(mustFind(t, w, "bad"), &downstream.Tool{Name: "blocks"}, nil, json.RawMessage(rowsBlock[kind]))
			if err != nil || len(r.Content) != 1 || r.Content[0].Resource == nil {
				t.Fatalf("%v %+v", err, r)
			}
			x := r.Content[0].Resource
			if got := x.URI + " " + x.MIME + " " + x.Text; got != want || (kind == "blob") != (x.Blob != nil && strings.Contains(x.Blob.Note, "bad://pic")) {
				t.Errorf("%s %+v", got, x)
			}
		}
	}},
	{number: "6.4", what: "a link says how to read it: label, URI, type, size and the call", check: func(t *testing.T, w *rowsWorld) {
		w.Call("bad__blocks", `{"kind":"link"}`).WantText(`[resource link] A note: bad://note (text/plain), 42 bytes — read it with mcp_read_resource {"server_name":"bad","uri":"bad://note"}`)
	}},
	{number: "6.5", what: "blocks nobody here knows pass as they came", held: []string{"TestBytes"}},
	{number: "6.6", what: "structured content is the text where there is none", check: func(t *testing.T, w *rowsWorld) {
		r := w.Call("bad__blocks", `{"kind":"structured"}`)
		r.WantText(`{"n":9223372036854775807,"b":2.50}`)
		if string(r.Structured) != `{"n":9223372036854775807,"b":2.50}` {
			t.Errorf("%s", r.Structured)
		}
	}},
	{number: "6.7", what: "reading is tried for URIs nobody declared; a declared one keeps the server's own words", check: func(t *testing.T, w *rowsWorld) {
		w.Call("mcp_read_resource", args("server_name", "bad", "uri", "bad://undeclared")).WantText("read bad://undeclared")
		r := w.Call("mcp_read_resource", args("server_name", "bad", "uri", "bad://item/note-that-fails"))
		if r.IsError {
			t.Errorf("%+v", r)
		}
		r = w.Call("mcp_read_resource", args("server_name", "bad", "uri", "bad://note-that-fails"))
		r.WantError("not_found", "the disk is on fire")
		w.Call("mcp_read_resource", args("server_name", "lean", "uri", "other://x")).WantError("not_found", "no resources")
	}},
	{number: "6.8", what: "templates as far as they are needed to know what was declared", held: []string{"TestMatcher"}},
	{number: "6.9", what: "long text and blobs become files; where they can't be saved their size is told, never base64", check: func(t *testing.T, w *rowsWorld) {
		long := "bad://item/" + strings.Repeat("x", 200)
		w.Call("mcp_read_resource", args("server_name", "bad", "uri", long)).WantText(`"path":"/shared/attachments/bad-resource-`)
		w.Call("mcp_read_resource", args("server_name", "bad", "uri", "bad://pic")).WantText(`.png","size":8`)
		s := start(t, conf{"resource_inline_limit": 100}, bad(t, "x", "rows"))
		awaitTool(t, s, "x__echo")
		write(t, s.SharedDir, "attachments", "a file in the way")
		r := s.Call("mcp_read_resource", args("server_name", "x", "uri", "bad://pic"))
		r.WantText("8 bytes could not be put into a file")
		if strings.Contains(r.Text, "iVBOR") || strings.Contains(r.Text, `"path"`) {
			t.Error(r.Text)
		}
	}},
	{number: "6.10", what: "a server that could have resources and has none shows no count", check: func(t *testing.T, w *rowsWorld) {
		if text := w.Call("mcp_get_service_details", args("server_name", "empty")).Text; strings.Contains(text, "mcp_list_resources") {
			t.Error(clip(text, 500))
		}
	}},
}

var rowsBlock = map[string]string{
	"embedded": `{"content":[{"type":"resource","resource":{"uri":"bad://doc","mimeType":"text/plain","text":"inside"}}]}`,
	"blob":     `{"content":[{"type":"resource","resource":{"uri":"bad://pic","mimeType":"image/png","blob":"iVBORw0KGgo="}}]}`,
}

func mustFind(t *testing.T, w *rowsWorld, name string) *server {
	t.Helper()
	s, err := w.bridge.find(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// startBridge serves a bridge that the test looks into.
func startBridge(t *testing.T, b *Bridge, servers ...conf) *sdktest.Session {
	t.Helper()
	return start2(t, b, conf{"server": servers})
}

func start2(t *testing.T, b *Bridge, c conf) *sdktest.Session {
	t.Helper()
	return sdktest.Start(t, b.plugin, sdktest.Config(c.String()), sdktest.Granted("shared"))
}
