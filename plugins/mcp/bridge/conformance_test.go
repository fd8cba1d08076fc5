package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// The client scenarios of the MCP conformance suite. The suite starts this test
// binary as the client under test; with clientEnv set it is the bridge, connected
// to the suite's server, and does what the scenario wants done.
const clientEnv = "BULKHEAD_CONFORMANCE_CLIENT"

func TestConformance(t *testing.T) {
	root, err := filepath.Abs("../../../tools/npm/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	node, suite := filepath.Join(root, "node/bin/node"), filepath.Join(root, "@modelcontextprotocol/conformance/dist/index.js")
	if _, err := os.Stat(suite); err != nil {
		t.Skipf("the conformance suite is not installed: run `make tools` (%v)", err)
	}
	for version, scenarios := range map[string][]string{
		"2025-11-25": {"initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults"},
		"2026-07-28": {"tools_call", "request-metadata", "http-standard-headers", "http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref", "json-schema-2020-12-preservation", "sep-2322-client-request-state"},
	} {
		for _, scenario := range scenarios {
			t.Run(version+"/"+scenario, func(t *testing.T) {
				cmd := exec.CommandContext(badtest.Within(t, time.Minute), node, suite, "client", "--command", os.Args[0], "--scenario", scenario, "--spec-version", version, "--force", "--verbose", "-o", t.TempDir())
				cmd.Env = append(os.Environ(), clientEnv+"="+scenario)
				out, err := cmd.CombinedOutput()
				if err != nil || !bytes.Contains(out, []byte("SUCCESS")) {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// conformanceClient is the client under test.
func conformanceClient(scenario string) {
	tb := &failing{}
	defer tb.end()
	s := sdktest.Start(tb, Plugin(), sdktest.Config(conf{"server": []conf{{"name": "x", "url": os.Args[len(os.Args)-1],
		"elicitation": conf{"mode": "defaults", "defaults": conf{"confirmed": true}}}}}.String()))
	var typed []string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var rows []row
		if err := json.Unmarshal([]byte(s.Call("mcp_list_services", "{}").Text), &rows); err != nil {
			tb.Fatal(err)
		}
		if rows[0].State == stateReady {
			break
		}
	}
	for _, n := range s.ToolNames() {
		if strings.HasPrefix(n, "x__") && !strings.HasSuffix(n, "-prompt") {
			typed = append(typed, n)
		}
	}
	var given struct {
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given) // most scenarios have none
	switch scenario {
	case "tools_call":
		s.Call("x__add_numbers", `{"a":5,"b":3}`)
	case "elicitation-sep1034-client-defaults":
		s.Call("x__test_client_elicitation_defaults", `{}`)
	case "sep-2322-client-request-state":
		for _, tool := range []string{"echo_state", "unrelated", "no_state", "no_result_type"} {
			s.Call("x__test_mrtr_"+tool, `{}`)
		}
	case "sse-retry":
		s.Call("x__test_reconnection", `{}`)
	case "http-custom-headers":
		for _, c := range given.ToolCalls {
			s.Call("x__"+c.Name, string(c.Arguments))
		}
	case "http-invalid-tool-headers":
		for _, n := range typed {
			s.Call(n, `{"region":"us-west1"}`)
		}
	case "http-standard-headers":
		s.Call(typed[0], `{}`)
		var d struct{ Resources []struct{ URI string } }
		if json.Unmarshal([]byte(s.Call("mcp_list_resources", `{"server_name":"x"}`).Text), &d) == nil && len(d.Resources) > 0 {
			s.Call("mcp_read_resource", fmt.Sprintf(`{"server_name":"x","uri":%q}`, d.Resources[0].URI))
		}
		for _, n := range s.ToolNames() {
			if strings.HasSuffix(n, "-prompt") {
				s.Call(n, `{}`)
				break
			}
		}
	case "json-schema-2020-12-preservation":
		var d struct {
			Tools []struct{ InputSchema json.RawMessage }
		}
		text := s.Call("mcp_get_service_details", `{"server_name":"x","tool_name":"json_schema_2020_12_tool"}`).Text
		if err := json.NewDecoder(strings.NewReader(text)).Decode(&d); err != nil || len(d.Tools) != 1 {
			tb.Fatal(err, text)
		}
		s.Call("x__json_schema_echo", `{"schema":`+string(d.Tools[0].InputSchema)+`}`)
	}
}

// failing is a test of a program that is none.
type failing struct {
	failed   bool
	cleanups []func()
}

func (f *failing) Helper()                        {}
func (f *failing) Error(a ...any)                 { f.failed = true; fmt.Fprintln(os.Stderr, a...) }
func (f *failing) Errorf(format string, a ...any) { f.Error(fmt.Sprintf(format, a...)) }
func (f *failing) Fatal(a ...any)                 { f.Error(a...); f.end() }
func (f *failing) Fatalf(format string, a ...any) { f.Fatal(fmt.Sprintf(format, a...)) }
func (f *failing) Logf(string, ...any)            {}
func (f *failing) Failed() bool                   { return f.failed }
func (f *failing) Cleanup(g func())               { f.cleanups = append(f.cleanups, g) }
func (f *failing) TempDir() string {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (f *failing) end() {
	for len(f.cleanups) > 0 {
		last := f.cleanups[len(f.cleanups)-1]
		f.cleanups = f.cleanups[:len(f.cleanups)-1]
		last()
	}
	if f.failed {
		os.Exit(1)
	}
	os.Exit(0)
}
