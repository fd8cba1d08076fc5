package guard

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestPathPrefix(t *testing.T) {
	for _, c := range []struct{ options, args, want string }{
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"/shared"}`, ""},
		{`{"args":["p"],"allowed_prefixes":["/shared/"]}`, `{"p":"/shared/a//./b/"}`, ""},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"/shared-evil/a"}`, `"p" is "/shared-evil/a", which lies elsewhere: it must be an absolute path below /shared`},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"/shared/../../tmp"}`, "rises above the root"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"/shared/../tmp"}`, "lies elsewhere"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"\\shared\\..\\tmp"}`, "lies elsewhere"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"\\shared\\x"}`, ""},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"/Shared/x"}`, "lies elsewhere"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"shared/x"}`, "is not absolute"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"C:\\shared\\x"}`, "is not absolute"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"file:///shared/x"}`, "is not absolute"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"/shared/\u0000"}`, "NUL"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":5}`, `"p" is 5; an absolute path`},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":null}`, `"p" is null`},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"  "}`, `"p" is "  "`},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"P":"/tmp"}`, "lies elsewhere"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"/tmp","p":"/shared"}`, "lies elsewhere"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":"/shared","P":"/tmp"}`, "lies elsewhere"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"\u0070":"/tmp"}`, "lies elsewhere"},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{}`, ""},
		{`{"args":["p"],"allowed_prefixes":["/shared"],"require_args":true}`, `{}`, `"p" is missing`},
		{`{"Args":["p"],"AllowedPrefixes":["/shared"],"RequireArgs":true}`, `{}`, `"p" is missing`},
		{`{"args":["p"],"allowedPrefixes":["/"]}`, `{"p":"/anything/at/all"}`, ""},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":["/tmp"]}`, `"p" is ["/tmp"]; an absolute path`},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `{"p":{"path":"/tmp"}}`, `"p" is {"path":"/tmp"}; an absolute path`},
		{`{"args":["p"],"allowed_prefixes":["/shared"]}`, `["/tmp"]`, `"p" can't be looked at: an object is wanted on the way to it, not ["/tmp"]`},
		{`{"args":["t.dir"],"allowed_prefixes":["/shared"]}`, `{"t":"/tmp"}`, `"t.dir" can't be looked at: an object is wanted`},
		{`{"args":["t.dir"],"allowed_prefixes":["/shared"]}`, `{"t":"{\"dir\":\"/tmp\"}"}`, `"t.dir" can't be looked at`},
		{`{"args":["t.dir"],"allowed_prefixes":["/shared"]}`, `{"t":[{"dir":"/tmp"}]}`, `"t.dir" can't be looked at`},
		{`{"args":["t.dir"],"allowed_prefixes":["/shared"]}`, `{"t":null}`, `"t.dir" can't be looked at`},
		{`{"args":["t.dir"],"allowed_prefixes":["/shared"]}`, `{"T":{"dir":"/shared"},"t":"/tmp"}`, `"t.dir" can't be looked at`},
		{`{"args":["files[*].to"],"allowed_prefixes":["/a"]}`, `{"files":{"to":"/c"}}`, `a list is wanted`},
		{`{"args":["files[*].to"],"allowed_prefixes":["/a"]}`, `{"files":[["/c"]]}`, `an object is wanted`},
		{`{"args":["files[*].to"],"allowed_prefixes":["/a"]}`, `{"files":["/c"]}`, `an object is wanted`},
		{`{"args":["files[*]"],"allowed_prefixes":["/a"]}`, `{"files":"/c"}`, `a list is wanted`},
		{`{"args":["files[*].to"],"allowed_prefixes":["/a"]}`, `{"files":[{},{"other":1}]}`, ``},
		{`{"args":["files[*].to"],"allowed_prefixes":["/a","/b"]}`, `{"files":[{"to":"/b/1"},{"to":"/c"}]}`, `"/c", which lies elsewhere: it must be an absolute path below /a, /b`},
	} {
		g, err := New(PathPrefix, nil, false, json.RawMessage(c.options))
		if err != nil {
			t.Errorf("%s: %v", c.options, err)
			continue
		}
		now, err := g.Check(t.Context(), Call{Arguments: json.RawMessage(c.args)}, nil)
		switch {
		case c.want == "" && (err != nil || string(now) != c.args):
			t.Errorf("%s %s: %v %s", c.options, c.args, err, now)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s: %v, want %q", c.options, c.args, err, c.want)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	for _, c := range []struct{ handler, options, want string }{
		{"", `{}`, "path-prefix and tool:NAME"}, {"regexp", `{}`, "path-prefix and tool:NAME"}, {"tool:", `{}`, "tool:NAME"}, {"tool:a b", `{}`, "tool:NAME"},
		{PathPrefix, ``, "args is empty"}, {PathPrefix, `{"args":[],"allowed_prefixes":["/a"]}`, "args is empty"},
		{PathPrefix, `{"args":["a"]}`, "allowed_prefixes is empty"}, {PathPrefix, `{"args":["a"],"allowed_prefixes":["shared"]}`, `"shared" is not absolute`},
		{PathPrefix, `{"args":["a"],"allowed_prefixes":["/../x"]}`, "rises above"}, {PathPrefix, `{"args":"a"}`, "wrong type"},
		{PathPrefix, `{"args":["a"],"allowed_prefix":["/a"]}`, `"allowed_prefix" is not known`}, {PathPrefix, `[]`, "object"}, {PathPrefix, `{"args":["a[0]"],"allowed_prefixes":["/a"]}`, "no path"},
	} {
		if _, err := New(c.handler, nil, false, json.RawMessage(c.options)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %s: %v, want %q", c.handler, c.options, err, c.want)
		}
	}
}

// A tool that decides may allow, refuse or change; in every other case it refuses.
func TestATool(t *testing.T) {
	for answer, want := range map[string]string{
		`{"allow":true}`: "", `{"allow":true,"arguments":{"n":9223372036854775807}}`: "", `{"allow":false,"reason":"not on Sundays"}`: "refuses: not on Sundays",
		`{"allow":false}`: "no reason", `{}`: "could not decide", `{"allow":"yes"}`: "could not decide", `true`: "could not decide", ``: "could not decide",
		`{"allow":true,"arguments":[1]}`: "could not decide", "error": "could not decide: no grant",
	} {
		g, err := New("tool:judge", []string{"Send"}, false, json.RawMessage(`{"days":["sat"]}`))
		if err != nil {
			t.Fatal(err)
		}
		if !g.For("send") || g.For("read") || g.Needs() != "judge" {
			t.Errorf("%+v", g)
		}
		asked := ""
		now, err := g.Check(t.Context(), Call{"mail", "send", "me", json.RawMessage(`{"n":1}`)}, func(_ context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
			asked = name + " " + string(args)
			if answer == "error" {
				return nil, errors.New("no grant")
			}
			return json.RawMessage(answer), nil
		})
		if asked != `judge {"server":"mail","tool":"send","agent":"me","arguments":{"n":1},"options":{"days":["sat"]}}` {
			t.Error(asked)
		}
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", answer, err)
		case want == "" && err != nil:
			t.Errorf("%s: %v", answer, err)
		case strings.Contains(answer, `"arguments":{`) && string(now) != `{"n":9223372036854775807}`:
			t.Errorf("%s: %s", answer, now)
		}
	}
}
