package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestMain(m *testing.M) {
	child.Init()
	downstream.Init()
	if scenario := os.Getenv(clientEnv); scenario != "" {
		conformanceClient(scenario)
	}
	badtest.Run(m)
}

type conf map[string]any

func (c conf) String() string {
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// bad is a server block for the misbehaving server over stdio.
func bad(t *testing.T, name string, modes ...string) conf {
	return conf{"name": name, "command": append([]string{badtest.Bad(t)}, modes...)}
}

func start(t *testing.T, general conf, servers ...conf) *sdktest.Session {
	t.Helper()
	if general == nil {
		general = conf{}
	}
	general["server"] = servers
	return ending(t, sdktest.Start(t, Plugin(), sdktest.Config(general.String()), sdktest.Granted("shared")))
}

// ending lets the plugin go when the test ends, its servers with it.
func ending(t *testing.T, s *sdktest.Session) *sdktest.Session {
	t.Cleanup(func() { s.Drain(time.Second) })
	return s
}

func hasTool(s *sdktest.Session, name string) bool {
	for _, n := range s.ToolNames() {
		if n == name {
			return true
		}
	}
	return false
}

func awaitTool(t *testing.T, s *sdktest.Session, name string) {
	t.Helper()
	badtest.Await(t, "the tool "+name, func() bool { return hasTool(s, name) })
}

type row struct {
	ServerName, State, Error, Note string
	ToolCount                      int
	ToolNames                      []string
}

func services(t *testing.T, s *sdktest.Session) map[string]row {
	t.Helper()
	var rows []row
	if err := json.Unmarshal([]byte(s.Call("mcp_list_services", "{}").Text), &rows); err != nil {
		t.Fatal(err)
	}
	out := map[string]row{}
	for _, r := range rows {
		out[r.ServerName] = r
	}
	return out
}

// C1, C6 and C14: what a server sends and gets is what was sent, byte for byte, and
// banners and log lines among the messages cost nothing.
func TestBytes(t *testing.T) {
	s := start(t, nil, bad(t, "bad", "banner"))
	awaitTool(t, s, "bad__echo")
	sent := `{"id":9223372036854775807,"z":{"b":1,"a":2.50},"u":null}`
	r := s.Call("bad__echo", sent)
	r.WantText("echo " + sent)
	if got := string(r.Structured); got != `{"id":1915883588174806058,"got":`+sent+`}` {
		t.Errorf("structured: %s", got)
	}
	r = s.Call("bad__rich", `{"a":"x"}`)
	if string(r.Structured) != `{"id":1915883588174806058,"z":1,"a":2.50}` || len(r.Files) != 1 || r.Files[0].MIME != "image/png" || !strings.HasPrefix(r.Files[0].Path, "/shared/") {
		t.Errorf("%+v", r)
	}
	r.WantText(`[resource link] note: bad://note (text/plain) — read it with mcp_read_resource {"server_name":"bad","uri":"bad://note"}`)
	if n := services(t, s)["bad"]; !strings.Contains(n.Note, "🚢") {
		t.Errorf("stray lines are not told: %+v", n)
	}
}

// C9: broken servers cost only themselves, and say why.
func TestBrokenServersCostOnlyThemselves(t *testing.T) {
	s := start(t, conf{"connect_timeout": "3s"},
		bad(t, "good"), conf{"name": "nosuch", "command": []string{"no-such-program"}}, conf{"name": "refusing", "url": "http://127.0.0.1:1/mcp"},
		bad(t, "hung", "never"), bad(t, "keyless", "stderr=BAD_KEY"), bad(t, "slow", "init=1500ms"),
		conf{"name": "guarded", "url": "http://127.0.0.1:1/mcp", "arg_guard": []conf{{"handler": "tool:judge"}}})
	awaitTool(t, s, "good__echo")
	awaitTool(t, s, "slow__echo")
	s.Call("good__echo", "{}").WantText("echo {}")
	for name, want := range map[string]string{"nosuch": "no such program", "refusing": "refused", "hung": "connect_timeout 3s", "keyless": "no API key: BAD_KEY", "guarded": "arg_guard"} {
		badtest.Await(t, "the reason of "+name, func() bool {
			st := services(t, s)[name]
			return st.State != stateReady && strings.Contains(st.Error, want)
		})
	}
	r := s.Call("mcp_list_resources", `{"server_name":"refusing"}`)
	r.WantError("unavailable", "refused")
	s.Call("mcp_list_resources", `{"server_name":"guarded"}`).WantError("denied", "arg_guard")
	s.Call("mcp_list_resources", `{"server_name":"nobody"}`).WantError("tool_not_found", "good, guarded, hung")
}

// C11: a server that dies is back for the next call.
func TestAServerThatDies(t *testing.T) {
	s := start(t, nil, bad(t, "bad"))
	awaitTool(t, s, "bad__die")
	for range 3 {
		s.Call("bad__die", "{}").WantError("execution_failed", "exit code 7")
		begin := time.Now()
		s.Call("bad__echo", `{"a":1}`).WantText(`echo {"a":1}`)
		t.Logf("the next call took %s; 2s is the aim", time.Since(begin).Round(time.Millisecond))
	}
}

// A reconnect takes no connection from under a call: each runs exactly once.
func TestCallsSurviveAReconnect(t *testing.T) {
	b := newBridge()
	s := sdktest.Start(t, b.plugin, sdktest.Config(conf{"server": []conf{bad(t, "bad")}}.String()))
	awaitTool(t, s, "bad__sleep")
	srv, err := b.find("bad")
	if err != nil {
		t.Fatal(err)
	}
	srv.mu.Lock()
	old := srv.link
	srv.mu.Unlock()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { s.Call("bad__sleep", `{"ms":2000}`).WantText("slept") })
	}
	badtest.Await(t, "all calls to run", func() bool { old.mu.Lock(); defer old.mu.Unlock(); return old.leases == 8 })
	for range 5 {
		srv.renew(old)
	}
	badtest.Await(t, "a new connection", func() bool {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		return srv.link != nil && srv.link != old
	})
	s.Call("bad__log", "{}").WantText(`"ran":0`) // another process
	wg.Wait()
	badtest.Await(t, "the end of the old connection", func() bool { return ended(old.conn) })
}

// C10: a lost session is made anew, and the call that found out runs.
func TestALostSession(t *testing.T) {
	for _, mode := range []string{"http404", "http400"} {
		t.Run(mode, func(t *testing.T) {
			s := start(t, nil, conf{"name": "h", "url": badtest.HTTP(t, mode)})
			awaitTool(t, s, "h__echo")
			for range 2 {
				s.Call("h__forget", "{}").WantText("forgotten")
				s.Call("h__echo", `{"n":1}`).WantText(`echo {"n":1}`)
			}
		})
	}
}

func TestCredentialsThatAreRefusedAreNotTriedAgain(t *testing.T) {
	url := badtest.HTTP(t, "token=secret")
	s := start(t, nil, conf{"name": "wrong", "url": url, "auth": conf{"bearer": "nope"}}, conf{"name": "right", "url": url, "auth": conf{"bearer": "secret"}})
	awaitTool(t, s, "right__echo")
	badtest.Await(t, "the refusal", func() bool { return services(t, s)["wrong"].State == stateAuth })
	s.Call("mcp_list_resources", `{"server_name":"wrong"}`).WantError("auth_required", "https://auth.example/meta")
	if strings.Contains(fmt.Sprint(services(t, s)), "nope") {
		t.Error("a token is shown")
	}
}

func TestTimeout(t *testing.T) {
	c := bad(t, "bad")
	c["tool_timeout"] = "300ms"
	s := start(t, nil, c)
	awaitTool(t, s, "bad__sleep")
	r := s.Call("bad__sleep", `{"ms":60000}`)
	r.WantError("timeout", "300ms")
	if !r.Retryable {
		t.Error("a time-out may be tried again")
	}
	badtest.Await(t, "the cancel to arrive", func() bool { return strings.Contains(s.Call("bad__log", "{}").Text, `"cancelled":["bulkhead-`) })
	s.Call("bad__log", "{}").WantText(`"ran":0`)
}

func TestListChanged(t *testing.T) {
	s := start(t, nil, bad(t, "bad"))
	awaitTool(t, s, "bad__grow")
	s.Call("bad__grow", "{}").WantText("grown")
	awaitTool(t, s, "bad__grown")
}

// C4, C5: odd names and shapes.
func TestOddTools(t *testing.T) {
	s := start(t, nil, bad(t, "bad", "odd", "schemas"), bad(t, "foo.bar", "odd"))
	awaitTool(t, s, "bad__read-file")
	for _, leaf := range []string{"read-file", "read_file", "read.file", "名前"} {
		r := s.Call("mcp_get_service_details", string(quote(map[string]string{"server_name": "bad", "tool_name": leaf})))
		var d struct {
			Tools []struct{ Name, TypedName string }
		}
		if err := json.NewDecoder(strings.NewReader(r.Text)).Decode(&d); err != nil || len(d.Tools) != 1 || d.Tools[0].Name != leaf {
			t.Fatalf("%v %s", err, r.Text)
		}
		s.Call(d.Tools[0].TypedName, "{}").WantText(leaf + " {}")
	}
	if !hasTool(s, "bad__huge") {
		t.Error("a tool with a description of more than a megabyte is lost")
	}
	s.Call("bad__garble", "{}").WantError("execution_failed", "just a string")
	s.Call("bad__broken", "{}").WantText("bytes")
}

func TestFilters(t *testing.T) {
	c := bad(t, "bad")
	c["allowed_tools"], c["denied_prompts"], c["denied_resources"] = []string{"ECHO", "lo*"}, []string{"plan"}, []string{"bad://*"}
	s := start(t, nil, c)
	awaitTool(t, s, "bad__echo")
	for _, name := range []string{"bad__die", "bad__plan-prompt"} {
		if hasTool(s, name) {
			t.Errorf("%s is offered", name)
		}
	}
	if !hasTool(s, "bad__log") {
		t.Error("bad__log is not offered")
	}
	s.Call("mcp_read_resource", `{"server_name":"bad","uri":"bad://note"}`).WantError("denied", "shut out")
	s.Call("mcp_invoke_tool", `{"server_name":"bad","tool_name":"die","arguments":{}}`).WantError("tool_not_found", "echo, log")
}

func TestPromptsAndResources(t *testing.T) {
	s := start(t, nil, bad(t, "bad"))
	awaitTool(t, s, "bad__plan-prompt")
	s.Call("bad__plan-prompt", `{"topic":"ships","style":null}`).WantText(`\"arguments\":{\"topic\":\"ships\"}`)
	s.Call("mcp_get_prompt", `{"server_name":"BAD","prompt_name":"plan","arguments":{"topic":5}}`).WantText(`\"topic\":\"5\"`)
	s.Call("mcp_get_prompt", `{"server_name":"bad","prompt_name":"plan"}`).WantError("invalid_arguments", "topic")
	if r := s.Call("bad__plan", `{"topic":"x"}`, sdktest.Prompt()); !bytes.Contains(r.Raw, []byte(`\"topic\":\"x\"`)) {
		t.Errorf("%+v", r)
	}
	for _, uri := range []string{"bad://note", "bad://item/7"} {
		if r := s.Call(uri, "{}", sdktest.Resource()); !bytes.Contains(r.Raw, []byte("read "+uri)) {
			t.Errorf("%+v", r)
		}
	}
	s.Call("mcp_read_resource", `{"server_name":"bad","uri":"bad://note"}`).WantText(`"text":"read bad://note"`)
	s.Call("mcp_read_resource", `{"server_name":"bad","uri":"other://x"}`).WantError("not_found", "bad://item/{id}, bad://note")
	s.Call("mcp_list_resources", `{"server_name":"bad"}`).WantText(`"uriTemplate":"bad://item/{id}"`)
}

func TestInvokeTool(t *testing.T) {
	s := start(t, nil, bad(t, "bad"))
	awaitTool(t, s, "bad__echo")
	s.Host.Tool("bad__echo", func(args json.RawMessage) (sdk.Result, error) {
		return sdk.TextResult("called with " + string(args)), nil
	})
	for _, args := range []string{`"arguments":{"id":9223372036854775807}`, `"params":{"id":9223372036854775807}`, `"arguments":"{\"id\":9223372036854775807}"`, `"id":9223372036854775807`} {
		s.Call("mcp_invoke_tool", `{"server_name":"bad","tool_name":"echo",`+args+`}`).WantText(`called with {"id":9223372036854775807}`)
	}
	s.Call("mcp_invoke_tool", `{"server_name":"bad","tool_name":"sleep"}`).WantError("invalid_arguments", `"arguments":{"ms":"…"}`)
	s.Call("mcp_invoke_tool", `{"server_name":"bad","tool_name":"bad2__echo"}`).WantError("tool_not_found", "two arguments")
	s.Call("mcp_invoke_tool", `{"tool_name":"echo"}`).WantError("invalid_arguments", "server_name")
}

func TestFindTools(t *testing.T) {
	s := start(t, nil, bad(t, "bad"), conf{"name": "gone", "url": "http://127.0.0.1:1/"})
	awaitTool(t, s, "bad__echo")
	r := s.Call("mcp_find_tools", `{"query":"bad__rich","limit":"3"}`)
	var out struct {
		Tools []struct {
			Name        string
			InputSchema json.RawMessage
		}
		Note string
	}
	if err := json.Unmarshal([]byte(r.Text), &out); err != nil || len(out.Tools) == 0 || out.Tools[0].Name != "bad__rich" || !bytes.Contains(out.Tools[0].InputSchema, []byte("9223372036854775807")) || !strings.Contains(out.Note, "call_tool") {
		t.Errorf("%v %s", err, r.Text)
	}
	s.Call("mcp_find_tools", `{"query":"send gmail email"}`).WantText("Nothing here does that")
	s.Call("mcp_find_tools", `{"query":"send gmail email"}`).WantText("Not connected at the moment: gone")
	s.Call("mcp_server_index", `{"query":"echo arguments"}`).WantText(`"typed_names_for_query":["bad__echo"`)
}

func TestHints(t *testing.T) {
	tool := &downstream.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"n":{"type":["integer","null"]}},"required":["path"]}`), Required: []string{"path"}}
	for _, c := range []struct{ text, args, want string }{
		{"failed", `{"file":"a"}`, "Not sent: path. Not declared: file. Sent: file."},
		{"path is required", `{}`, ""},
		{"failed", `{"path":5}`, `"path" is declared as string; a value of type integer was sent`},
		{"failed", `{"path":"a","n":2.5}`, `"n" is declared as integer or null; a value of type number`},
		{"failed", `{"path":"a","n":3.0}`, ""},
		{"failed", `{"path":null}`, ""},
		{"validation error for x", `{"path":"a"}`, "What the tool takes"},
		{"An error occurred invoking 'x'.", `{"path":"a"}`, "may be the arguments"},
		{"disk full", `{"path":"a"}`, ""},
	} {
		got := withHint(c.text, tool, json.RawMessage(c.args))
		if (c.want == "" && got != c.text) || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s", c.text, c.args, got)
		}
	}
}

func TestRegister(t *testing.T) {
	url := badtest.HTTP(t)
	s := start(t, nil, bad(t, "own"))
	s.Call("mcp_register_server", string(quote(map[string]string{"name": "new", "url": url}))).WantError("denied", "allow_hosts")
	s.Call("mcp_register_server", `{"name":"new","url":"http://169.254.169.254/"}`).WantError("denied", "private")
	s.Call("mcp_register_server", `{"name":"new","url":"http://[::ffff:10.0.0.1]/"}`).WantError("denied", "private")
	s.Call("mcp_register_server", `{"name":"new","url":"http://localhost:80/"}`).WantError("denied", "private")
	s.Call("mcp_register_server", `{"name":"a__b","url":"https://x.example"}`).WantError("invalid_arguments", "__")

	s = start(t, conf{"allow_hosts": []string{"127.0.0.0/8"}}, bad(t, "own"))
	s.Call("mcp_register_server", string(quote(map[string]string{"name": "new", "type": "sse", "url": url}))).WantText("is connected; it has")
	awaitTool(t, s, "new__echo")
	if raw, ok := s.Host.State("registered/new"); !ok || !bytes.Contains(raw, []byte(url)) {
		t.Errorf("kept: %s", raw)
	}
	s.Call("mcp_register_server", string(quote(map[string]string{"name": "NEW", "url": url}))).WantError("conflict", "unregister it first")
	s.Call("mcp_register_server", string(quote(map[string]string{"name": "own", "url": "http://127.0.0.1:2/"}))).WantError("conflict", "operator")
	s.Call("mcp_register_server", string(quote(map[string]string{"name": "twin", "url": url + "/"}))).WantError("conflict", `"new" is this very server`)
	s.Call("mcp_unregister_server", `{"server_name":"own"}`).WantError("denied", "operator")
	s.Call("mcp_unregister_server", `{"server_name":"new"}`).WantText("removed")
	badtest.Await(t, "the tools to go", func() bool { return !hasTool(s, "new__echo") })
}

func TestReconfigure(t *testing.T) {
	one, two := bad(t, "one"), bad(t, "two")
	s := start(t, nil, one, two)
	awaitTool(t, s, "one__log")
	awaitTool(t, s, "two__log")
	before := s.Call("one__log", "{}").Text
	two["denied_tools"] = []string{"die"}
	if got := s.Configure(conf{"server": []conf{one, two, bad(t, "three")}}.String()); got != "reconfigured" {
		t.Fatal(got)
	}
	awaitTool(t, s, "three__log")
	badtest.Await(t, "the filter", func() bool { return hasTool(s, "two__log") && !hasTool(s, "two__die") })
	pid := func(text string) string { _, p, _ := strings.Cut(text, `"started":`); return p }
	if after := s.Call("one__log", "{}").Text; pid(after) != pid(before) {
		t.Errorf("an unchanged server was restarted: %s, then %s", before, after)
	}
	if got := s.Configure(conf{"server": []conf{two}}.String()); got != "reconfigured" {
		t.Fatal(got)
	}
	badtest.Await(t, "the removal", func() bool { return !hasTool(s, "one__log") && hasTool(s, "two__log") })
}

func TestTexts(t *testing.T) {
	for _, mode := range []string{"off", "eager", "auto", "pinned"} {
		text := orientation(mode)[0].Text
		if n := len([]rune(text)); n > 2000 {
			t.Errorf("%s: %d characters", mode, n)
		}
		if (mode == "off") == strings.Contains(text, "{server}__{tool}") {
			t.Errorf("%s: %s", mode, text)
		}
	}
	total, words := 0, map[string]string{}
	for _, d := range descriptions {
		total += len(d)
		f := strings.Fields(d)
		for i := 0; i+8 <= len(f); i++ {
			words[strings.Join(f[i:i+8], " ")] = d
		}
	}
	if total > 4000 {
		t.Errorf("the descriptions have %d bytes", total)
	}
	for _, mode := range []string{"off", "eager", "auto"} {
		f := strings.Fields(orientation(mode)[0].Text)
		for i := 0; i+8 <= len(f); i++ {
			if d := words[strings.Join(f[i:i+8], " ")]; d != "" {
				t.Errorf("orientation says the same as %q", d)
			}
		}
	}
}

func TestInstructionsAreCutAtALine(t *testing.T) {
	text := strings.Repeat(strings.Repeat("x", 99)+"\n", 50)
	got := capInstructions(text, 2000, &view{})
	if !strings.Contains(got, "1999 of 5000 characters shown") || capInstructions("short", 2000, &view{}) != "short" {
		t.Errorf("%s", got[len(got)-100:])
	}
}

// A model's summary is used when one is to be had, and asked for once.
func TestSummaries(t *testing.T) {
	var mu sync.Mutex
	var prompts []string
	b := newBridge()
	s := sdktest.Start(t, b.plugin, sdktest.Config("{}"), sdktest.Granted("shared", "tool:llm_generate"))
	s.Host.Tool("llm_generate", func(args json.RawMessage) (sdk.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		prompts = append(prompts, string(args))
		return sdk.RawJSON(json.RawMessage(`{"message":"A server for\n bad manners.","model":"m","model_tier_used":"low"}`)), nil
	})
	c := bad(t, "bad")
	if got := s.Configure(conf{"server": []conf{c}}.String()); got != "reconfigured" {
		t.Fatal(got)
	}
	awaitTool(t, s, "bad__grow")
	badtest.Await(t, "the summary", func() bool {
		return strings.Contains(s.Call("mcp_list_services", "{}").Text, `"summary":"A server for bad manners."`)
	})
	mu.Lock()
	if len(prompts) != 1 || !strings.Contains(prompts[0], "Tool echo") || !strings.Contains(prompts[0], "be careful") || !strings.Contains(prompts[0], `"model_tier":"low"`) {
		t.Errorf("%q", prompts)
	}
	mu.Unlock()
	s.Call("mcp_find_tools", `{"query":"manners"}`).WantText("Nothing here does that")
}

// What a server says is missing is filled in when it is known, and only then.
func TestRecovery(t *testing.T) {
	s := start(t, nil, bad(t, "bad"))
	awaitTool(t, s, "bad__meet")
	r := s.Call("bad__meet", `{"id":9223372036854775807}`)
	if !r.IsError || !strings.Contains(r.Text, "room is required") || !strings.Contains(r.Text, "[recovery-trail]") || !strings.Contains(r.Text, "tz was filled in from time zone") {
		t.Errorf("%+v", r)
	}
	dir := filepath.Join(s.DataDir, "tool-defaults")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.json"), []byte(`[{"providerName":"office","field":"room","value":["a"]},{"providerName":"office","tool":"meet","field":"room","value":"4.01"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Call("bad__meet", `{"id":9223372036854775807}`).WantText(`meeting {"id":9223372036854775807,"tz":"` + zone() + `","room":"4.01"}`)
	tool := &downstream.Tool{InputSchema: json.RawMessage(`{"properties":{"tz":{},"argument":{}}}`)}
	for text, want := range map[string]string{
		"Required parameter 'tz'": "tz", "tz is required": "tz", "the field is required": "", `"tz": must be provided`: "tz", "expected field tz": "tz", "fine": "",
	} {
		if got := wanted(text, tool, json.RawMessage(`{}`)); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := wanted("tz is required", tool, json.RawMessage(`{"tz":null}`)); got != "" {
		t.Errorf("a field that was sent is filled in: %s", got)
	}
	// A hint never reads like a missing field.
	hinted := &downstream.Tool{InputSchema: json.RawMessage(`{"type":"object","properties":{"tz":{"type":"string"}},"required":["tz"]}`), Required: []string{"tz"}}
	if got := wanted(strings.TrimPrefix(withHint("failed", hinted, json.RawMessage(`{"x":1}`)), "failed"), hinted, json.RawMessage(`{"x":1}`)); got != "" {
		t.Errorf("a hint names %q as missing", got)
	}
}
