package bridge

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Section 3: the management tools.
var rowsOfManagement = []fact{
	{number: "3.1", what: "a server is found by its name in any case", check: func(t *testing.T, w *rowsWorld) {
		w.Call("mcp_get_service_details", args("server_name", " BAD ")).WantText(`"name":"bad"`)
		w.Call("mcp_list_resources", args("server_name", "MANY")).WantText("bad://r/A0")
	}},
	{number: "3.2", what: "the list of services is the bridge's own knowledge; resources show only where there are any, fingerprints never", check: func(t *testing.T, w *rowsWorld) {
		text := w.Call("mcp_list_services", "{}").Text
		var rows []map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &rows); err != nil || strings.Contains(strings.ToLower(text), "fingerprint") {
			t.Fatalf("%v %s", err, text)
		}
		for _, r := range rows {
			name := strings.Trim(string(r["serverName"]), `"`)
			for _, key := range []string{"serverId", "summary", "toolCount", "toolNames", "promptCount", "promptNames"} {
				if len(r[key]) == 0 {
					t.Errorf("%s has no %s", name, key)
				}
			}
			if _, has := r["resourceCount"]; has != (name != "lean" && name != "empty") {
				t.Errorf("%s: resourceCount %s", name, r["resourceCount"])
			}
			if len(strings.Trim(string(r["serverId"]), `"`)) != 12 {
				t.Errorf("id %s", r["serverId"])
			}
		}
	}},
	{number: "3.2b", what: "skills written under an earlier name", elsewhere: noSkills},
	{number: "3.3", what: "details begin with one JSON object, then notes; one tool by its name in any case; an unknown one is answered with the names; what is shown becomes callable", check: func(t *testing.T, w *rowsWorld) {
		text := w.Call("mcp_get_service_details", args("server_name", "bad")).Text
		dec := json.NewDecoder(strings.NewReader(text))
		var d struct {
			Server  map[string]json.RawMessage
			Tools   []struct{ Name, TypedName string }
			Prompts []struct{ Name, TypedName string }
		}
		if err := dec.Decode(&d); err != nil || len(d.Tools) < 10 || len(d.Prompts) != 1 || d.Prompts[0].TypedName != "bad__plan-prompt" {
			t.Fatalf("%v %s", err, clip(text, 500))
		}
		for _, key := range []string{"name", "id", "implementationName", "title", "version", "instructions"} {
			if _, ok := d.Server[key]; !ok {
				t.Errorf("no %s", key)
			}
		}
		if first, _, _ := strings.Cut(text, "\n"); !json.Valid([]byte(first)) || !strings.Contains(text, "mcp_list_resources names them") || !strings.Contains(text, "Callable by typed name: ") {
			t.Error(clip(text[dec.InputOffset():], 500))
		}
		one := w.Call("mcp_get_service_details", args("server_name", "bad", "tool_name", "STRICT")).Text
		if strings.Count(one, `"typedName"`) != 1 || !slices.Contains(w.Host.Listed(), "bad__strict") {
			t.Error(one)
		}
		w.Call("mcp_get_service_details", args("server_name", "bad", "tool_name", "nosuch")).WantError("tool_not_found", "echo, sleep, log")
	}},
	{number: "3.4", what: "a call by the server's own names takes arguments, params and args, forgotten wrapping, joined names", held: []string{"TestInvokeTool"}},
	{number: "3.5", what: "a server is registered by name, type and url, and by nothing else", held: []string{"TestRegister", "TestGuardsAreTheOperators"}},
	{number: "3.6", what: "values of a prompt are texts, other JSON as it is written; unreadable arguments are none; a missing one is told with all there are", check: func(t *testing.T, w *rowsWorld) {
		call := func(a string) string { return `{"server_name":"bad","prompt_name":"plan","arguments":` + a + `}` }
		w.Call("mcp_get_prompt", call(`{"topic":{"a":[1,2]}}`)).WantText(`{\\\"a\\\":[1,2]}`)
		w.Call("mcp_get_prompt", call(`{"topic":true}`)).WantText(`\"topic\":\"true\"`)
		w.Call("mcp_get_prompt", call(`"nonsense"`)).WantError("invalid_arguments", `"topic"`)
		w.Call("mcp_get_prompt", call(`{"style":"s"}`)).WantError("invalid_arguments", `"style"`)
		w.Call("mcp_get_prompt", args("server_name", "bad", "prompt_name", "nosuch")).WantError("not_found", "plan")
	}},
	{number: "3.7", what: "resources and templates with their members; none is a plain sentence; reading gives server, uri and contents", check: func(t *testing.T, w *rowsWorld) {
		r := w.Call("mcp_list_resources", args("server_name", "bad"))
		r.WantText(`"resources":[{"uri":"bad://note","name":"note","mimeType":"text/plain"}]`)
		r.WantText(`"templates":[{"uriTemplate":"bad://item/{id}","name":"item"}]`)
		for _, name := range []string{"lean", "empty"} {
			if text := w.Call("mcp_list_resources", args("server_name", name)).Text; strings.Contains(text, "{") || !strings.Contains(text, "no resources") {
				t.Error(text)
			}
		}
		w.Call("mcp_read_resource", args("server_name", "bad", "uri", "bad://note")).WantText(`{"server":"bad","uri":"bad://note","contents":[{"uri":"bad://note","mimeType":"text/plain","text":"read bad://note"}]}`)
	}},
	{number: "3.8", what: "answering and cancelling tools", elsewhere: ofAsking},
	{number: "3.9", what: "instructions are cut at a line, with how much is shown and which tools may tell the rest", held: []string{"TestInstructionsAreCutAtALine"}, check: func(t *testing.T, w *rowsWorld) {
		s, err := w.bridge.find("bad")
		if err != nil {
			t.Fatal(err)
		}
		got := capInstructions(strings.Repeat("x", 3000), 2000, s.last())
		if !strings.Contains(got, "2000 of 3000 characters") || !strings.Contains(got, "bad__usage_guide") {
			t.Error(got[len(got)-200:])
		}
		if got := capInstructions("a\n"+strings.Repeat("x", 3000), 2000, s.last()); !strings.Contains(got, "2000 of 3002") {
			t.Error("cut where less than half is left")
		}
	}},
	{number: "3.10", what: "skills beside details and errors", elsewhere: noSkills},
	{number: "3.11", what: "how fresh a skill is", elsewhere: noSkills},
	{number: "3.12", what: "other plugins find a tool's typed name by server and words", check: func(t *testing.T, w *rowsWorld) {
		r := w.Call("mcp_server_index", args("query", "echo"))
		if !strings.Contains(string(r.Structured), `"typed_names_for_query":["bad__echo"`) || !strings.Contains(string(r.Structured), `"display_name"`) {
			t.Errorf("%s", clip(string(r.Structured), 500))
		}
	}},
	{number: "3.13", what: "a refresh when the agent starts", elsewhere: noBus},
	{number: "3.14", what: "an error about wrong arguments says what is wanted and what was sent", check: func(t *testing.T, w *rowsWorld) {
		for tool, want := range map[string]string{
			"mcp_find_tools": "query", "mcp_get_service_details": "server_name", "mcp_invoke_tool": "server_name", "mcp_list_resources": "server_name", "mcp_read_resource": "server_name",
			"mcp_get_prompt": "server_name", "mcp_register_server": "name", "mcp_unregister_server": "server_name", "search_known_services": "query",
		} {
			r := w.Call(tool, `{"odd":"value"}`)
			r.WantError("invalid_arguments", `"`+want+`" is required`)
			if !strings.Contains(r.Message, `Sent: {"odd":"value"}`) {
				t.Errorf("%s: %s", tool, r.Message)
			}
		}
		w.Call("mcp_invoke_tool", args("server_name", "bad")).WantError("invalid_arguments", `"tool_name" is required`)
		w.Call("mcp_read_resource", args("server_name", "bad")).WantError("invalid_arguments", `"uri" is required`)
		w.Call("mcp_register_server", args("name", "x")).WantError("invalid_arguments", `"url" is required`)
	}},
}
