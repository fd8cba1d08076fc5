package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

func notesInstance(name string) string {
	return fmt.Sprintf("plugin %q {\n  binary = \"bulkhead-plugin-notes\"\n  env    = { FIXTURE_PREFIX = %q }\n}\n", name, name)
}

// messages are the JSON-RPC messages of a stream so far.
func (f *following) messages() (out []gjson.Result) {
	for line := range strings.Lines(f.text.String()) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			out = append(out, gjson.Parse(data))
		}
	}
	return out
}

// updates are the addresses of resources a stream told of.
func updates(messages []gjson.Result) (out []string) {
	for _, m := range messages {
		if m.Get("method").Str == "notifications/resources/updated" {
			out = append(out, m.Get("params.uri").Str)
		}
	}
	return out
}

const subscriptionPath = `_meta.io\.modelcontextprotocol/subscriptionId`

// listening opens a stream of 2026-07-28 for resources, and awaits that it is there.
func (a asker) listening(ctx context.Context, id string, uris ...string) *following {
	a.t.Helper()
	f := a.follow(ctx, "POST", "/mcp", listenRequest(id, uris...), modernHeaders("subscriptions/listen", "")...)
	testbin.Await(a.t, 10*time.Second, "the acknowledgement", func() bool { return len(f.messages()) > 0 })
	return f
}

func listenRequest(id string, uris ...string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["` + strings.Join(uris, `","`) + `"]},` + modernMeta + `}}`
}

// modernCall calls a tool as a client of 2026-07-28, in the agent's own session.
func (a asker) modernCall(tool, arguments string) {
	a.t.Helper()
	r := a.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`,`+modernMeta+`}}`, modernHeaders("tools/call", tool)...)
	if r.code != 200 || gjson.Get(r.body, "error").Exists() || gjson.Get(r.body, "result.isError").Bool() {
		a.t.Fatalf("%s: %d %s", tool, r.code, clip(r.body))
	}
}

// Clients of both eras hear of the resources they follow, whatever offers these:
// plugins, guides, their own inbox. Those who may not see the plugin hear nothing of
// it, and nobody hears what a plugin says of what is not its own.
func TestResourceUpdates(t *testing.T) {
	w := newAPIWorld(t, notesInstance("n")+notesInstance("other")+"agent \"outsider\" {\n  token = secret(\"outsider\")\n  tools = [\"other_*\"]\n}\n", "notes")
	w.secret("outsider", "secret-token-of-outsider")
	w.serve()
	ann, outsider := w.as("ann"), w.as("outsider")
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	ann.modernCall("n_rewrite", `{"text":"first"}`)
	testbin.Await(t, 10*time.Second, "the guide", func() bool { return strings.Contains(ann.do("GET", "/v1/guides", "").body, `"n"`) })
	all := []string{"n://note", "n://page/7", "guide://n", "inbox://session", "other://note"}

	session := w.initialize("/mcp", ann.token)
	inSession := []string{"Mcp-Session-Id", session, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	for i, uri := range all {
		if r := ann.do("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%q}}`, i+10, uri), inSession...); r.code != 200 {
			t.Fatalf("subscribe: %d %s", r.code, r.body)
		}
	}
	legacy := ann.follow(ctx, "GET", "/mcp", "", "Mcp-Session-Id", session, "Accept", "text/event-stream")
	long := "x://" + strings.Repeat("y", 3000)
	modern := ann.listening(ctx, "9007199254740993", append(all, long)...)
	hidden := outsider.listening(ctx, `"o"`, all...)
	lines := w.rawMCP("--agent", "ann")
	lines.say(listenRequest(`"line"`, all...))
	hear := func() gjson.Result { // what is of the session it also has is not the stream's
		for {
			if m := lines.hear(); !strings.HasSuffix(m.Get("method").Str, "/list_changed") {
				return m
			}
		}
	}
	ack := hear()
	for name, m := range map[string]gjson.Result{"HTTP": modern.messages()[0], "stdio": ack} {
		if m.Get("method").Str != "notifications/subscriptions/acknowledged" || len(m.Get("params.notifications.resourceSubscriptions").Array()) != len(all) {
			t.Errorf("the acknowledgement over %s: %.500s", name, m)
		}
	}

	// Each agent's last word is one that it is to hear: what it should not hear came
	// before, if it came.
	ann.modernCall("n_touch", `{"uris":["n://note","n://page/7","guide://n","inbox://session","other://note"]}`)
	ann.modernCall("n_rewrite", `{"text":"second"}`)
	testbin.Await(t, 10*time.Second, "the guide's change", func() bool { return len(updates(modern.messages())) == 3 })
	ann.modernCall("n_tell", `{"text":"hello"}`)
	testbin.Await(t, 10*time.Second, "the inbox's change", func() bool { return len(updates(modern.messages())) == 4 })
	outsider.modernCall("other_touch", `{"uris":["other://note"]}`)
	want := []string{"n://note", "n://page/7", "guide://n", "inbox://session", "other://note"}
	testbin.Await(t, 10*time.Second, "the other note", func() bool { return len(updates(modern.messages())) == 5 })
	if got := updates(modern.messages()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("a stream of 2026-07-28 heard %v", got)
	}
	for _, m := range modern.messages() {
		if got := m.Get("params." + subscriptionPath).Raw; got != "9007199254740993" {
			t.Errorf("the subscription of %s is %s", m.Get("method"), got)
		}
	}
	testbin.Await(t, 10*time.Second, "who may not see n", func() bool { return len(updates(hidden.messages())) > 0 })
	if got := updates(hidden.messages()); fmt.Sprint(got) != "[other://note]" {
		t.Errorf("who may not see n heard %v", got)
	}
	// The inbox of another session of the same agent is not these clients'.
	plugins := []string{"n://note", "n://page/7", "guide://n", "other://note"}
	testbin.Await(t, 10*time.Second, "the older session", func() bool { return len(updates(legacy.messages())) == 4 })
	if got := updates(legacy.messages()); fmt.Sprint(got) != fmt.Sprint(plugins) {
		t.Errorf("the older session heard %v", got)
	}
	for _, uri := range plugins {
		if m := hear(); m.Get("params.uri").Str != uri || m.Get("params."+subscriptionPath).Str != "line" {
			t.Errorf("on stdio, awaiting %s: %s", uri, m)
		}
	}
	// Its own is.
	if r := ann.do("POST", "/mcp", `{"jsonrpc":"2.0","id":50,"method":"tools/call","params":{"name":"n_tell","arguments":{"text":"hello"}}}`, inSession...); r.code != 200 {
		t.Fatalf("%d %s", r.code, r.body)
	}
	testbin.Await(t, 10*time.Second, "the older session's inbox", func() bool { return strings.Contains(legacy.text.String(), "inbox://session") })
	lines.say(`{"jsonrpc":"2.0","id":"t","method":"tools/call","params":{"name":"n_tell","arguments":{"text":"hello"},` + modernMeta + `}}`)
	heard := hear().Raw + hear().Raw
	says(t, heard, `"uri":"inbox://session"`, `"id":"t"`)
	// The stream ends when its client says so, with an answer that names it.
	lines.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"line"}}`)
	if m := hear(); m.Get("id").Str != "line" || m.Get("result."+subscriptionPath).Str != "line" {
		t.Errorf("the end of the stream: %s", m)
	}
	lines.say(`{"jsonrpc":"2.0","id":"u","method":"tools/call","params":{"name":"n_tell","arguments":{"text":"again"},` + modernMeta + `}}`)
	if m := hear(); m.Get("id").Str != "u" {
		t.Errorf("after its end: %s", m)
	}
}

// Many changes at once reach who follows them, each of them, however slowly it reads.
func TestManyUpdatesAtOnce(t *testing.T) {
	w := newAPIWorld(t, notesInstance("n"), "notes")
	w.serve()
	ann := w.as("ann")
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var uris []string
	for i := range 400 {
		uris = append(uris, fmt.Sprintf("n://page/%d", i))
	}
	modern := ann.listening(ctx, "1", uris...)
	r := w.rawMCP("--agent", "ann")
	for i, uri := range uris {
		r.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%q}}`, i+1, uri))
		r.hear()
	}
	ann.modernCall("n_touch", `{"uris":["`+strings.Join(uris, `","`)+`"]}`)
	testbin.Await(t, 20*time.Second, "all updates", func() bool { return len(updates(modern.messages())) == len(uris) })
	for _, uri := range uris {
		if m := r.hear(); m.Get("params.uri").Str != uri {
			t.Fatalf("awaiting %s: %s", uri, m)
		}
	}
}

// A client that closes its input listens no more: that is not among what gets a moment
// to end, as calls do.
func TestListeningEndsWithTheInput(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	r := w.rawMCP()
	r.say(listenRequest("1", "n://note"))
	r.hear()
	r.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fx_slow","arguments":{"ms":2000}}}`)
	testbin.Await(t, 10*time.Second, "the call to run", func() bool { return w.plugin("fx").InFlight == 1 })
	if err := r.in.Close(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2"} {
		if m := r.hear(); m.Get("id").Raw != id || !m.Get("result").Exists() {
			t.Errorf("after the input's end, awaiting %s: %s", id, m)
		}
	}
}

// Completion does not tell what an agent may not see from what is not there.
func TestCompletionOfHiddenOffers(t *testing.T) {
	w := newAPIWorld(t, notesInstance("n")+"agent \"outsider\" {\n  token  = secret(\"outsider\")\n  groups = [\"web\"]\n}\n", "notes")
	w.secret("outsider", "secret-token-of-outsider")
	w.serve()
	complete := func(a asker, ref string) string {
		r := a.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":`+ref+`,"argument":{"name":"a","value":"x"},`+modernMeta+`}}`, modernHeaders("completion/complete", "")...)
		if r.code != 200 {
			t.Errorf("%s: %d %s", ref, r.code, clip(r.body))
		}
		return gjson.Get(r.body, "result").Raw
	}
	for kind, refs := range map[string][2]string{
		"prompt":   {`{"type":"ref/prompt","name":"n_prompt"}`, `{"type":"ref/prompt","name":"no_prompt"}`},
		"template": {`{"type":"ref/resource","uri":"n://page/{n}"}`, `{"type":"ref/resource","uri":"no://page/{n}"}`},
	} {
		if got := complete(w.as("ann"), refs[0]); !strings.Contains(got, "completed") {
			t.Errorf("who may see the %s got %s", kind, got)
		}
		if hidden, absent := complete(w.as("outsider"), refs[0]), complete(w.as("outsider"), refs[1]); hidden != absent {
			t.Errorf("a hidden %s: %s, one that is not there: %s", kind, hidden, absent)
		}
	}
}
