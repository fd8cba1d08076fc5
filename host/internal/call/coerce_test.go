package call

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

func tool(schema string, change func(*pluginv1.Tool)) *registry.Tool {
	t := &pluginv1.Tool{Name: "t", InputSchema: []byte(schema)}
	if change != nil {
		change(t)
	}
	return &registry.Tool{Tool: t, Owner: "p"}
}

const schema = `{"type":"object","properties":{
	"n":{"type":"integer"},"x":{"type":"number"},"b":{"type":"boolean"},"o":{"type":"object"},
	"l":{"type":"array","items":{"type":"string"}},"nums":{"type":"array","items":{"type":"integer"}},
	"s":{"type":"string"},"either":{"type":["string","integer"]},"nullable":{"type":["integer","null"]},"a.b*c":{"type":"integer"},"any":{}}}`

func TestCoerce(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing to do keeps every byte", `{ "n" : 9007199254740993, "z":[1 ,2],  "s":"5" }`, `{ "n" : 9007199254740993, "z":[1 ,2],  "s":"5" }`},
		{"a number", `{"n":"5"}`, `{"n":5}`},
		{"digits of a large number stay", `{"n":"9223372036854775807"}`, `{"n":9223372036854775807}`},
		{"a fraction for an integer is the schema's to refuse", `{"n":"5.5"}`, `{"n":5.5}`},
		{"no number", `{"n":"five"}`, `{"n":"five"}`},
		{"hex is no number", `{"n":"0x10"}`, `{"n":"0x10"}`},
		{"a boolean", `{"b":"true"}`, `{"b":true}`},
		{"not yes", `{"b":"yes"}`, `{"b":"yes"}`},
		{"an object", `{"o":"{\"k\":9007199254740993}"}`, `{"o":{"k":9007199254740993}}`},
		{"an array", `{"l":"[\"a\",\"b\"]"}`, `{"l":["a","b"]}`},
		{"a comma list", `{"l":"a, b,c"}`, `{"l":["a","b","c"]}`},
		{"a comma list of numbers", `{"nums":"1, 2"}`, `{"nums":[1,2]}`},
		{"an empty list", `{"l":""}`, `{"l":[]}`},
		{"broken JSON is no list", `{"l":"[1,"}`, `{"l":"[1,"}`},
		{"a string is never touched", `{"s":"5","either":"7"}`, `{"s":"5","either":"7"}`},
		{"an object for a string is its text", `{"s":{"a":"<b>", "n":9007199254740993}}`, `{"s":"{\"a\":\"<b>\", \"n\":9007199254740993}"}`},
		{"an array for a string is its text", `{"s":[1, 2]}`, `{"s":"[1, 2]"}`},
		{"a number for a string is the schema's to refuse", `{"s":5}`, `{"s":5}`},
		{"an object where a string is only one of the types", `{"either":{}}`, `{"either":{}}`},
		{"nullable", `{"nullable":"3"}`, `{"nullable":3}`},
		{"a key with special characters", `{"a.b*c":"4"}`, `{"a.b*c":4}`},
		{"an undeclared type", `{"any":"5"}`, `{"any":"5"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := coerce(tool(schema, nil), []byte(c.in))
			if err != nil || string(got) != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
}

func TestCoerceAliasesAndDefaults(t *testing.T) {
	x := tool(schema, func(t *pluginv1.Tool) {
		t.ArgumentAliases = []*pluginv1.ArgumentAlias{{From: "old", To: "n"}}
		t.ArgumentDefaults = []byte(`{"s":"images","b":true}`)
	})
	for in, want := range map[string]string{
		`{"old":"5"}`:              `{"n":5,"s":"images","b":true}`,
		`{"old":1,"n":2}`:          `{"n":2,"s":"images","b":true}`,
		`{"s":"mine","b":false}`:   `{"s":"mine","b":false}`,
		`{"old":9007199254740993}`: `{"n":9007199254740993,"s":"images","b":true}`,
	} {
		got, err := coerce(x, []byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s (%v), want %s", in, got, err, want)
		}
	}
}

func FuzzCoerce(f *testing.F) {
	for _, s := range []string{`{"n":"5"}`, `{"l":"a,b"}`, `{"o":"{}"}`, `{"a.b*c":"1"}`, `{"n":"5","n":"6"}`} {
		f.Add(s)
	}
	x := tool(schema, nil)
	f.Fuzz(func(t *testing.T, in string) {
		args, err := object([]byte(in))
		if err != nil {
			return
		}
		out, err := coerce(x, args)
		if err != nil {
			return
		}
		if _, err := object(out); err != nil {
			t.Errorf("%q became %q: %v", in, out, err)
		}
	})
}

func TestObject(t *testing.T) {
	for in, ref := range map[string]fault.Ref{
		``: "", `null`: "", ` { } `: "", `{"a":1}`: "",
		`[1]`: fault.BadJSON, `"x"`: fault.BadJSON, `{"a":`: fault.BadJSON, `{}{}`: fault.BadJSON, `7`: fault.BadJSON,
	} {
		_, err := object([]byte(in))
		if got := refOf(err); got != ref {
			t.Errorf("%q: %v, want %q", in, err, ref)
		}
	}
	big := []byte(`{"a":"` + strings.Repeat("x", 10<<20) + `"}`)
	if _, err := object(big); refOf(err) != fault.ArgumentsTooBig {
		t.Errorf("10 MiB: %v", err)
	}
}

func refOf(err error) fault.Ref {
	if err == nil {
		return ""
	}
	return fault.From(err).Ref
}

func TestValidate(t *testing.T) {
	x := tool(`{"type":"object","properties":{"url":{"type":"string","minLength":3},"deep":{"type":"object","properties":{"k":{"type":"array","items":{"type":"integer"}}}}},"required":["url"],"additionalProperties":false}`, nil)
	for _, c := range []struct {
		in    string
		words []string
	}{
		{`{"url":"http://x"}`, nil},
		{`{}`, []string{"url", "missing"}},
		{`{"url":5}`, []string{"/url", "sent 5", "want string", `"minLength":3`}},
		{`{"url":"x"}`, []string{"/url", `sent "x"`}},
		{`{"url":"http","more":1}`, []string{"more"}},
		{`{"url":"http","deep":{"k":[1,"two"]}}`, []string{"/deep/k/1", `sent "two"`, "want integer"}},
	} {
		err := validate(x, []byte(c.in))
		if (err == nil) != (c.words == nil) {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if err != nil && refOf(err) != fault.BadArguments {
			t.Errorf("%s: code %s", c.in, refOf(err))
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", c.in, err, w)
			}
		}
	}
	// Large integers are compared as they are, not as floats.
	y := tool(`{"type":"object","properties":{"n":{"const":9007199254740993}}}`, nil)
	if err := validate(y, []byte(`{"n":9007199254740993}`)); err != nil {
		t.Error(err)
	}
	if err := validate(y, []byte(`{"n":9007199254740992}`)); err == nil {
		t.Error("a neighbouring integer passed for another")
	}
	// A schema that can't be compiled, or reaches out, leaves the judging to the plugin.
	for _, s := range []string{`{"type":"object","properties":{"a":{"type":"nonsense"}}}`, `{"type":"object","$ref":"http://127.0.0.1:1/x.json"}`} {
		if err := validate(tool(s, nil), []byte(`{}`)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}
