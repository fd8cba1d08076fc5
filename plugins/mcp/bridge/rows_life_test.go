package bridge

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Sections 4.1 to 4.6: configuration, connections, leases, changes.
var rowsOfLife = []fact{
	{number: "4.1.1", what: "an entry of an mcp.json gets an id of 12 hexadecimal digits, written back", held: []string{"TestMCPJSONIsFollowed"}, check: func(t *testing.T, w *rowsWorld) {
		if id := newID(); len(id) != 12 || strings.Trim(id, "0123456789abcdef") != "" {
			t.Error(id)
		}
	}},
	{number: "4.1.2", what: "what an agent registered is the agent's until an operator adds to it", held: []string{"TestRegisteredServersStandInTheFile"}, check: func(t *testing.T, w *rowsWorld) {
		for member, agents := range map[string]bool{
			`"x":1`: true, `"id":"0123456789ab"`: true, `"transportMode":"auto"`: true, `"allowedTools":["a"]`: false, `"deniedTools":["a"]`: false, `"headers":{"a":"b"}`: false, `"auth":{"bearer":"x"}`: false,
			`"argGuards":[{"handler":"path-prefix"}]`: false, `"elicitation":{}`: false, `"attachments":{}`: false, `"toolTimeoutMs":5`: false, `"tasks":true`: false, `"taskTimeoutMinutes":5`: false, `"transportMode":"sse"`: false,
		} {
			all := settings.Defaults()
			got, _, err := settings.ReadJSON([]byte(`{"mcpServers":{"a":{"origin":"agent","url":"https://x.example/",`+member+`}}}`), os.LookupEnv, &all)
			if err != nil || len(got) != 1 || got[0].Agents != agents {
				t.Errorf("%s: %v %+v", member, err, got)
			}
		}
	}},
	{number: "4.1.3", what: "new names follow the rule, older odd ones load with a word", held: []string{"TestFaultsStandAtTheirAttribute", "TestMCPJSONFaults"}},
	{number: "4.1.4", what: "a taken name, an operator's name and the same server twice are not registered", held: []string{"TestRegister"}},
	{number: "4.1.5", what: "a registered server is kept although it can't be reached, and the answer says so", check: func(t *testing.T, w *rowsWorld) {
		w.Call("mcp_register_server", args("name", "later", "url", "http://127.0.0.1:1/mcp")).WantText("is registered but not connected")
		if _, ok := w.Host.State("registered/later"); !ok {
			t.Error("it is not kept")
		}
		w.Call("mcp_unregister_server", args("server_name", "later")).WantText("removed")
	}},
	{number: "4.1.6", what: "only an agent's server is unregistered; an unknown name is answered with those there are", check: func(t *testing.T, w *rowsWorld) {
		w.Call("mcp_unregister_server", args("server_name", "bad")).WantError("denied", "operator")
		w.Call("mcp_unregister_server", args("server_name", "nosuch")).WantError("tool_not_found", "bad, empty, lean")
	}},
	{number: "4.1.7", what: "an allowed list beats a denied one, in any case, and holds for prompts and resources too; what is denied is not offered, callable or found", held: []string{"TestFilters"}, check: func(t *testing.T, w *rowsWorld) {
		if !admits([]string{"ECHO"}, []string{"echo"}, "echo") || admits([]string{"x"}, nil, "echo") || admits(nil, []string{"Echo"}, "echo") || !admits(nil, nil, "echo") {
			t.Error("the lists are applied otherwise")
		}
	}},
	{number: "4.1.8", what: "a variable in a header stands for what env has, an unset one is a fault; auth beats a header Authorization", held: []string{"TestMCPJSONFaults"}, check: func(t *testing.T, w *rowsWorld) {
		s := start(t, nil, conf{"name": "h", "url": badtest.HTTP(t, "token=secret"), "headers": conf{"authorization": "Bearer wrong", "X-Empty": ""}, "auth": conf{"bearer": "secret"}})
		awaitTool(t, s, "h__echo")
	}},
	{number: "4.1.9", what: "sse, http and streamable-http are HTTP; a command is launched", check: func(t *testing.T, w *rowsWorld) {
		all := settings.Defaults()
		got, _, err := settings.ReadJSON([]byte(`{"mcpServers":{"a":{"type":"SSE","url":"https://x.example/"},"b":{"type":"http","url":"https://y.example/","transportMode":"sse"},
			"c":{"type":"streamable-http","url":"https://z.example/","transportMode":"streamable"},"d":{"command":"x","args":["y"]}}}`), os.LookupEnv, &all)
		if err != nil || len(got) != 4 || got[0].Transport != "" || got[1].Transport != "sse" || got[2].Transport != "http" || strings.Join(got[3].Command, " ") != "x y" {
			t.Errorf("%v %+v", err, got)
		}
		for _, s := range got {
			if s.Problem != "" {
				t.Error(s.Problem)
			}
		}
	}},
	{number: "4.2.1", what: "what makes two entries one server", check: func(t *testing.T, w *rowsWorld) {
		base := settings.Server{Name: "a", URL: "https://X.example/Path/", Headers: map[string]string{"K": "v"}, AllowedTools: []string{"a", "b"}}
		id := func(f func(*settings.Server)) string { c := base; f(&c); return identity(&c) }
		for what, f := range map[string]func(*settings.Server){
			"name": func(s *settings.Server) { s.Name = "b" }, "case of host": func(s *settings.Server) { s.URL = "HTTPS://x.EXAMPLE/Path" }, "header case": func(s *settings.Server) { s.Headers = map[string]string{"k": "v"} },
			"order": func(s *settings.Server) { s.AllowedTools = []string{"B", "a"} }, "guards": func(s *settings.Server) { s.ArgGuards = []settings.ArgGuard{{Handler: "x"}} },
			"attachments": func(s *settings.Server) { s.Attachments = &settings.Attachments{} }, "time": func(s *settings.Server) { s.ToolTimeout = sdk.Duration(5) }, "tasks": func(s *settings.Server) { s.Tasks = true },
			"elicitation": func(s *settings.Server) { s.Elicitation = &settings.Elicitation{} },
		} {
			if id(f) != identity(&base) {
				t.Errorf("%s makes another server", what)
			}
		}
		for what, f := range map[string]func(*settings.Server){
			"path case": func(s *settings.Server) { s.URL = "https://x.example/path" }, "header": func(s *settings.Server) { s.Headers = map[string]string{"K": "w"} }, "transport": func(s *settings.Server) { s.Transport = "sse" },
			"denied": func(s *settings.Server) { s.DeniedTools = []string{"c"} }, "auth": func(s *settings.Server) { s.Auth = &settings.Auth{Bearer: "x"} }, "command": func(s *settings.Server) { s.URL, s.Command = "", []string{"x"} },
		} {
			if id(f) == identity(&base) {
				t.Errorf("%s makes no other server", what)
			}
		}
	}},
	{number: "4.2.2", what: "only a hash of it is shown", check: func(t *testing.T, w *rowsWorld) {
		if id := identity(&settings.Server{URL: "https://x.example/", Auth: &settings.Auth{Bearer: "hidden"}}); len(id) != 64 || strings.Contains(id, "hidden") {
			t.Error(id)
		}
	}},
	{number: "4.2.3", what: "of entries that are one server the default's, the operator's or the first is connected", held: []string{"TestTheSameServerTwice"}},
	{number: "4.2.4", what: "a default server is left out where its URL is there already", held: []string{"TestTheSameServerTwice"}},
	{number: "4.3.1", what: "no file is no servers; an unreadable or suspect one is never acted on or written over, and its backup used", held: []string{"TestASuspectMCPJSON"}},
	{number: "4.3.2", what: "the file is written by renaming, the old text kept, unknown keys and all other bytes too", held: []string{"TestMCPJSONIsFollowed", "TestRegisteredServersStandInTheFile"}},
	{number: "4.3.3", what: "changes are noticed however they are made, and a removed file changes nothing", held: []string{"TestMCPJSONIsFollowed"}},
	{number: "4.3.4", what: "a change while another is acted on is not lost", check: func(t *testing.T, w *rowsWorld) {
		one := func(name string) string {
			return `{"mcpServers":{"` + name + `":{"command":"` + badtest.Bad(t) + `","args":["` + name + `"]}}}`
		}
		s, path := startWithFile(t, one("first"), nil)
		awaitTool(t, s, "first__echo")
		for _, name := range []string{"second", "third", "fourth", "last"} {
			put(t, path, one(name))
			w.Call("bad__sleep", `{"ms":200}`).WantText("slept")
		}
		badtest.Await(t, "the last state", func() bool {
			return hasTool(s, "last__echo") && !hasTool(s, "first__echo") && !hasTool(s, "second__echo")
		})
	}},
	{number: "4.3.5", what: "requests for a refresh from before the start", elsewhere: noBus},
	{number: "4.4.1", what: "the newest revision both sides speak is found", held: []string{"TestGoSDKServer", "TestPrograms"}},
	{number: "4.4.2", what: "a guard that can't be kept leaves a server unconnected", held: []string{"TestAGuardThatIsATool", "TestAGuardedServerIsRefused"}},
	{number: "4.4.3", what: "a connection that was replaced is not replaced again", held: []string{"TestCallsSurviveAReconnect"}},
	{number: "4.4.4", what: "what a server offered stays while it can't be reached, narrowed by new filters", check: func(t *testing.T, w *rowsWorld) {
		url := badtest.HTTP(t)
		s := start(t, nil, conf{"name": "h", "url": url})
		awaitTool(t, s, "h__die")
		s.Call("h__die", "{}") // and with it the whole server
		if got := s.Configure(conf{"server": []conf{{"name": "h", "url": url, "denied_tools": []string{"die"}}}}.String()); got != "reconfigured" {
			t.Fatal(got)
		}
		badtest.Await(t, "the narrower list", func() bool { return hasTool(s, "h__echo") && !hasTool(s, "h__die") })
		s.Call("h__echo", "{}").WantError("unavailable", "not reachable")
	}},
	{number: "4.4.5", what: "a failed connect is tried again, ever more rarely, and at once when a call needs it", check: func(t *testing.T, w *rowsWorld) {
		home := filepath.Join(t.TempDir(), "not-there-yet")
		s := start(t, nil, conf{"name": "late", "command": []string{home}})
		badtest.Await(t, "the reason", func() bool { return strings.Contains(services(t, s)["late"].Error, "no such file") })
		if err := os.Symlink(badtest.Bad(t), home); err != nil {
			t.Fatal(err)
		}
		s.Call("mcp_list_resources", args("server_name", "late")).WantText("bad://note")
	}},
	{number: "4.4.6", what: "a method that is not there is none of a kind; another failure keeps what was known", check: func(t *testing.T, w *rowsWorld) {
		if v := view0(t, w, "unknown"); len(v.prompts) != 0 || len(v.tools) == 0 || v.surface.Fingerprint == "" {
			t.Errorf("%+v", v)
		}
		b := newBridge()
		s := ending(t, startBridge(t, b, bad(t, "flaky", "prompts=flaky")))
		awaitTool(t, s, "flaky__plan-prompt")
		srv, err := b.find("flaky")
		if err != nil {
			t.Fatal(err)
		}
		if err := srv.look(t.Context(), func(l *link, v *view) error {
			again, err := l.conn.List(t.Context(), v.surface)
			if err == nil && (len(again.Prompts) != 1 || again.Fingerprint != "") {
				err = errors.New("what was known is lost")
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}},
	{number: "4.5", what: "a call keeps its connection: replaced, it ends with its last call, and each call runs once", held: []string{"TestCallsSurviveAReconnect"}},
	{number: "4.6.1", what: "a notice of a change is acted on without a new connection", held: []string{"TestListChanged"}},
	{number: "4.6.2", what: "what has not changed is not published", check: func(t *testing.T, w *rowsWorld) {
		s, err := w.bridge.find("lean")
		if err != nil {
			t.Fatal(err)
		}
		before := s.last()
		if err := s.look(t.Context(), func(l *link, _ *view) error { s.refresh(t.Context(), l); return nil }); err != nil || s.last() != before {
			t.Errorf("%v: published anew", err)
		}
	}},
	{number: "4.6.3", what: "what a fingerprint tells apart", held: []string{"TestFingerprints"}},
	{number: "4.6.4", what: "a summary is written once for each state, 2 to 4 sentences; without a model what there is is counted", held: []string{"TestSummaries"}, check: func(t *testing.T, w *rowsWorld) {
		v := view0(t, w, "bad")
		if got := counted(v); !strings.Contains(got, "tools: echo, sleep") || !strings.Contains(got, " more; 1 prompts: plan; 2 resource(s)") {
			t.Error(got)
		}
		p := summaryPrompt("bad", &downstream.Info{Name: "n"}, v)
		if strings.Count(p, "\nTool ") != 20 || !strings.Contains(p, "2 to 4 sentences, 40 to 80 words") {
			t.Error(p)
		}
	}},
	{number: "4.6.5", what: "flags come from the settings, and a summary holds nothing up", held: []string{"TestSummaries"}},
}

func view0(t *testing.T, w *rowsWorld, name string) *view {
	t.Helper()
	s, err := w.bridge.find(name)
	if err != nil {
		t.Fatal(err)
	}
	return s.last()
}
