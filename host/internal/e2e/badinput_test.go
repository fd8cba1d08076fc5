package e2e

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// says checks a text for words.
func says(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("does not say %q:\n%s", word, clip(text))
		}
	}
}

// answers checks that the good plugin still answers.
func (w *world) answers() {
	w.t.Helper()
	if out := w.ok("call", "fx_echo", "still=here"); !strings.Contains(out, `{"still":"here"}`) {
		w.t.Errorf("the good plugin answered %s", clip(out))
	}
}

// head is the block every config here begins with, 5 lines.
const head = "host {\n  data_dir = \"data\"\n  plugins  = \"plugins\"\n  shared   = \"shared\"\n}\n"

func TestBadArguments(t *testing.T) {
	w := newWorld(t, instance("fx", "")+"agent \"other\" {\n}\n", "fixture")
	w.serve()
	w.fails(1, []string{"no tool \"fx_eco\"", "did you mean fx_echo", "BH1001"}, "call", "fx_eco")
	w.fails(1, []string{"no tool", "list_tool_guides"}, "call", strings.Repeat("x", 5000))
	w.fails(1, []string{"BH1001"}, "call", "../../etc/passwd")
	w.fails(2, []string{"not JSON", "BH1002"}, "call", "fx_echo", `{"a":`)
	w.fails(1, []string{"must be a JSON object", "[1,2]", "BH1002"}, "call", "fx_echo", `[1,2]`)
	w.fails(1, []string{"/ms", "got string, want integer", `"soon"`, `{"type":"integer"}`, "BH1003"}, "call", "fx_slow", "ms=soon")
	w.fails(1, []string{"missing property 'ms'", "BH1003"}, "call", "fx_slow")
	w.fails(1, []string{"mss", "BH1003"}, "call", "fx_slow", "ms=1", "mss=2")
	w.fails(1, []string{`call_tool takes {"name"`}, "call", "call_tool", `{"nome":"x"}`)
	w.fails(1, []string{"can't call itself"}, "call", "call_tool", `{"name":"call_tool","arguments":{"name":"x"}}`)
	w.fails(1, []string{`no agent "nobody"`, "BH5010"}, "call", "--agent", "nobody", "fx_echo")
	w.ok("call", "--session", "mine", "fx_echo")
	w.fails(1, []string{`no session "mine"`, "BH1012"}, "call", "--agent", "other", "--session", "mine", "fx_echo")
	w.fails(1, []string{"1 to 128 letters"}, "call", "--session", "a/b c", "fx_echo")

	for _, size := range []int{5 << 20, 10 << 20} {
		big := `{"data":"` + strings.Repeat("x", size) + `"}`
		w.write("big.json", big)
		w.fails(1, []string{"BH1004", "/shared"}, "call", "fx_echo", "@big.json")
		out, errOut, code := w.runIn(big, "call", "fx_echo", "-")
		if code != 1 {
			t.Errorf("%d bytes on stdin: exit %d", size, code)
		}
		says(t, out+errOut, "BH1004", "/shared")
	}
	// One line too long for MCP is answered, and the next one too.
	out, _, code := w.runIn(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`+strings.Repeat("x", 10<<20)+"\"}}\n"+`{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n", "mcp")
	if code != 0 {
		t.Errorf("mcp: exit %d", code)
	}
	says(t, out, "a message has at most", `{"jsonrpc":"2.0","id":2,"result":{}}`)
	w.answers()
}

func TestFourFaultsAtOnce(t *testing.T) {
	w := newWorld(t, "", "fixture")
	w.write("config.hcl", head+`
plugin "fx" {
  binary = "bulkhead-plugin-fixture"
  grants = ["shered"]
  limits {
    calls        = "many"
    call_timeout = "1 hour"
  }
  config {
    greting = "hi"
  }
}
`)
	faults := []string{
		`config.hcl:9,12: unknown grant "shered"; did you mean "shared"?`, `     9 |   grants = ["shered"]`,
		`config.hcl:11,20: wrong type for "calls"; a number is required`, `    11 |     calls        = "many"`,
		`config.hcl:12,20: "1 hour" is not acceptable for "call_timeout"; a duration is a number and a unit`, `    12 |     call_timeout = "1 hour"`,
	}
	plugins := []string{`config.hcl:15,5: unknown key "greting"; did you mean "greeting"?`, `    15 |     greting = "hi"`}
	all := w.fails(1, append(faults, plugins...), "check")
	for _, caret := range []string{"       |            ^", "       |                    ^^^^^^", "       |     ^^^^^^^"} {
		says(t, all, caret)
	}
	w.fails(1, faults, "serve")
	w.fails(1, faults, "status")
}

func TestBadConfig(t *testing.T) {
	w := newWorld(t, "", "fixture")
	good := instance("fx", "")
	for _, c := range []struct {
		name, hcl string
		words     []string
	}{
		{"syntax", head + "plugin \"fx\" {\n", []string{"bad.hcl:6,", "BH3001"}},
		{"missing secret", head + "agent \"me\" {\n  token = secret(\"me\")\n}\n",
			[]string{"bad.hcl:7,11: secret \"me\" does not exist", "data/secrets/me with mode 0600", "BH3004", "7 |   token = secret(\"me\")"}},
		{"unset environment", head + "frontend \"http\" {\n  address = env(\"BULKHEAD_TEST_UNSET\")\n}\n",
			[]string{"bad.hcl:7,13: environment variable BULKHEAD_TEST_UNSET is not set", `env("BULKHEAD_TEST_UNSET", "")`, "BH3003"}},
		{"shell style variable", head + "frontend \"http\" {\n  address = \"${ADDRESS}\"\n}\n", []string{"bad.hcl:7,16", `env("ADDRESS")`}},
		{"open to others without tokens", head + "frontend \"http\" {\n  address = \"0.0.0.0:7411\"\n}\n", []string{"bad.hcl:7,13", "needs agents with tokens"}},
		{"no such port", head + "frontend \"http\" {\n  address = \"127.0.0.1:70000\"\n}\n", []string{`bad.hcl:7,13: "127.0.0.1:70000" is no address`, "BH3003"}},
		{"a variable's name", head + "plugin \"fx\" {\n  env = { \"A=B\" = \"x\" }\n}\n", []string{`"A=B" is no name of an environment variable`, "BH3003"}},
		{"a variable's value", head + "plugin \"fx\" {\n  env = { A = \"x\\u0000y\" }\n}\n", []string{"the value of the environment variable A has a zero byte", "BH3003"}},
		{"restricted tool lowered", head + "plugin \"web\" {\n  tools \"download_pdf\" {\n    tier = \"standard\"\n  }\n}\n",
			[]string{"bad.hcl:8,12: restricted tool \"download_pdf\" is lowered to standard", `accept_risk = "reason"`, "BH3003"}},
		{"restricted tool lowered by name", head + "policy {\n  tier \"elevated\" {\n    tools = [\"mcp_register_server\"]\n  }\n}\n",
			[]string{"bad.hcl:8,13: restricted tool \"mcp_register_server\" is lowered to elevated"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			w.write("bad.hcl", c.hcl)
			w.fails(1, c.words, "check", "--config", "bad.hcl")
			w.fails(1, c.words[:1], "serve", "--config", "bad.hcl")
		})
	}
	w.t = t
	w.fails(1, []string{"nowhere.hcl", "no such file", "BH3005"}, "serve", "--config", "nowhere.hcl")
	w.fails(1, []string{"BH3005"}, "check", "--config", "plugins")
	w.write("bad.hcl", head+good+"policy {\n  rule \"r\" {\n    tools = [\"fx_echo\"]\n    tier  = \"restricted\"\n  }\n}\n")
	out := w.ok("check", "--config", "bad.hcl")
	says(t, out, `bad.hcl:11,3: warning: rule "r" has no effect yet`, "BH3006", "bad.hcl: ok")
}

// A plugin that refuses its config, or lacks its binary, is shown at its place and
// harms nobody.
func TestBadPluginBlocks(t *testing.T) {
	w := newWorld(t, "", "fixture")
	w.write("config.hcl", hostBlocks+instance("fx", "")+instance("picky", "  config {\n    fail = true\n  }\n")+
		instance("typo", "  config {\n    greeting = [1]\n  }\n")+
		instance("both", "  config {\n    greeting = [1]\n    fail     = true\n  }\n")+"plugin \"absent\" {\n}\n"+
		instance("pinned", "  sha256 = \""+strings.Repeat("0", 64)+"\"\n"))
	w.fails(1, []string{
		"config.hcl:17,12: This config is refused; fail is set.", "17 |     fail = true", "|            ^^^^",
		`config.hcl:24,16: wrong type for "greeting"`, "24 |     greeting = [1]",
		// A fault of a type does not hide what the plugin itself says of the rest.
		`config.hcl:31,16: wrong type for "greeting"`, "config.hcl:32,16: This config is refused; fail is set.",
		`config.hcl:35,1: the binary of plugin "absent" can't be used`, "no such file", "BH2007",
	}, "check")
	w.serve()
	w.answers()
	for name, words := range map[string][]string{
		"picky":  {"refuses its config", "This config is refused"},
		"typo":   {"config.hcl:24,16", `wrong type for "greeting"`},
		"absent": {"no such file"},
		"pinned": {"sha256", "config pins"},
	} {
		p := w.plugin(name)
		if p.State == "ready" {
			t.Errorf("%s is ready", name)
		}
		says(t, p.LastError, words...)
	}
	status := w.ok("status")
	says(t, status, "This config is refused")
	if strings.Contains(status, "too often") {
		t.Errorf("what failed once is said to have failed too often:\n%s", status)
	}
	w.fails(1, []string{"no tool \"pinned_echo\""}, "call", "pinned_echo")
	w.fails(1, []string{"no tool \"picky_echo\""}, "call", "picky_echo")
}

// What lies in the plugins folder beside plugins is named and left alone.
func TestPluginsFolder(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	at := func(name string) string { return filepath.Join(w.dir, "plugins", name) }
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at(name), mode); err != nil { // past the umask
			t.Fatal(err)
		}
	}
	binary, err := os.ReadFile(at("bulkhead-plugin-fixture"))
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(w.dir, "outside")
	if err := os.WriteFile(outside, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	put("notes.txt", "remember the milk", 0o644)
	put("bulkhead-plugin-inert", string(binary), 0o644)
	put("bulkhead-plugin-open", string(binary), 0o777)
	put("bulkhead-plugin-Bad_Name", string(binary), 0o755)
	put("bulkhead-plugin-garbage", "#!/bin/sh\necho 'Hello, I am no plugin'\nexec sleep 60\n", 0o755)
	put("bulkhead-plugin-text", "just text", 0o755)
	w.mkdir("plugins/bulkhead-plugin-folder")
	if err := os.Symlink(outside, at("bulkhead-plugin-leads-out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", at("bulkhead-plugin-dangling")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("bulkhead-plugin-loop", at("bulkhead-plugin-loop")); err != nil {
		t.Fatal(err)
	}
	refused := []string{
		"notes.txt is not named bulkhead-plugin-NAME and is left alone",
		"bulkhead-plugin-inert is not executable",
		"bulkhead-plugin-open can be written by others", "chmod go-w",
		"bulkhead-plugin-Bad_Name: a plugin's name is lower-case letters",
		"bulkhead-plugin-leads-out leads out of", "outside",
		"bulkhead-plugin-dangling is a link to nothing",
		"the links of " + at("bulkhead-plugin-loop") + " lead nowhere",
	}
	says(t, w.ok("check"), append(refused, "config.hcl: ok")...)
	w.serve()
	w.answers()
	status := w.ok("status")
	says(t, status, refused...)
	garbage, text := w.plugin("garbage"), w.plugin("text")
	if garbage.State == "ready" || garbage.LastRef != "BH2006" {
		t.Errorf("garbage: %+v", garbage)
	}
	says(t, garbage.LastError, "Hello, I am no plugin")
	if text.State == "ready" || text.LastError == "" {
		t.Errorf("text: %+v", text)
	}
	w.answers()
	for _, p := range w.status().Plugins {
		switch p.Name {
		case "fx", "garbage", "text":
		default:
			t.Errorf("plugin %q was loaded", p.Name)
		}
	}
	// A folder that others can write is refused as a whole.
	if err := os.Chmod(at(""), 0o777); err != nil {
		t.Fatal(err)
	}
	w.fails(1, []string{"can be written by others", "chmod go-w"}, "check")
}

func TestBadPlaces(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	w.fails(3, []string{"another host holds", "data/run/lock", "BH1023"}, "serve")

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	w.write("port.hcl", strings.Replace(head, `"data"`, `"data2"`, 1)+"frontend \"http\" {\n  address = \""+address+"\"\n}\n")
	w.fails(1, []string{address, "address already in use", "BH1025", "set another `address`"}, "serve", "--config", "port.hcl")

	w.write("file", "")
	for _, dir := range []string{"file", "/proc/bulkhead"} {
		w.write("dir.hcl", strings.Replace(head, `"data"`, `"`+dir+`"`, 1))
		w.fails(1, []string{"the data dir", dir, "can't be made", "BH1024"}, "serve", "--config", "dir.hcl")
		w.fails(3, []string{"BH1024"}, "call", "--config", "dir.hcl", "fx_echo")
	}
	for name, c := range map[string]struct {
		key  string
		mode os.FileMode
		word string
	}{"open": {strings.Repeat("0", 64), 0o644, "readable by others (mode 0644)"}, "damaged": {"no key", 0o600, "is damaged"}} {
		w.mkdir("keyed-" + name)
		key := filepath.Join(w.dir, "keyed-"+name, "host.key")
		if err := os.WriteFile(key, []byte(c.key), c.mode); err != nil {
			t.Fatal(err)
		}
		w.write("dir.hcl", strings.Replace(head, `"data"`, `"keyed-`+name+`"`, 1))
		if out := w.fails(1, []string{key, c.word, "BH1029", "`chmod 600` it or restore it"}, "serve", "--config", "dir.hcl"); strings.Contains(out, "secrets/") {
			t.Errorf("%s: a hint that leads astray: %s", name, out)
		}
	}
	for _, args := range [][]string{{"call", "--session", "a\nb", "fx_echo"}, {"call", "--agent", "a\x1bb", "fx_echo"}, {"tools", "--session", "a\nb"}, {"inbox", "--session", "a\x7f"}} {
		w.fails(2, []string{args[1] + " is a name without control characters"}, args...)
	}
	if os.Geteuid() != 0 {
		if err := os.Mkdir(filepath.Join(w.dir, "readonly"), 0o500); err != nil {
			t.Fatal(err)
		}
		w.write("dir.hcl", strings.Replace(head, `"data"`, `"readonly"`, 1))
		w.fails(1, []string{"permission denied", "BH1024"}, "serve", "--config", "dir.hcl")
	}
	w.answers()
}

// A file in the folder that never becomes a plugin holds up nobody who waits for
// the host to be ready.
func TestStrayPluginHoldsNobodyUp(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	if err := os.WriteFile(filepath.Join(w.dir, "plugins", "bulkhead-plugin-mute"), []byte("#!/bin/sh\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := w.start("http://", "serve")
	var url string
	testbin.Await(t, 20*time.Second, "readiness", func() bool {
		if url == "" {
			_, rest, ok := strings.Cut(p.out.String(), "http://")
			if !ok {
				return false
			}
			url = "http://" + strings.Fields(rest)[0]
		}
		resp, err := http.Get(url + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	if mute := w.plugin("mute"); mute.State != "starting" {
		t.Errorf("ready only when the stray one had failed: %+v", mute)
	}
	w.answers()
}

// Two commands that each would start a host end up with one.
func TestCallsWithoutHostAtOnce(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	type end struct {
		out  string
		code int
	}
	bulkhead(t) // a build that fails ends the test here, not a goroutine of it
	ends := make(chan end, 6)
	for range cap(ends) {
		go func() {
			out, errOut, code := w.runQuiet("call", "fx_echo", "a=1")
			ends <- end{out + errOut, code}
		}()
	}
	for range cap(ends) {
		e := <-ends
		if e.code != 0 {
			t.Errorf("exit %d: %s", e.code, clip(e.out))
		}
	}
}

// A tier is lowered only with a written reason; without one the tool stays as it is,
// and status says so.
func TestLoweredTier(t *testing.T) {
	const lowered = "  tools \"fx_guarded\" {\n    tier = \"standard\"\n%s  }\n"
	w := newWorld(t, instance("fx", strings.Replace(lowered, "%s", "", 1)), "fixture")
	w.serve()
	w.fails(1, []string{"BH5005"}, "call", "fx_guarded", "name=Ada")
	says(t, w.ok("status"), "fx_guarded stays restricted", "accept_risk")
	w.stop()
	w.write("config.hcl", hostBlocks+instance("fx", strings.Replace(lowered, "%s", "    accept_risk = \"a test\"\n", 1)))
	w.serve()
	if out := w.ok("call", "fx_guarded", "name=Ada"); !strings.Contains(out, "ran for Ada") {
		t.Errorf("got %s", out)
	}
	w.stop() // its log is complete then
	says(t, w.log.String(), "lowered at the operator's risk", "a test")
}

func TestProfileNarrows(t *testing.T) {
	w := newWorld(t, instance("fx", "")+"profile \"careful\" {\n  tools = [\"fx_e*\"]\n  deny  = [\"fx_long\"]\n}\n"+
		"agent \"reviewer\" {\n  profile = \"careful\"\n}\n", "fixture")
	w.serve()
	w.ok("call", "--agent", "reviewer", "fx_echo")
	w.ok("call", "--agent", "reviewer", "list_tool_guides")
	w.fails(1, []string{"BH5001"}, "call", "--agent", "reviewer", "fx_slow", "ms=1")
	w.fails(1, []string{"BH5001"}, "call", "--agent", "reviewer", "fx_long", "chars=1")
}
