package splice

import (
	"encoding/json"
	"testing"
)

func TestOnlyWhatThePathLeadsToIsReplaced(t *testing.T) {
	for _, c := range []struct{ path, in, want string }{
		{"a", `{ "a" : 1 , "b":2.50 }`, `{ "a" : "X" , "b":2.50 }`},
		{"a", `{"A":{"x":[1, 2]},"a":3}`, `{"A":"X","a":"X"}`},
		{"a.b", `{"a":{"c":9223372036854775807, "b" : true}}`, `{"a":{"c":9223372036854775807, "b" : "X"}}`},
		{"a[*]", `{"a":[1,{"b":2} ,null],"z":1e3}`, `{"a":["X","X" ,"X"],"z":1e3}`},
		{"a[*].b", `{"a":[{"b":1},{"c":1},5]}`, `{"a":[{"b":"X"},{"c":1},5]}`},
		{"a[*][*]", `{"a":[[1],[2,3]]}`, `{"a":[["X"],["X","X"]]}`},
		{"a[*]", `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		{"a.b", `{"a":[{"b":1}]}`, `{"a":[{"b":1}]}`},
		{"save_dir", `{"save\u005fdir":"/tmp"}`, `{"save\u005fdir":"X"}`},
		{"q", `{"a":1}`, `{"a":1}`},
	} {
		p, err := ParsePath(c.path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Each(json.RawMessage(c.in), func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`"X"`), nil })
		if err != nil || string(got) != c.want {
			t.Errorf("%s in %s: %v %s", c.path, c.in, err, got)
		}
	}
	for _, bad := range []string{"", "a[", "a[0]", "[*]", "a..b", "a[*]b", "*", "a.[*]"} {
		if _, err := ParsePath(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestWith(t *testing.T) {
	l, ok := Object(json.RawMessage(`{"content":"x","sha":18446744073709551615,"CONTENT":1,"n":{"a": 1}}`))
	if got := string(l.With([]string{"content"}, "path", `"p"`)); !ok || got != `{"sha":18446744073709551615,"n":{"a": 1},"path":"p"}` {
		t.Error(got)
	}
	if v, _ := l.Get("Sha"); string(v) != "18446744073709551615" {
		t.Errorf("%s", v)
	}
}
