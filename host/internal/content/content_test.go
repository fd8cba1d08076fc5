package content

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

func TestCheck(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for in, want := range map[string]error{
		`{}`: nil, `{"a":[1,"]]]]","\\\"[["]}`: nil, deep(MaxDepth): nil, deep(MaxDepth + 1): errTooDeep,
		strings.Repeat("[", 8<<20): errTooDeep, `{"a":`: errNotJSON, ``: errNotJSON, `"\`: errNotJSON, `]`: errNotJSON, `{}{}`: errNotJSON, "\"\xff\"": errNotUTF8,
	} {
		if got := Check([]byte(in)); got != want {
			t.Errorf("%.40q: %v, want %v", in, got, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		`{"a":"\\\""}`, `[[["]`, `"`, "\\",
		"", " ", "null", "nul", "nulll", "true", "truefalse", "-", "-0", "-01", "01", "1.", "1.0", ".5", "1e", "1e+", "1e+9", "1E-9", "0x1", "+1", "Infinity", "NaN",
		`"`, `""`, `"\u12"`, `"\u12g4"`, `"\uD800"`, `"\x"`, "\"\x01\"", "\"\t\"", `"a`, `'a'`, "{}", "{", "}", "{,}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{a:1}`, `{"a":1,"a":2}`,
		"[]", "[", "]", "[,]", "[1,]", "[1 2]", "[[[[]]]]", "{}{}", "1 2", "\ufeff{}", "\v1", "\u00a01", "{}\x00", "[1]\n\r\t ", "]]]]", "{]", "[}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if err := Check(in); (err == nil) != (json.Valid(in) && utf8.Valid(in)) && err != errTooDeep {
			t.Errorf("%q: %v", in, err)
		}
	})
}

// What a plugin sent leaves with the bytes it had.
func TestBytesStay(t *testing.T) {
	raw := `{"type":"new","x":9007199254740993,"html":"<b>&"}`
	got := Blocks([]*pluginv1.Content{{Block: &pluginv1.Content_Raw{Raw: []byte(raw)}}, {Block: &pluginv1.Content_Text{Text: "<&>"}}})
	if string(got[0]) != raw || !bytes.Contains(got[1], []byte("<&>")) {
		t.Errorf("%s", got)
	}
	if got := string(Line([]byte("{\n  \"a\": \"x\\n<\"\n}"))); got != `{"a":"x\n<"}` {
		t.Errorf("one line: %s", got)
	}
}

func TestMembersOfTwoObjects(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"own/b":2,"c":{"own/d":9007199254740993}}`:  `{"a":1,"c":{"own/d":9007199254740993},"own/z":0}`,
		" {\n \"\\u006fwn/a\" : 1 ,\n \"b\" : [ 1, 2 ]\n} ": `{"b":[ 1, 2 ],"own/z":0}`,
		`{"own/a":1}`: `{"own/z":0}`,
		`{}`:          `{"own/z":0}`,
		`{"a":"}"}`:   `{"a":"}","own/z":0}`,
		`[1]`:         `{"own/z":0}`,
		`"x"`:         `{"own/z":0}`,
		`null`:        `{"own/z":0}`,
	} {
		got := Join(Without(json.RawMessage(in), func(name string) bool { return strings.HasPrefix(name, "own/") }), json.RawMessage(`{"own/z":0}`))
		if string(got) != want || !json.Valid(got) {
			t.Errorf("%s gives %s, want %s", in, got, want)
		}
	}
	if got := Join(json.RawMessage(`{"a":1}`), json.RawMessage(`{}`)); string(got) != `{"a":1}` {
		t.Errorf("%s", got)
	}
}
