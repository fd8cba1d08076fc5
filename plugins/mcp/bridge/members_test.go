package bridge

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

// What is read by hand is read as encoding/json reads it.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":[1, 2],"a":{"x":"y"}}`, " \n{ \"a\" :\t1 , \"b\":\"\\u00e9\\ud83d\\ude00\\ud800\" } \n", `{}`, `[]`, `"x"`, `null`, `{"a"}`, "{\"a\":\"\xff\"}", `{"\u0061":true,"":null}`,
		`{"a":"\"},{"}`, `[1,"x"]`, ` [ {"type":"text"} , 1 ] `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var want map[string]json.RawMessage
		wantOK := json.Unmarshal(in, &want) == nil && want != nil
		if !json.Valid(in) {
			return
		}
		got, ok := members(in)
		if ok != wantOK {
			t.Fatalf("%q: %v, want %v", in, ok, wantOK)
		}
		if !utf8.Valid(in) {
			return // encoding/json mends names too
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %s, want %s", in, got, want)
		}
		for name, value := range want {
			var w, g any
			if json.Unmarshal(value, &w) != nil || json.Unmarshal(got[name], &g) != nil || !reflect.DeepEqual(g, w) {
				t.Errorf("%q: %q is %q, want %q", in, name, got[name], value)
			}
			if s, isString := w.(string); isString && text(got[name]) != s {
				t.Errorf("%q is %q, want %q", got[name], text(got[name]), s)
			}
		}
	})
}

func TestResultsAreRead(t *testing.T) {
	for in, want := range map[string]*toolResult{
		` { "content" : [ {"type":"text"} , 7 ] , "structuredContent" : {"n": 9007199254740993} , "isError" : true , "_meta" : {"a":1}, "resultType":"complete" } `: {
			Content: []json.RawMessage{json.RawMessage(`{"type":"text"}`), json.RawMessage(`7`)}, Structured: json.RawMessage(`{"n": 9007199254740993}`),
			IsError: true, Meta: json.RawMessage(`{"a":1}`), Type: "complete",
		},
		`{"content":null,"isError":null,"structuredContent":null,"_meta":null,"resultType":null}`: {},
		`{"structuredContent":[1],"_meta":[]}`:                                                    {Structured: json.RawMessage(`[1]`)},
		`{"content":{}}`:                                                                          nil, `{"content":"x"}`: nil, `{"isError":1}`: nil, `{"isError":"true"}`: nil, `{"resultType":[]}`: nil, `[]`: nil, `null`: nil,
	} {
		got, ok := readResult(json.RawMessage(in))
		if ok != (want != nil) || ok && !reflect.DeepEqual(got, *want) {
			t.Errorf("%s: %+v, %v", in, got, ok)
		}
	}
}
