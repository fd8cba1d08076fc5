package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// put writes a file in the way editors do: another one, renamed into its place.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".edit", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".edit", path); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func startWithFile(t *testing.T, text string, general conf, servers ...conf) (*sdktest.Session, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	if text != "" {
		put(t, path, text)
	}
	if general == nil {
		general = conf{}
	}
	general["mcp_json"] = path
	return start(t, general, servers...), path
}

func TestMCPJSONIsFollowed(t *testing.T) {
	t.Setenv("BAD_MODE", "banner")
	bin := badtest.Bad(t)
	one := fmt.Sprintf(`"one": {"command": %q, "args": ["${BAD_MODE}", "$${BAD_MODE}"], "x-mine": {"b": 1, "a": 2.50}}`, bin)
	two := fmt.Sprintf(`"two": {"type": "sse", "url": %q, "deniedTools": ["die"]}`, badtest.HTTP(t))
	s, path := startWithFile(t, `{ "mcpServers": { `+one+` } , "other": [1, 2] }`, nil, bad(t, "own"))
	awaitTool(t, s, "one__echo")
	awaitTool(t, s, "own__echo")
	if n := services(t, s)["one"]; !strings.Contains(n.Note, "🚢") {
		t.Errorf("the variable did not reach the server: %+v", n)
	}
	badtest.Await(t, "an id in the file", func() bool { return strings.Contains(get(t, path), `"id":"`) })
	if text := get(t, path); !strings.Contains(text, `"x-mine": {"b": 1, "a": 2.50}`) || !strings.Contains(text, ` , "other": [1, 2] }`) || !strings.Contains(text, `"$${BAD_MODE}"`) {
		t.Errorf("the file was rewritten: %s", text)
	}
	if got := get(t, path+".bak"); strings.Contains(got, `"id"`) {
		t.Errorf("backup: %s", got)
	}
	before := s.Call("one__log", "{}").Text
	pid := func(text string) string {
		_, p, _ := strings.Cut(text, `"started":`)
		p, _, _ = strings.Cut(p, ",")
		return p
	}
	put(t, path, strings.Replace(get(t, path), `"mcpServers": {`, `"mcpServers": { `+two+`,`, 1))
	awaitTool(t, s, "two__echo")
	if hasTool(s, "two__die") {
		t.Error("a denied tool is offered")
	}
	if after := s.Call("one__log", "{}").Text; pid(after) != pid(before) {
		t.Errorf("an unchanged server was restarted: %s, then %s", before, after)
	}
	put(t, path, `{"mcpServers": {`+two+`}}`)
	badtest.Await(t, "the removal", func() bool { return !hasTool(s, "one__echo") && hasTool(s, "two__echo") && hasTool(s, "own__echo") })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.Call("two__echo", "{}").WantText("echo {}") // a file that is gone changes nothing
}

// A file that can't be what was meant is never acted on, and never written over.
func TestASuspectMCPJSON(t *testing.T) {
	one := fmt.Sprintf(`{"mcpServers":{"one":{"command":%q,"id":"0123456789ab"}}}`, badtest.Bad(t))
	path := filepath.Join(t.TempDir(), "mcp.json")
	put(t, path, one)
	b := newBridge()
	s := sdktest.Start(t, b.plugin, sdktest.Config(conf{"mcp_json": path, "allow_hosts": []string{"127.0.0.0/8"}}.String()))
	awaitTool(t, s, "one__echo")
	url := badtest.HTTP(t)
	state := func() string { return b.health(t.Context()).Detail }
	for _, text := range []string{`{"mcpServers":`, `{"servers":{"one":{}}}`, `[]`, `{"mcpServers":[]}`, "not JSON at all"} {
		put(t, path, text)
		badtest.Await(t, "a word on "+text, func() bool { return strings.Contains(state(), "is not in force") })
		s.Call("one__echo", "{}").WantText("echo {}")
		s.Call("mcp_register_server", `{"name":"new","url":"`+url+`"}`).WantError("conflict", "is not written over")
		if got := get(t, path); got != text {
			t.Errorf("%s became %s", text, got)
		}
		if _, err := os.Stat(path + ".bak"); err == nil {
			t.Error("a backup was made of what can't be meant")
		}
		put(t, path, one)
		badtest.Await(t, "the all-clear", func() bool { return !strings.Contains(state(), "is not in force") })
	}
	// With a backup that is the one in force.
	put(t, path+".bak", strings.Replace(one, `"one"`, `"saved"`, 1))
	put(t, path, "{")
	awaitTool(t, s, "saved__echo")
	// An empty list is what was meant.
	put(t, path, `{"mcpServers":{}}`)
	badtest.Await(t, "the removal", func() bool { return !hasTool(s, "one__echo") && !hasTool(s, "saved__echo") })
}

// What is wrong with one entry costs that entry, and says where and what.
func TestMCPJSONFaults(t *testing.T) {
	t.Setenv("SET_HERE", "x")
	t.Setenv("BULKHEAD_SECRET", "x")
	bin := badtest.Bad(t)
	s, _ := startWithFile(t, `{"mcpServers":{
		"good": {"command": "`+bin+`", "args": ["good"]},
		"unset": {"url": "https://x.example/${NOT_SET_ANYWHERE}"},
		"private": {"command": "`+bin+`", "env": {"A": "${BULKHEAD_SECRET}"}},
		"default": {"command": "`+bin+`", "args": ["${SET_HERE:-d}"]},
		"prefix": {"url": "https://x.example/", "headers": {"A": "${env:SET_HERE}"}},
		"guarded": {"command": "`+bin+`", "argGuards": [{"handler": "regexp"}]},
		"options": {"command": "`+bin+`", "argGuards": [{"handler": "path-prefix", "options": {"args": ["a"], "allowedPrefixes": []}}]},
		"nowhere": {"type": "http"},
		"profile": {"url": "https://x.example/", "auth": {"profile": "work"}},
		"list": [1],
		"off": {"command": "`+bin+`", "disabled": true},
		"own": {"command": "`+bin+`"},
		"a b__c": {"command": "`+bin+`", "args": ["odd-name"]},
		"../x": {"command": "`+bin+`"}
	}}`, nil, bad(t, "own"))
	awaitTool(t, s, "good__echo")
	all := services(t, s)
	for name, want := range map[string]string{
		"unset": `mcpServers.unset.url: ${NOT_SET_ANYWHERE} is not set; add it to env`, "private": "mcpServers.private.env.A", "default": "${SET_HERE:-d} can't be read", "prefix": "mcpServers.prefix.headers.A",
		"guarded": "path-prefix and tool:NAME", "options": "allowed_prefixes is empty", "nowhere": "mcpServers.nowhere.url is missing", "profile": "auth.profile", "list": "mcpServers.list", "off": "disabled",
	} {
		if st := all[name]; st.State != stateRefused || !strings.Contains(st.Error, want) {
			t.Errorf("%s: %+v", name, st)
		}
		s.Call("mcp_list_resources", `{"server_name":"`+name+`"}`).WantError("denied", "")
	}
	if _, ok := all["../x"]; ok || len(all) != 13 {
		t.Errorf("%d servers", len(all))
	}
	s.Call("mcp_list_resources", `{"server_name":"a b__c"}`).WantText("bad://note")
}

// Guards of an mcp.json are kept, in whatever case their options are written.
func TestMCPJSONGuards(t *testing.T) {
	s, _ := startWithFile(t, fmt.Sprintf(`{"mcpServers":{"g":{"command":%q,"toolTimeoutMs":400,"argGuards":[{"handler":"path-prefix","tools":["Echo"],"options":{"Args":["dir"],"AllowedPrefixes":["/shared"],"requireArgs":true}}]}}}`, badtest.Bad(t)), nil)
	awaitTool(t, s, "g__echo")
	s.Call("g__echo", `{"dir":"/tmp"}`).WantError("invalid_arguments", "lies elsewhere")
	s.Call("g__echo", `{}`).WantError("invalid_arguments", "missing")
	s.Call("g__sleep", `{"ms":30000}`).WantError("timeout", "400ms")
}

// Registered servers stand in the file, as the agent's; an operator who adds to an
// entry takes it over.
func TestRegisteredServersStandInTheFile(t *testing.T) {
	url := badtest.HTTP(t)
	s, path := startWithFile(t, "", conf{"allow_hosts": []string{"127.0.0.0/8"}}, bad(t, "own"))
	s.Call("mcp_register_server", `{"name":"dot.ted","url":"`+url+`"}`).WantText("is connected")
	if text := get(t, path); !strings.Contains(text, `"dot.ted":{"id":"`) || !strings.Contains(text, `"origin":"agent"`) || !strings.Contains(text, `"type":"sse"`) {
		t.Errorf("%s", text)
	}
	if _, ok := s.Host.State("registered/dot.ted"); ok {
		t.Error("it stands in the state too")
	}
	s.Call("mcp_register_server", `{"name":"DOT.ted","url":"`+url+`"}`).WantError("conflict", "unregister it first")
	s.Call("mcp_register_server", `{"name":"42","url":"`+badtest.HTTP(t)+`"}`).WantText("is connected")
	s.Call("mcp_unregister_server", `{"server_name":"dot.ted"}`).WantText("removed")
	if text := get(t, path); strings.Contains(text, "dot.ted") || !strings.Contains(text, `"42":{`) || !strings.Contains(get(t, path+".bak"), "dot.ted") {
		t.Errorf("%s", text)
	}
	awaitTool(t, s, "42__echo")
	put(t, path, strings.Replace(get(t, path), `"type":"sse"`, `"type":"sse","deniedTools":["die"]`, 1))
	badtest.Await(t, "the operator's entry", func() bool { return hasTool(s, "42__echo") && !hasTool(s, "42__die") })
	s.Call("mcp_unregister_server", `{"server_name":"42"}`).WantError("denied", "operator")
}

// Of entries that are one server one is connected, and default_server adds none.
func TestTheSameServerTwice(t *testing.T) {
	url := badtest.HTTP(t)
	s, path := startWithFile(t, `{"mcpServers":{
		"z-agent": {"type":"sse","url":"`+url+`","origin":"agent","id":"000000000001"},
		"operator": {"type":"http","url":"`+strings.Replace(url, "http:", "HTTP:", 1)+`/","id":"000000000002"},
		"a-agent": {"type":"sse","url":"`+url+`","origin":"agent","id":"000000000003"}
	}}`, conf{"allow_hosts": []string{"127.0.0.0/8"}, "default_server": []conf{{"name": "seeded", "url": url}}})
	awaitTool(t, s, "operator__echo")
	if all := services(t, s); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	if text := get(t, path); !strings.Contains(text, "z-agent") || !strings.Contains(text, "a-agent") {
		t.Errorf("an operator's file was shortened: %s", text)
	}
}
