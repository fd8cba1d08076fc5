package bridge

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func guardedBy(t *testing.T, guards ...conf) conf {
	c := bad(t, "bad")
	c["arg_guard"] = guards
	return c
}

// Guards hold for typed names and for calls by mcp_invoke_tool alike, since these
// are calls of the typed tool; what they refuse never reaches the server.
func TestGuards(t *testing.T) {
	s := start(t, nil, guardedBy(t,
		conf{"handler": "path-prefix", "tools": []string{"ECHO"}, "options": conf{"args": []string{"dir"}, "allowed_prefixes": []string{"/shared"}, "require_args": true}},
		conf{"handler": "path-prefix", "mode": "warn", "options": conf{"args": []string{"dir"}, "allowed_prefixes": []string{"/elsewhere"}}}))
	awaitTool(t, s, "bad__echo")
	s.Call("bad__echo", `{"dir":"/shared/x","id":9223372036854775807}`).WantText(`echo {"dir":"/shared/x","id":9223372036854775807}`)
	s.Host.Tool("bad__echo", func(args json.RawMessage) (sdk.Result, error) {
		r := s.Call("bad__echo", string(args))
		if r.IsError {
			return sdk.Result{}, sdk.Errorf(sdk.Code(r.Code), "%s", r.Message)
		}
		return sdk.TextResult(r.Text), nil
	})
	for _, call := range []func(string) *sdktest.Reply{
		func(args string) *sdktest.Reply { return s.Call("bad__echo", args) },
		func(args string) *sdktest.Reply {
			return s.Call("mcp_invoke_tool", `{"server_name":"bad","tool_name":"ECHO","arguments":`+args+`}`)
		},
	} {
		for args, want := range map[string]string{
			`{"dir":"/tmp"}`: `"dir" is "/tmp"`, `{"dir":"/shared/../tmp"}`: "/shared", `{"DIR":"/tmp","dir":"/shared"}`: "lies elsewhere", `{"x":1}`: `"dir" is missing`,
		} {
			r := call(args)
			r.WantError("invalid_arguments", want)
			if r.Retryable || !strings.Contains(r.Message, "path-prefix") || !strings.Contains(r.Message, "/shared") {
				t.Errorf("%s: %+v", args, r)
			}
		}
	}
	s.Call("bad__rich", `{"a":"x"}`).WantText("see")
	if log := s.Call("bad__log", "{}").Text; strings.Count(log, "bulkhead-") != 3 {
		t.Errorf("the server was called: %s", log)
	}
}

// A tool of another plugin may allow, refuse and change; without it, or without a
// clear answer, nothing passes.
func TestAGuardThatIsATool(t *testing.T) {
	guard := conf{"handler": "tool:judge", "tools": []string{"echo"}, "options": conf{"limit": 5}}
	s := start(t, nil, guardedBy(t, guard))
	badtest.Await(t, "the refusal", func() bool {
		st := services(t, s)["bad"]
		return st.State == stateRefused && strings.Contains(st.Error, `"tool:judge"`)
	})
	s.Call("mcp_list_resources", `{"server_name":"bad"}`).WantError("denied", "grants")

	s = sdktest.Start(t, Plugin(), sdktest.Config(conf{"server": []conf{guardedBy(t, guard)}}.String()), sdktest.Granted("shared", "tool:judge"))
	awaitTool(t, s, "bad__echo")
	s.Call("bad__echo", `{"n":1}`).WantError("invalid_arguments", "could not decide") // nobody has such a tool
	answer := ""
	s.Host.Tool("judge", func(args json.RawMessage) (sdk.Result, error) {
		if want := `{"server":"bad","tool":"echo","agent":"tester","arguments":{"n":9223372036854775807},"options":{"limit":5}}`; string(args) != want {
			t.Errorf("asked %s", args)
		}
		if answer == "fail" {
			return sdk.Result{}, sdk.Errorf(sdk.Timeout, "too late")
		}
		return sdk.RawJSON(json.RawMessage(answer)), nil
	})
	for _, c := range []struct{ answer, want, text string }{
		{`{"allow":true}`, "", `echo {"n":9223372036854775807}`}, {`{"allow":true,"arguments":{"n":2.50}}`, "", `echo {"n":2.50}`},
		{`{"allow":false,"reason":"over the limit"}`, "over the limit", ""}, {`{}`, "could not decide", ""}, {`[]`, "could not decide", ""}, {"fail", "too late", ""},
	} {
		answer = c.answer
		r := s.Call("bad__echo", `{"n":9223372036854775807}`)
		if c.want == "" {
			r.WantText(c.text)
		} else {
			r.WantError("invalid_arguments", c.want)
		}
	}
	s.Call("bad__log", "{}").WantText(`"ran":0`)
}

// A guard can't be set, shed or got round by registering a server.
func TestGuardsAreTheOperators(t *testing.T) {
	url := badtest.HTTP(t)
	s := start(t, conf{"allow_hosts": []string{"127.0.0.0/8"}}, conf{"name": "g", "url": url, "arg_guard": []conf{{"handler": "path-prefix", "options": conf{"args": []string{"dir"}, "allowed_prefixes": []string{"/shared"}}}}})
	awaitTool(t, s, "g__echo")
	for args, code := range map[string]string{
		`{"name":"new","url":"` + url + `","arg_guard":[]}`: "invalid_arguments", `{"name":"new","url":"` + url + `","headers":{"a":"b"}}`: "invalid_arguments",
		`{"name":"g","url":"` + url + `"}`: "conflict", `{"name":"twin","url":"` + url + `"}`: "conflict",
	} {
		s.Call("mcp_register_server", args).WantError(code, "")
	}
	s.Call("mcp_unregister_server", `{"server_name":"g"}`).WantError("denied", "operator")
	s.Call("g__echo", `{"dir":"/tmp"}`).WantError("invalid_arguments", "lies elsewhere")
}

// Fields that the bridge fills in are guarded like those that were sent.
func TestGuardsSeeWhatIsFilledIn(t *testing.T) {
	s := start(t, nil, guardedBy(t, conf{"handler": "path-prefix", "options": conf{"args": []string{"tz"}, "allowed_prefixes": []string{"/shared"}}}))
	awaitTool(t, s, "bad__meet")
	s.Call("bad__meet", `{}`).WantError("invalid_arguments", `"tz"`)
}
