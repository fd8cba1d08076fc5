package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// webSchema and mcpSchema describe the config blocks of the contract's sample.
var webSchema = body(
	attr("allow_hosts", words), attr("max_search_results", number),
	attr("chunking_threshold", number), attr("chunk_max_length", number),
	attr("chunk_ttl", text, duration), attr("render_timeout", text, duration),
	many("search", "provider", attr("api_key", text, sensitive, required)),
)

var mcpSchema = body(
	attr("wrapper_mode", text),
	many("server", "name",
		attr("url", text), attr("command", words), attr("denied_tools", words),
		attr("tool_timeout", text, duration), attr("tasks", yesNo), attr("task_timeout", text, duration),
		one("attachments",
			attr("threshold", text, size),
			one("outbound", attr("param_paths", words)),
			one("inbound", attr("tools", words)),
		),
		many("arg_guard", "type", attr("tools", words), attr("mode", text), attr("options", "any")),
		one("elicitation",
			attr("mode", text), attr("max_per_call", number), attr("responder", text),
			attr("responder_timeout", text, duration), attr("defaults", "map(string)"), attr("denied_fields", words),
		),
	),
)

func TestContractSampleEvaluates(t *testing.T) {
	t.Setenv("BRAVE_API_KEY", "brave-key")
	c, diags := Load(contract(t))
	if len(diags) > 0 {
		t.Fatal(printed(t, c, diags))
	}
	web, diags := c.Evaluate(c.Plugin("web"), webSchema)
	if len(diags) > 0 {
		t.Fatal(printed(t, c, diags))
	}
	want := `{"allow_hosts":["intranet.example"],"chunk_max_length":4000,"chunk_ttl":"30m","chunking_threshold":8000,"max_search_results":5,"render_timeout":"30s","search":[{"api_key":"brave-key","provider":"brave"}]}`
	if string(web.JSON) != want {
		t.Errorf("web:\n%s\nwant\n%s", web.JSON, want)
	}
	if fmt.Sprint(web.Sensitive) != "[brave-key]" {
		t.Errorf("sensitive: %v", web.Sensitive)
	}
	mcp, diags := c.Evaluate(c.Plugin("mcp"), mcpSchema)
	if len(diags) > 0 {
		t.Fatal(printed(t, c, diags))
	}
	want = `{"server":[{"arg_guard":[{"mode":"enforce","options":{"allowed_prefixes":["/shared"],"args":["save_directory"],"require_args":true},"tools":["download_file"],"type":"path-prefix"}],` +
		`"attachments":{"inbound":{"tools":["get_email_attachment"]},"outbound":{"param_paths":["attachments[*]"]},"threshold":"256KiB"},"denied_tools":["delete_station"],` +
		`"elicitation":{"defaults":{"mailbox":"work"},"denied_fields":["accountId"],"max_per_call":3,"mode":"auto","responder":"llm","responder_timeout":"20s"},` +
		`"name":"calendar","task_timeout":"30m","tasks":true,"tool_timeout":"120s","url":"https://calendar-mcp.example/"},` +
		`{"arg_guard":[],"command":["npx","-y","@modelcontextprotocol/server-filesystem","/shared"],"name":"files"}],"wrapper_mode":"auto"}`
	if string(mcp.JSON) != want {
		t.Errorf("mcp:\n%s\nwant\n%s", mcp.JSON, want)
	}
	again, _ := c.Evaluate(c.Plugin("mcp"), mcpSchema)
	if !bytes.Equal(again.JSON, mcp.JSON) {
		t.Error("a second evaluation gives other bytes")
	}
}

// evaluated loads a file whose plugin "p" has the config given.
func evaluated(t *testing.T, config string, schema *pluginv1.ConfigBody, secrets map[string]string) (*Config, *Evaluated, hcl.Diagnostics) {
	t.Helper()
	c, diags := Load(project(t, "plugin \"p\" {\n  config {\n"+config+"\n  }\n}\n", secrets))
	if len(diags) > 0 {
		t.Fatal(printed(t, c, diags))
	}
	e, diags := c.Evaluate(c.Plugin("p"), schema)
	return c, e, diags
}

func TestNumbersStayExact(t *testing.T) {
	_, e, diags := evaluated(t, `
    big   = 9007199254740993
    huge  = 123456789012345678901234567890
    frac  = 0.1
    neg   = -12.50
    text  = "18446744073709551615"
    any   = { n = 9007199254740995, nothing = null, list = [1, "a", { x = 1e3 }] }
    empty = null`,
		body(attr("big", number), attr("huge", number), attr("frac", number), attr("neg", number), attr("text", number), attr("any", "any"), attr("empty", text)), nil)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	want := `{"any":{"list":[1,"a",{"x":1000}],"n":9007199254740995},"big":9007199254740993,"frac":0.1,"huge":123456789012345678901234567890,"neg":-12.5,"text":18446744073709551615}`
	if string(e.JSON) != want {
		t.Errorf("%s\nwant\n%s", e.JSON, want)
	}
}

func TestBlocksOfOneTypeMayDiffer(t *testing.T) {
	_, e, diags := evaluated(t, `
    item "a" "b" { v = "text" }
    item "c" "d" { v = [1, 2] }
    only { x = 1 }`,
		body(func(b *pluginv1.ConfigBody) {
			b.Blocks = append(b.Blocks, &pluginv1.ConfigBlock{TypeName: "item", Labels: []string{"first", "second"}, Body: body(attr("v", "any"))})
		}, one("only", attr("x", number)), one("none")), nil)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	want := `{"item":[{"first":"a","second":"b","v":"text"},{"first":"c","second":"d","v":[1,2]}],"only":{"x":1}}`
	if string(e.JSON) != want {
		t.Errorf("%s\nwant\n%s", e.JSON, want)
	}
}

func TestFunctionsAndPaths(t *testing.T) {
	t.Setenv("BULKHEAD_TEST_VALUE", "from the environment")
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "abs.txt"), []byte("x"), 0o644))
	c, e, diags := evaluated(t, `
    a = env("BULKHEAD_TEST_VALUE")
    b = env("BULKHEAD_TEST_UNSET", "default")
    c = "<${env("BULKHEAD_TEST_VALUE")}> $${X}"
    d = abspath("sub/../x")
    e = secret("key")
    f = file("config.hcl")
    g = env("BULKHEAD_TEST_UNSET", null)
    read  = "in"
    write = ["out", "/abs/out"]
    tool  = "sh"
    own   = "./bin/tool"`,
		body(attr("a", text), attr("b", text), attr("c", text), attr("d", text), attr("e", text), attr("f", text), attr("g", text),
			attr("read", text, readPath), attr("write", words, writePath), attr("tool", text, execPath), attr("own", text, execPath)),
		map[string]string{"key": "s3cret-value\n"})
	if len(diags) > 0 {
		t.Fatal(printed(t, c, diags))
	}
	var got map[string]any
	must(t, json.Unmarshal(e.JSON, &got))
	for k, want := range map[string]string{
		"a": "from the environment", "b": "default", "c": "<from the environment> ${X}", "d": filepath.Join(c.Dir, "x"), "e": "s3cret-value",
		"read": filepath.Join(c.Dir, "in"), "write": fmt.Sprint([]string{filepath.Join(c.Dir, "out"), "/abs/out"}), "tool": "sh", "own": filepath.Join(c.Dir, "bin/tool"),
	} {
		if fmt.Sprint(got[k]) != want {
			t.Errorf("%s = %v, want %s", k, got[k], want)
		}
	}
	if _, there := got["g"]; there {
		t.Error("a null was not dropped")
	}
	if !strings.Contains(fmt.Sprint(got["f"]), `plugin "p"`) {
		t.Errorf("file() = %v", got["f"])
	}
	uses := map[string]string{}
	for _, p := range e.Paths {
		uses[p.Path] = p.Use.String()
	}
	if uses[filepath.Join(c.Dir, "in")] != "PATH_USE_READ" || uses["/abs/out"] != "PATH_USE_WRITE" || uses[filepath.Join(c.Dir, "bin/tool")] != "PATH_USE_EXEC" || len(e.Paths) != 5 {
		t.Errorf("paths: %v", uses)
	}
	for _, p := range e.Paths {
		if p.Attribute == "tool" && !filepath.IsAbs(p.Path) {
			t.Errorf("sh was not looked up: %q", p.Path)
		}
	}
}

func TestEvaluateReportsEverythingAtOnce(t *testing.T) {
	schema := body(
		attr("url", text, required), attr("timeout", text, duration), attr("limit", text, size), attr("count", number),
		attr("names", words), attr("settings", "object({ deep = object({ n = number }) })"),
		many("server", "name", attr("url", text)), one("auth", attr("mode", text)),
		func(b *pluginv1.ConfigBody) {
			b.Blocks = append(b.Blocks,
				&pluginv1.ConfigBlock{TypeName: "pair", MinItems: 1, MaxItems: 2, Body: body()},
				&pluginv1.ConfigBlock{TypeName: "must", MinItems: 1, Body: body()})
		},
	)
	c, e, diags := evaluated(t, `
    timout   = "30s"
    timeout  = "30"
    limit    = "12 parsecs"
    count    = "many"
    names    = ["a", null]
    settings = { deep = { n = "x" } }
    auth     = "basic"
    server { url = HOME }
    server "a" "b" { url = auto }
    servr "c" {}
    auth { mode = env("BULKHEAD_TEST_UNSET") }
    auth {}
    url { x = 1 }
    pair {}
    pair {}
    pair {}
    names2 = lower("X")`, schema, nil)
	if e != nil {
		t.Error("a config with faults was evaluated")
	}
	golden(t, "evaluate.golden", printed(t, c, diags))
}

func TestLocate(t *testing.T) {
	c, e, diags := evaluated(t, `
    list = ["a",
            "b"]
    map  = { x = 1
             "y z" = { deep = 2 } }
    server "one" { url = "u" }
    server "two" {
      url = "v"
      guard { mode = "m" }
    }`,
		body(attr("list", words), attr("map", "any"), many("server", "name", attr("url", text), one("guard", attr("mode", text)))), nil)
	if len(diags) > 0 {
		t.Fatal(printed(t, c, diags))
	}
	attribute := func(n string) *pluginv1.PathStep {
		return &pluginv1.PathStep{Step: &pluginv1.PathStep_Attribute{Attribute: n}}
	}
	index := func(i int64) *pluginv1.PathStep {
		return &pluginv1.PathStep{Step: &pluginv1.PathStep_Index{Index: i}}
	}
	key := func(k string) *pluginv1.PathStep { return &pluginv1.PathStep{Step: &pluginv1.PathStep_Key{Key: k}} }
	block := func(n string, i uint32) *pluginv1.PathStep {
		return &pluginv1.PathStep{Step: &pluginv1.PathStep_Block{Block: &pluginv1.BlockStep{TypeName: n, Ordinal: i}}}
	}
	for _, tc := range []struct {
		path []*pluginv1.PathStep
		want string
	}{
		{nil, "2,3"},
		{[]*pluginv1.PathStep{attribute("list")}, "4,12"},
		{[]*pluginv1.PathStep{attribute("list"), index(1)}, "5,13"},
		{[]*pluginv1.PathStep{attribute("list"), index(7)}, "4,12"},
		{[]*pluginv1.PathStep{attribute("map"), key("y z"), key("deep")}, "7,31"},
		{[]*pluginv1.PathStep{attribute("map"), key("nope")}, "6,12"},
		{[]*pluginv1.PathStep{attribute("absent")}, "2,3"},
		{[]*pluginv1.PathStep{block("server", 1), attribute("url")}, "10,13"},
		{[]*pluginv1.PathStep{block("server", 1), attribute("absent")}, "9,5"},
		{[]*pluginv1.PathStep{block("server", 1), block("guard", 0), attribute("mode")}, "11,22"},
		{[]*pluginv1.PathStep{block("server", 9), attribute("url")}, "2,3"},
		{[]*pluginv1.PathStep{index(1), key("x"), {}, nil}, "2,3"},
	} {
		diags := e.Locate([]*pluginv1.Diagnostic{{Summary: "s", Path: tc.path}, nil})
		if got := fmt.Sprintf("%d,%d", diags[0].Subject.Start.Line, diags[0].Subject.Start.Column); got != tc.want || len(diags) != 1 {
			t.Errorf("%v at %s, want %s", tc.path, got, tc.want)
		}
	}
	warn := e.Locate([]*pluginv1.Diagnostic{{Severity: pluginv1.Severity_SEVERITY_WARNING, Summary: strings.Repeat("x", 5000), Code: "BH3002"}, {Code: "nonsense"}})
	if warn.HasErrors() != true || warn[0].Severity != hcl.DiagWarning || CodeOf(warn[0]) != "BH3002" || len(warn[0].Summary) > 2100 || CodeOf(warn[1]) != "BH3003" || warn[1].Summary == "" {
		t.Errorf("%v", warn)
	}
}

func TestPluginWithoutBlock(t *testing.T) {
	c, diags := Load("")
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	e, diags := c.Evaluate(nil, body(attr("x", text)))
	if len(diags) > 0 || string(e.JSON) != "{}" {
		t.Errorf("%s %v", e.JSON, diags)
	}
	if _, diags = c.Evaluate(nil, body(attr("x", text, required))); !diags.HasErrors() {
		t.Error("a missing key was not reported")
	}
	if _, diags = c.Evaluate(nil, nil); len(diags) > 0 {
		t.Error(diags)
	}
}

func TestSchemaWithNonsenseTypes(t *testing.T) {
	for _, typ := range []string{"strin", "list(", "${x}", strings.Repeat("list(", 3000)} {
		_, e, diags := evaluated(t, `x = 1`, body(attr("x", typ)), nil)
		if e != nil || !diags.HasErrors() {
			t.Errorf("type %.20q was taken: %v", typ, diags)
		}
	}
}
