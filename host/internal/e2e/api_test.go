package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

func TestAPITools(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann, bob := w.as("ann"), w.as("bob")

	mine := names(into[[]api.Tool](ann.do("GET", "/v1/tools", ""), 200))
	if !slices.Contains(mine, "fx_echo") || slices.Contains(mine, "fx_hidden") || !slices.IsSorted(mine) {
		t.Errorf("ann's tools: %v", mine)
	}
	if his := names(into[[]api.Tool](bob.do("GET", "/v1/tools", ""), 200)); slices.Contains(his, "fx_echo") || len(his) == 0 {
		t.Errorf("bob's tools: %v", his)
	}
	type function struct{ Name, Description string }
	openai := into[[]struct {
		Type     string
		Function struct {
			function
			Parameters json.RawMessage
		}
	}](ann.do("GET", "/v1/tools?format=openai", ""), 200)
	anthropic := into[[]struct {
		function
		InputSchema json.RawMessage `json:"input_schema"`
	}](ann.do("GET", "/v1/tools?format=anthropic", ""), 200)
	mcp := into[[]struct {
		function
		Title                                  string
		InputSchema, OutputSchema, Annotations json.RawMessage
	}](ann.do("GET", "/v1/tools?format=mcp", ""), 200)
	if len(openai) != len(mine) || len(anthropic) != len(mine) || len(mcp) != len(mine) {
		t.Fatalf("%d tools, by format %d, %d, %d", len(mine), len(openai), len(anthropic), len(mcp))
	}
	for i, name := range mine {
		if openai[i].Type != "function" || openai[i].Function.Name != name || anthropic[i].Name != name || mcp[i].Name != name {
			t.Errorf("tool %d is %s; by format %v, %v, %v", i, name, openai[i], anthropic[i], mcp[i])
		}
		if string(openai[i].Function.Parameters) != string(mcp[i].InputSchema) || string(anthropic[i].InputSchema) != string(mcp[i].InputSchema) {
			t.Errorf("%s: schemas differ by format", name)
		}
	}
	refused(ann.do("GET", "/v1/tools?format=yaml", ""), 400, "BH1003")

	if one := into[api.Tool](ann.do("GET", "/v1/tools/fx_echo", ""), 200); one.Name != "fx_echo" || one.Plugin != "fx" || one.Tier != "elevated" {
		t.Errorf("fx_echo: %+v", one)
	}
	for _, name := range []string{"fx_hidden", "fx_ech", "nothing"} {
		refused(ann.do("GET", "/v1/tools/"+name, ""), 404, "BH1001")
	}
	refused(bob.do("GET", "/v1/tools/fx_echo", ""), 404, "BH1001")
	if got := bob.do("GET", "/v1/tools/fx_ech", ""); strings.Contains(got.body, "fx_echo") {
		t.Errorf("bob is told of a tool that is not his: %s", got.body)
	}
	// Without a token a loopback address serves the default agent.
	if list := names(into[[]api.Tool](w.as("").do("GET", "/v1/tools", ""), 200)); !slices.Contains(list, "fx_echo") {
		t.Errorf("the default agent's tools: %v", list)
	}
	guides := into[[]api.Guide](ann.do("GET", "/v1/guides", ""), 200)
	if len(guides) == 0 || into[api.Guide](ann.do("GET", "/v1/guides/fx", ""), 200).Markdown == "" {
		t.Errorf("guides: %+v", guides)
	}
	refused(ann.do("GET", "/v1/guides/none", ""), 404, "BH1022")
}

func TestAPICall(t *testing.T) {
	w := newAPIWorld(t, instance("fx", "  limits {\n    calls = 2\n    queue = 1\n  }\n"), "fixture")
	w.serve()
	ann := w.as("ann")

	t.Run("bytes", func(t *testing.T) {
		sent := `{"id":9223372036854775807,"z":{"b":1,"a":2.50},"<&>":"\u00e9","unknown":null}`
		a := ann.call("fx_echo", sent)
		r := into[api.CallResult](a, 200)
		if string(r.Structured) != sent || r.IsError || r.ToolName != "fx_echo" || r.Session != "default:ann" || r.ToolCallID == "" {
			t.Errorf("got %s", a.body)
		}
		for _, key := range []string{"error", "questions", "files"} {
			if strings.Contains(a.body, `"`+key+`":`) {
				t.Errorf("%s stands in %s", key, a.body)
			}
		}
	})
	t.Run("identity", func(t *testing.T) {
		r := into[api.CallResult](ann.do("POST", "/v1/tools/fx_echo/call", `{"arguments":{},"tool_call_id":"c1","session":"talk"}`, "Bulkhead-Session", "other"), 200)
		if r.ToolCallID != "c1" || r.Session != "talk" {
			t.Errorf("body first: %+v", r)
		}
		if r := into[api.CallResult](ann.call("fx_echo", "{}", "Bulkhead-Session", "other"), 200); r.Session != "other" {
			t.Errorf("then the header: %+v", r)
		}
		failed(w.as("boss").call("fx_echo", "{}", "Bulkhead-Session", "talk"), 404, "BH1012")
		failed(w.as("boss").call("fx_echo", "{}", "Bulkhead-Session", "default:ann"), 404, "BH1012")
		failed(w.as("boss").call("fx_echo", "{}", "Bulkhead-Session", "default:nobody"), 404, "BH1012")
		failed(ann.call("fx_echo", "{}", "Bulkhead-Session", "../x"), 400, "BH1003")
		// The header of the control socket has no power here.
		if r := into[api.CallResult](ann.call("fx_echo", "{}", "Bulkhead-Agent", "boss"), 200); r.Session != "default:ann" {
			t.Errorf("took a name: %+v", r)
		}
	})
	t.Run("statuses", func(t *testing.T) {
		if r := into[api.CallResult](ann.call("fx_die", "{}"), 200); r.Error == nil || r.Error.Code != "execution_failed" {
			t.Errorf("a tool that failed: %+v", r)
		}
		failed(ann.do("POST", "/v1/tools/fx_slow/call", `{"arguments":{"ms":"soon"}}`), 400, "BH1003")
		failed(ann.do("POST", "/v1/tools/fx_echo/call", `{"arguments":[1]}`), 400, "BH1002")
		failed(ann.do("POST", "/v1/tools/fx_echo/call", `{"arguments":{}`), 400, "BH1002")
		failed(ann.do("POST", "/v1/tools/fx_echo/call", `{"args":{}}`), 400, "BH1002")
		failed(ann.do("POST", "/v1/tools/fx_echo/call", `{}{}`), 400, "BH1002")
		failed(ann.do("POST", "/v1/tools/fx_echo/call", `{"model_tier":"huge"}`), 400, "BH1003")
		failed(ann.do("POST", "/v1/tools/fx_echo/call", `{"timeout_ms":-1}`), 400, "BH1003")
		failed(ann.do("POST", "/v1/tools/fx_echo/call?shape=round", `{}`), 400, "BH1003")
		failed(w.as("wrong").call("fx_echo", "{}"), 401, "BH5010")
		failed(w.as("bob").call("fx_echo", "{}"), 403, "BH5001")
		failed(ann.call("fx_hidden", "{}"), 404, "BH1001")
		failed(ann.do("POST", "/v1/tools/fx_hidden/call?internal=true", `{}`), 404, "BH1001")
		failed(ann.do("POST", "/v1/tools/fx_slow/call", `{"arguments":{"ms":5000},"timeout_ms":50}`), 504, "BH1005")
		failed(ann.do("POST", "/v1/tools/fx_echo/call", `{"arguments":{"x":"`+strings.Repeat("x", 4<<20)+`"}}`), 413, "BH1004")
	})
	t.Run("busy", func(t *testing.T) {
		done := make(chan answer, 8)
		for range 8 {
			go func() { done <- ann.call("fx_slow", `{"ms":700}`) }()
		}
		var ok, refused int
		for range 8 {
			switch a := <-done; a.code {
			case 200:
				ok++
			case 503:
				refused++
				failed(a, 503, "BH2008")
				if a.header.Get("Retry-After") == "" {
					t.Errorf("no Retry-After: %v", a.header)
				}
			default:
				t.Errorf("%d: %s", a.code, a.body)
			}
		}
		if ok == 0 || refused == 0 {
			t.Errorf("%d ran, %d were refused", ok, refused)
		}
	})
	t.Run("shape", func(t *testing.T) {
		short := into[api.CallResult](ann.call("fx_long", `{"chars":200000}`), 200)
		whole := into[api.CallResult](ann.do("POST", "/v1/tools/fx_long/call?shape=none", `{"arguments":{"chars":200000}}`), 200)
		if len(short.Content[0]) > 100000 || len(whole.Content[0]) < 200000 {
			t.Errorf("shaped %d bytes, whole %d", len(short.Content[0]), len(whole.Content[0]))
		}
	})
	t.Run("ndjson", func(t *testing.T) {
		a := ann.call("fx_slow", `{"ms":30,"steps":3}`, "Accept", "application/x-ndjson")
		var steps int
		var last api.CallEvent
		for line := range strings.Lines(a.body) {
			last = api.CallEvent{}
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Fatal(err)
			}
			if last.Progress != nil {
				steps++
			}
		}
		if a.code != 200 || a.header.Get("Content-Type") != "application/x-ndjson" || steps != 3 || last.Result == nil || last.Result.IsError {
			t.Errorf("%d %v %s", a.code, a.header, a.body)
		}
	})
	t.Run("server-sent events", func(t *testing.T) {
		a := ann.call("fx_slow", `{"ms":30,"steps":3}`, "Accept", "text/event-stream")
		if a.header.Get("Content-Type") != "text/event-stream" || strings.Count(a.body, "event: progress\ndata: {") != 3 || strings.Count(a.body, "event: result\ndata: {\"result\":") != 1 {
			t.Errorf("%d %v %s", a.code, a.header, a.body)
		}
		// An error before the stream has a status; one after it is the result.
		failed(ann.do("POST", "/v1/tools/fx_echo/call", `{`, "Accept", "text/event-stream"), 400, "BH1002")
		if a := ann.call("none", `{}`, "Accept", "text/event-stream"); !strings.Contains(a.body, "BH1001") {
			t.Errorf("%d %s", a.code, a.body)
		}
	})
	t.Run("caller leaves", func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		resp := ann.send(ctx, "POST", "/v1/tools/fx_slow/call", `{"arguments":{"ms":60000}}`, "Accept", "text/event-stream")
		defer resp.Body.Close()
		testbin.Await(t, 10*time.Second, "the call to run", func() bool { return w.plugin("fx").InFlight == 1 })
		leave()
		testbin.Await(t, 10*time.Second, "the call to end", func() bool { return w.plugin("fx").InFlight == 0 })
	})
}

func TestAPIQuestions(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann, bob, boss := w.as("ann"), w.as("bob"), w.as("boss")

	r := failed(ann.call("fx_guarded", `{"name":"Ada"}`), 403, "BH5005")
	if len(r.Questions) != 1 || !r.Error.Retryable {
		t.Fatalf("guarded: %+v", r)
	}
	id := r.Questions[0]
	mine := into[[]api.Question](ann.do("GET", "/v1/questions", ""), 200)
	if len(mine) != 1 || mine[0].ID != id || mine[0].Kind != "approval" || mine[0].Agent != "ann" {
		t.Errorf("ann's: %+v", mine)
	}
	if his := into[[]api.Question](bob.do("GET", "/v1/questions", ""), 200); len(his) != 0 {
		t.Errorf("bob's: %+v", his)
	}
	refused(bob.do("GET", "/v1/questions/"+id, ""), 404, "BH1013")
	refused(bob.do("POST", "/v1/questions/"+id, `{"action":"approve"}`), 404, "BH1013")
	refused(ann.do("POST", "/v1/questions/"+id, `{"action":"approve"}`), 403, "BH5008")
	refused(boss.do("POST", "/v1/questions/"+id, `{"action":"maybe"}`), 400, "BH1003")
	refused(boss.do("POST", "/v1/questions/"+id, `{"action":"approve","scope":"always"}`), 400, "BH1003")
	if q := into[api.Question](boss.do("POST", "/v1/questions/"+id, `{"action":"approve"}`), 200); q.Outcome != "approve" || q.AnsweredBy != "boss" {
		t.Errorf("answered: %+v", q)
	}
	refused(boss.do("POST", "/v1/questions/"+id, `{"action":"deny"}`), 409, "BH1014")
	if a := ann.call("fx_guarded", `{"name":"Ada"}`); a.code != 200 || !strings.Contains(a.body, "ran for Ada") {
		t.Errorf("permitted: %d %s", a.code, a.body)
	}

	// A form is answered by the agent itself, while the call holds on.
	stream := make(chan answer, 1)
	go func() { stream <- ann.call("fx_ask", `{"q":1}`, "Accept", "text/event-stream") }()
	var open []api.Question
	testbin.Await(t, 10*time.Second, "the question", func() bool {
		open = into[[]api.Question](ann.do("GET", "/v1/questions", ""), 200)
		return len(open) == 1
	})
	refused(ann.do("POST", "/v1/questions/"+open[0].ID, `{"action":"accept","content":{"name":7}}`), 400, "BH1003")
	into[api.Question](ann.do("POST", "/v1/questions/"+open[0].ID, `{"action":"accept","content":{"name":"Grace"}}`), 200)
	a := <-stream
	if !strings.Contains(a.body, "waiting for "+open[0].ID) {
		t.Errorf("nothing said that it waits: %s", a.body)
	}
	if !strings.Contains(a.body, "hello Grace") { // it had left a moment before the answer
		testbin.Await(t, 10*time.Second, "the result by repeating", func() bool {
			return strings.Contains(ann.call("fx_ask", `{"q":1}`).body, "hello Grace")
		})
	}
	if all := into[[]api.Question](ann.do("GET", "/v1/questions?all=true", ""), 200); len(all) != 2 {
		t.Errorf("all: %+v", all)
	}
}

func TestAPISessions(t *testing.T) {
	w := newAPIWorld(t, fileInstance("ff", ""))
	w.installFileFixture()
	w.serve()
	ann, bob := w.as("ann"), w.as("bob")

	for i := range 3 {
		got := into[api.Turns](ann.do("POST", "/v1/sessions/talk/turns", `{"role":"user","text":"hello","author":"Ada"}`), 200)
		if got.Turns != i+1 || got.Session != "talk" {
			t.Errorf("turns: %+v", got)
		}
	}
	refused(ann.do("POST", "/v1/sessions/talk/turns", `{"role":"king","text":"x"}`), 400, "BH1003")
	refused(ann.do("POST", "/v1/sessions/talk/turns", `{"role":"user","text":""}`), 400, "BH1003")
	refused(bob.do("POST", "/v1/sessions/talk/turns", `{"role":"user","text":"x"}`), 404, "BH1012")
	refused(bob.do("GET", "/v1/sessions/talk/context", ""), 404, "BH1012")
	refused(bob.do("GET", "/v1/sessions/talk/inbox", ""), 404, "BH1012")
	refused(ann.do("GET", "/v1/sessions/unknown/inbox", ""), 404, "BH1012")
	if items := into[[]api.InboxItem](ann.do("GET", "/v1/sessions/talk/inbox?after=0", ""), 200); len(items) != 0 {
		t.Errorf("inbox: %+v", items)
	}
	refused(ann.do("GET", "/v1/sessions/talk/inbox?after=x", ""), 400, "BH1003")

	c := into[api.Context](ann.do("GET", "/v1/sessions/talk/context?message="+url.QueryEscape("where is it & what?"), ""), 200)
	if !slices.Contains(c.Orientation, "Files are given by ff_write.") || len(c.Hints) != 2 || !strings.Contains(string(c.Hints[0]), `where is it \u0026 what?`) || c.Inbox == nil {
		t.Errorf("context: %+v", c)
	}
	if c := into[api.Context](ann.do("GET", "/v1/sessions/talk/context", ""), 200); len(c.Hints) != 0 {
		t.Errorf("hints for nothing: %s", c.Hints)
	}
}

func TestAPIFiles(t *testing.T) {
	w := newAPIWorld(t, fileInstance("ff", "")+fileInstance("fs", "  grants = [\"shared\"]\n"))
	w.installFileFixture()
	w.serve()
	ann, bob := w.as("ann"), w.as("bob")

	made := into[api.CallResult](ann.call("ff_write", `{"path":"/shared/plugins/ff/page.html","text":"<script>alert(1)</script>"}`), 200)
	if len(made.Files) != 1 || made.Files[0].Path != "/shared/plugins/ff/page.html" {
		t.Fatalf("files: %+v", made)
	}
	id := made.Files[0].ID
	a := ann.do("GET", "/v1/files/"+id, "")
	if a.code != 200 || a.body != "<script>alert(1)</script>" {
		t.Fatalf("%d %s", a.code, a.body)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment; filename=page.html",
		"Content-Security-Policy": "default-src 'none'; sandbox", "Content-Type": "text/html"} {
		if got := a.header.Get(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if a := ann.do("GET", "/v1/files/"+id, "", "Range", "bytes=1-6"); a.code != 206 || a.body != "script" {
		t.Errorf("a range: %d %s", a.code, a.body)
	}
	// Nobody else's, and nothing made up.
	refused(bob.do("GET", "/v1/files/"+id, ""), 404, "BH1027")
	refused(w.as("boss").do("GET", "/v1/files/"+id, ""), 404, "BH1027")
	refused(ann.do("GET", "/v1/files/"+id[:len(id)-2]+"AA", ""), 404, "BH1027")
	refused(ann.do("GET", "/v1/files/c2hhcmVk", ""), 404, "BH1027")

	shared := filepath.Join(w.dir, "shared")
	secret := filepath.Join(shared, "plugins", "fs", "secret.txt")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shared, "attachments", "a.txt"), []byte("attached"), 0o600); err != nil {
		t.Fatal(err)
	}
	// What a plugin can't see it can't give away.
	for _, path := range []string{"/shared/plugins/fs/secret.txt", "/shared/attachments/a.txt", "/shared/plugins/ff/../fs/secret.txt",
		"/etc/passwd", "/shared/../data/bulkhead.db", "/shared/plugins/ff", "/shared"} {
		args, _ := json.Marshal(map[string]string{"path": path})
		if r := into[api.CallResult](ann.call("ff_claim", string(args)), 200); len(r.Files) != 0 {
			t.Errorf("%s was given away: %+v", path, r.Files)
		}
	}
	r := into[api.CallResult](ann.call("fs_claim", `{"path":"/shared/attachments/a.txt","mime":"not a type\nX: y"}`), 200)
	if len(r.Files) != 1 {
		t.Fatalf("with the grant: %+v", r)
	}
	if a := ann.do("GET", "/v1/files/"+r.Files[0].ID, ""); a.code != 200 || a.body != "attached" || a.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %v %s", a.code, a.header, a.body)
	}
	// A link in a plugin's own folder leads nowhere else; a folder and a pipe are no file.
	own := filepath.Join(shared, "plugins", "ff")
	for name, target := range map[string]string{"inside": secret, "relative": "../fs/secret.txt", "outside": "/etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(own, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(own, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mkfifo(filepath.Join(own, "pipe")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"inside", "relative", "outside", "folder", "pipe", "absent"} {
		r := into[api.CallResult](ann.call("ff_claim", `{"path":"/shared/plugins/ff/`+name+`"}`), 200)
		if len(r.Files) != 1 {
			t.Fatalf("%s: %+v", name, r)
		}
		refused(ann.do("GET", "/v1/files/"+r.Files[0].ID, ""), 404, "BH1027")
	}
}

func TestAPIOperations(t *testing.T) {
	w := newAPIWorld(t, instance("fx", "")+instance("fy", ""), "fixture")
	w.serve()
	ann, boss := w.as("ann"), w.as("boss")

	into[map[string]string](w.as("").do("GET", "/healthz", ""), 200)
	into[map[string]string](w.as("").do("GET", "/readyz", ""), 200)

	full := into[api.Status](boss.do("GET", "/v1/status", ""), 200)
	if full.Host.PID == 0 || len(full.Plugins) != 2 {
		t.Errorf("the approver's status: %+v", full)
	}
	brief := into[api.AgentStatus](ann.do("GET", "/v1/status", ""), 200)
	if brief.Host.Version == "" || len(brief.Plugins) != 2 || brief.Plugins[0].State != "ready" || brief.Plugins[0].Tools == 0 {
		t.Errorf("an agent's status: %+v", brief)
	}
	if list := into[[]api.AgentPlugin](w.as("bob").do("GET", "/v1/plugins", ""), 200); len(list) != 1 || list[0].Name != "fy" {
		t.Errorf("bob's plugins: %+v", list)
	}
	refused(w.as("bob").do("GET", "/v1/plugins/fx", ""), 404, "BH2014")
	into[api.AgentPlugin](ann.do("GET", "/v1/plugins/fx", ""), 200)
	refused(boss.do("GET", "/v1/plugins/none", ""), 404, "BH2014")
	if list := into[[]api.PluginStatus](boss.do("GET", "/v1/plugins", ""), 200); len(list) != 2 || list[0].PID == 0 {
		t.Errorf("the approver's plugins: %+v", list)
	}

	for _, path := range []string{"/v1/plugins/fx/restart", "/v1/reload"} {
		refused(ann.do("POST", path, ""), 403, "BH5008")
	}
	before := into[api.PluginStatus](boss.do("GET", "/v1/plugins/fx", ""), 200)
	if after := into[api.PluginStatus](boss.do("POST", "/v1/plugins/fx/restart", ""), 200); after.Generation <= before.Generation {
		t.Errorf("restarted: %+v, before %+v", after, before)
	}
	into[api.PluginStatus](boss.do("POST", "/v1/plugins/fx/stop", ""), 200)
	failed(ann.call("fx_echo", "{}"), 503, "BH2004")
	into[api.PluginStatus](boss.do("POST", "/v1/plugins/fx/start", ""), 200)
	refused(boss.do("POST", "/v1/plugins/fx/jump", ""), 400, "BH1003")
	refused(boss.do("POST", "/v1/plugins/none/restart", ""), 404, "BH2014")
	into[api.Reloaded](boss.do("POST", "/v1/reload", ""), 200)

	into[api.CallResult](ann.call("fx_echo", `{"n":1}`), 200)
	into[api.CallResult](boss.call("fx_echo", `{"n":2}`), 200)
	for _, row := range into[[]api.AuditRow](ann.do("GET", "/v1/audit", ""), 200) {
		if row.Agent != "ann" || row.Door != "http" {
			t.Errorf("ann sees %+v", row)
		}
	}
	rows := into[[]api.AuditRow](boss.do("GET", "/v1/audit?limit=2", ""), 200)
	if len(rows) != 2 || rows[0].Agent != "ann" || rows[1].Agent != "boss" || string(rows[1].Arguments) != `{"n":2}` {
		t.Errorf("the trail: %+v", rows)
	}
	if later := into[[]api.AuditRow](boss.do("GET", fmt.Sprintf("/v1/audit?after=%d", rows[0].Seq), ""), 200); len(later) != 1 {
		t.Errorf("after %d: %+v", rows[0].Seq, later)
	}

	text := ann.do("GET", "/metrics", "").body
	for _, want := range []string{`bulkhead_tool_invocations{status="ok",tool_name="fx_echo"} 2`, `bulkhead_tool_invoke_duration_bucket`,
		`bulkhead_plugin_state{plugin="fx",state="ready"} 1`, `bulkhead_plugin_restarts{plugin="fx"}`, `bulkhead_plugin_in_flight{plugin="fx"} 0`,
		`bulkhead_plugin_queue{plugin="fx"} 0`, "bulkhead_http_connections_limit", "go_goroutines", "process_open_fds"} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	for _, path := range []string{"/", "/v1/nothing", "/v1/mcp"} {
		if a := boss.do("POST", path, "{}"); a.code != 404 || !json.Valid([]byte(a.body)) {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	if a := boss.do("DELETE", "/v1/tools", ""); a.code != 405 || a.header.Get("Allow") == "" {
		t.Errorf("a wrong method: %d %v", a.code, a.header)
	}
}

// events reads server-sent events until enough says so.
func (a asker) events(after string, enough func([]event.Event) bool) (got []event.Event) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp := a.send(ctx, "GET", "/v1/events", "", "Last-Event-ID", after)
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		a.t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	id, name := "", ""
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			var e event.Event
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				a.t.Fatal(err)
			}
			if id != fmt.Sprint(e.Seq) || name != e.Type {
				a.t.Errorf("event %s %s carries %s", id, name, value)
			}
			if got = append(got, e); enough(got) {
				return got
			}
		}
	}
	a.t.Fatalf("the stream ended: %v, got %+v", lines.Err(), got)
	return nil
}

func TestAPIEvents(t *testing.T) {
	w := newAPIWorld(t, instance("fx", ""), "fixture")
	w.serve()
	ann, boss := w.as("ann"), w.as("boss")
	into[api.CallResult](boss.call("fx_echo", `{}`), 200)
	into[api.CallResult](ann.call("fx_echo", `{}`), 200)
	calls := func(n int) func([]event.Event) bool {
		return func(got []event.Event) bool {
			return len(slices.DeleteFunc(slices.Clone(got), func(e event.Event) bool { return e.Type != "call.done" })) == n
		}
	}
	all := boss.events("0", calls(2))
	if all[0].Type != "plugin.state" {
		t.Errorf("the approver's: %+v", all)
	}
	own := ann.events("0", calls(1))
	if len(own) != 1 || own[0].Session != "default:ann" {
		t.Errorf("ann's: %+v", own)
	}
	// A stream that was cut goes on where it was, with what is new.
	last := fmt.Sprint(all[len(all)-1].Seq)
	done := make(chan []event.Event, 1)
	go func() { done <- boss.events(last, calls(1)) }()
	testbin.Await(t, 10*time.Second, "what is new", func() bool {
		into[api.CallResult](ann.call("fx_echo", `{}`), 200)
		select {
		case got := <-done:
			for _, e := range got {
				if e.Seq <= all[len(all)-1].Seq {
					t.Errorf("again: %+v", e)
				}
			}
			return true
		default:
			return false
		}
	})
	refused(boss.do("GET", "/v1/events", "", "Last-Event-ID", "x"), 400, "BH1003")
	if a := boss.do("GET", "/v1/events?follow=false", "", "Accept", "application/x-ndjson"); a.code != 200 || !strings.HasPrefix(a.body, `{"seq":1,`) {
		t.Errorf("the tail: %d %s", a.code, clip(a.body))
	}
}
