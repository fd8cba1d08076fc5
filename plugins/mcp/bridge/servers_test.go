package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// npm is the command of a server from npm, which nobody here wrote.
func npm(t *testing.T, pkg string, args ...string) []string {
	t.Helper()
	root, err := filepath.Abs("../../../tools/npm/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	node, script := filepath.Join(root, "node/bin/node"), filepath.Join(root, "@modelcontextprotocol", pkg, "dist/index.js")
	for _, f := range []string{node, script} {
		if _, err := os.Stat(f); err != nil {
			t.Skipf("%s is not installed: run `make tools` (%v)", pkg, err)
		}
	}
	return append([]string{node, script}, args...)
}

func TestNPMServers(t *testing.T) {
	shared := t.TempDir()
	if err := os.WriteFile(filepath.Join(shared, "hello.txt"), []byte("hello there"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, nil,
		conf{"name": "everything", "command": npm(t, "server-everything", "stdio")},
		conf{"name": "files", "command": npm(t, "server-filesystem", shared)},
		conf{"name": "thinking", "command": npm(t, "server-sequential-thinking")},
		conf{"name": "github", "command": npm(t, "server-github")},
		conf{"name": "memory", "command": npm(t, "server-memory"), "env": conf{"MEMORY_FILE_PATH": "/tmp/memory.json"}})
	awaitTool(t, s, "everything__echo")
	awaitTool(t, s, "files__read_text_file")
	awaitTool(t, s, "memory__create_entities")
	awaitTool(t, s, "thinking__sequentialthinking")
	awaitTool(t, s, "github__create_issue")
	s.Call("mcp_get_service_details", `{"server_name":"github","tool_name":"get_issue"}`).WantText(`"protocol":"2024-11-05"`)
	s.Call("thinking__sequentialthinking", `{"thought":"one","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`).WantText("thoughtNumber")
	s.Call("everything__echo", `{"message":"moin"}`).WantText("Echo: moin")
	s.Call("everything__get-sum", `{"a":2,"b":40}`).WantText("42")
	if r := s.Call("everything__get-tiny-image", `{}`); len(r.Files) != 1 || r.Files[0].MIME != "image/png" {
		t.Errorf("%+v", r)
	}
	if r := s.Call("everything__get-structured-content", `{"location":"Chicago"}`); !bytes.Contains(r.Structured, []byte("temperature")) {
		t.Errorf("%+v", r)
	}
	r := s.Call("everything__trigger-long-running-operation", `{"duration":1,"steps":3}`)
	if r.IsError || len(r.Events) == 0 {
		t.Errorf("no progress: %+v", r)
	}
	s.Call("files__read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(shared, "hello.txt"))).WantText("hello there")
	s.Call("files__write_file", fmt.Sprintf(`{"path":%q,"content":"new"}`, filepath.Join(shared, "new.txt")))
	if raw, err := os.ReadFile(filepath.Join(shared, "new.txt")); err != nil || string(raw) != "new" {
		t.Errorf("%v %s", err, raw)
	}
	if r := s.Call("files__read_text_file", `{"path":"/etc/passwd"}`); !r.IsError {
		t.Errorf("%+v", r)
	}
	s.Call("memory__create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["wrote notes"]}]}`).WantText("Ada")
	s.Call("memory__search_nodes", `{"query":"notes"}`).WantText("Ada")
	prompts := s.Call("mcp_get_service_details", `{"server_name":"everything"}`)
	prompts.WantText(`"prompts":[{"name":`)
	everyWay(t, s, "everything", "echo", `{"message":"moin"}`, "Echo: moin", "simple-prompt")
	for name, st := range services(t, s) {
		if st.State != stateReady || st.ToolCount == 0 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// freePort gives a port nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// serve runs a server until the test ends and waits until something listens.
func serve(t *testing.T, port string, cmd *exec.Cmd) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	badtest.Await(t, "something on port "+port, func() bool {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}

func TestNPMServerOverHTTP(t *testing.T) {
	for mode, path := range map[string]string{"streamableHttp": "/mcp", "sse": "/sse"} {
		t.Run(mode, func(t *testing.T) {
			argv := npm(t, "server-everything", mode)
			port := freePort(t)
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = append(os.Environ(), "PORT="+port)
			serve(t, port, cmd)
			s := start(t, nil, conf{"name": "everything", "url": "http://127.0.0.1:" + port + path})
			awaitTool(t, s, "everything__echo")
			s.Call("everything__echo", `{"message":"moin"}`).WantText("Echo: moin")
			r := s.Call("everything__trigger-long-running-operation", `{"duration":1,"steps":3}`)
			if r.IsError || len(r.Events) == 0 {
				t.Errorf("no progress: %+v", r)
			}
			everyWay(t, s, "everything", "echo", `{"message":"moin"}`, "Echo: moin", "simple-prompt")
		})
	}
}

// everyWay uses a tool, a prompt and a resource of a server, each through what agents
// that have only tools call and through what is offered by its own name.
func everyWay(t *testing.T, s *sdktest.Session, server, tool, arguments, want, prompt string) {
	t.Helper()
	// The host's part of mcp_invoke_tool: the nested call reaches the bridge again.
	s.Host.Tool(server+"__"+tool, func(a json.RawMessage) (sdk.Result, error) {
		return sdk.TextResult("by way of the host: " + s.Call(server+"__"+tool, string(a)).Text), nil
	})
	s.Call("mcp_invoke_tool", fmt.Sprintf(`{"server_name":%q,"tool_name":%q,"arguments":%s}`, server, tool, arguments)).WantText("by way of the host: " + want)
	typed := server + "__" + prompt + "-prompt"
	s.Call(typed, "{}").WantText(`"role":`)
	s.Call("mcp_get_prompt", args("server_name", server, "prompt_name", prompt)).WantText(`"role":`)
	if r := s.Call(server+"__"+prompt, "{}", sdktest.Prompt()); !bytes.Contains(r.Raw, []byte(`"messages"`)) {
		t.Errorf("%+v", r)
	}
	var resources struct {
		Resources []struct{ URI string }
	}
	if err := json.Unmarshal([]byte(s.Call("mcp_list_resources", args("server_name", server)).Text), &resources); err != nil || len(resources.Resources) == 0 {
		t.Fatalf("resources: %v", err)
	}
	uri := resources.Resources[0].URI
	s.Call("mcp_read_resource", args("server_name", server, "uri", uri)).WantText(`"contents":[{`)
	if r := s.Call(uri, "{}", sdktest.Resource()); !bytes.Contains(r.Raw, []byte(`"contents"`)) {
		t.Errorf("%+v", r)
	}
}

// The official Go SDK's server in both of its modes: with sessions, up to
// 2025-11-25, and without, 2026-07-28.
func TestGoSDKServer(t *testing.T) {
	bin := badtest.Build(t, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	for mode, want := range map[string]string{"true": "2026-07-28", "false": "2025-11-25"} {
		t.Run("stateless="+mode, func(t *testing.T) {
			port := freePort(t)
			serve(t, port, exec.Command(bin, "-http=127.0.0.1:"+port, "-stateless="+mode))
			s := start(t, nil, conf{"name": "go", "url": "http://127.0.0.1:" + port})
			awaitTool(t, s, "go__test_simple_text")
			s.Call("go__test_simple_text", `{}`).WantText("simple text")
			s.Call("mcp_get_service_details", `{"server_name":"go"}`).WantText(`"protocol":"` + want + `"`)
			if r := s.Call("go__test_error_handling", `{}`); !r.IsError {
				t.Errorf("%+v", r)
			}
			if r := s.Call("go__test_image_content", `{}`); len(r.Files) != 1 {
				t.Errorf("%+v", r)
			}
			if r := s.Call("go__test_tool_with_progress", `{}`); r.IsError || len(r.Events) == 0 {
				t.Errorf("no progress: %+v", r)
			}
			s.Call("mcp_get_prompt", `{"server_name":"go","prompt_name":"test_simple_prompt"}`).WantText(`"role":"user"`)
			s.Call("mcp_read_resource", `{"server_name":"go","uri":"test://static-text"}`).WantText(`"text":`)
			everyWay(t, s, "go", "test_simple_text", "{}", "This is a simple text", "test_simple_prompt")
			if r := s.Call("test://static-text", "{}", sdktest.Resource()); !json.Valid(r.Raw) || len(r.Raw) == 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}
