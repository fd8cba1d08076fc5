package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// While the config on disk has faults the running host is used as before, by the
// command line too, and everybody who looks is told.
func TestRunningHostUnderAFaultyConfig(t *testing.T) {
	w := newWorld(t, "", "fixture")
	good := hostBlocks + instance("fx", "")
	w.write("config.hcl", good)
	w.serve()
	anybody := w.as("")
	for name, c := range map[string]struct{ text, at string }{
		"values": {good + "agent \"x\" {\n  grups = [\"a\"]\n}\nagent \"y\" {\n  tols = [\"a\"]\n}\n", "config.hcl:"},
		"syntax": {good + "agent \"x\" {\n", "config.hcl:"},
	} {
		w.write("config.hcl", c.text)
		testbin.Await(t, 20*time.Second, "the warning in the status", func() bool {
			return strings.Contains(anybody.do("GET", "/v1/events?follow=false", "").body+w.ok("status", "--json"), "is not in force since")
		})
		for _, command := range [][]string{{"call", "fx_echo"}, {"tools"}, {"status"}, {"events"}, {"questions"}, {"guide"}} {
			_, errOut, code := w.run(command...)
			if code != 0 || !strings.Contains(errOut, "warning: the config has faults") || !strings.Contains(errOut, c.at) {
				t.Errorf("%s: %v: exit %d\n%s", name, command, code, errOut)
			}
		}
		r := w.rawMCP()
		r.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fx_echo","arguments":{}}}`)
		if m := r.hear(); !m.Get("result").Exists() {
			t.Errorf("%s: MCP on stdio: %s", name, m)
		}
		if out := w.ok("events", "--json"); !strings.Contains(out, `"config.refused"`) {
			t.Errorf("%s: no event tells of it:\n%s", name, clip(out))
		}
		w.write("config.hcl", good)
		testbin.Await(t, 20*time.Second, "the warning to go", func() bool { return !strings.Contains(w.ok("status"), "is not in force") })
	}
	// Every fault is named, by the log and to who asks for the reload.
	w.write("config.hcl", good+"agent \"x\" {\n  grups = [\"a\"]\n}\nagent \"y\" {\n  tols = [\"a\"]\n}\n")
	w.fails(1, []string{"grups", "tols"}, "reload")
	w.logged("tols")
	w.stop()
	// Without a running host the faults are the answer.
	w.fails(1, []string{"grups", "tols"}, "call", "fx_echo")
}

// A fault that only a plugin finds keeps the file out of force too.
func TestPluginRefusesAConfig(t *testing.T) {
	w := newWorld(t, "", "fixture")
	good := hostBlocks + instance("fx", "")
	w.write("config.hcl", good)
	w.serve()
	w.write("config.hcl", hostBlocks+instance("fx", "  config {\n    no_such = 1\n  }\n")+instance("other", "  config {\n    nor_this = 1\n  }\n"))
	w.fails(1, []string{"no_such", "nor_this"}, "reload")
	if s := w.ok("status", "--json"); !strings.Contains(gjson.Get(s, "warnings").Raw, "is not in force since") {
		t.Errorf("the status does not tell:\n%s", gjson.Get(s, "warnings").Raw)
	}
}
