package toolschema

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compile(t *testing.T, raw json.RawMessage) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var samples = map[string]struct{ good, bad, goodResult, badResult []string }{
	LLMGenerate: {
		good: []string{
			`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
			`{"model_tier":"high","purpose":"summary","max_output_tokens":9,"tool_choice":"auto","response_schema":{"type":"object"},
				"tools":[{"name":"t","input_schema":{}}],"messages":[
				{"role":"assistant","content":[{"type":"tool_call","id":"1","name":"t","arguments":{"n":9007199254740993}}]},
				{"role":"tool","content":[{"type":"tool_result","id":"1","text":"ok"}]},
				{"role":"user","content":[{"type":"image","path":"/shared/attachments/a.png"}]}]}`,
		},
		bad: []string{
			`{}`, `{"messages":[]}`, `{"messages":[{"role":"user","content":"hi"}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text"}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"image","path":"/etc/passwd"}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"tool_call","id":"1"}]}]}`,
			`{"tier":"high","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
		},
		goodResult: []string{`{"message":"hi","model":"m","model_tier_used":"low","tool_calls":[],"usage":{"input_tokens":1}}`},
		badResult:  []string{`{"message":"hi"}`, `{"message":"hi","model":"m","model_tier_used":"huge"}`},
	},
	LLMModels: {
		good: []string{`{}`}, bad: []string{`{"x":1}`, `[]`},
		goodResult: []string{`[{"model_tier":"low","model":"m","image_input":false,"audio_input":true,"context_chars":5}]`,
			`[]`},
		badResult: []string{`{"models":[]}`, `[{"model":"m"}]`},
	},
	LLMEmbed: {
		good: []string{`{"texts":["a"]}`}, bad: []string{`{"texts":[]}`, `{"texts":"a"}`},
		goodResult: []string{`{"vectors":[[0.5,-1]],"model":"m"}`}, badResult: []string{`{"vectors":[["a"]],"model":"m"}`},
	},
	BrowserRender: {
		good:       []string{`{"url":"https://example.com","timeout_ms":5000,"wait":"#main","screenshot":true}`},
		bad:        []string{`{}`, `{"url":"file:///etc/passwd"}`, `{"url":"https://x","timeout_ms":0}`},
		goodResult: []string{`{"final_url":"https://x/","status":200,"title":"t","html":"<p>","blocked_requests":2}`},
		badResult:  []string{`{"html":"<p>"}`, `{"final_url":"https://x/","status":200,"html":"","screenshot_path":"/tmp/x"}`},
	},
	MCPServerIndex: {
		good: []string{`{}`, `{"query":"mail"}`}, bad: []string{`{"q":"mail"}`},
		goodResult: []string{`[{"name":"n","id":"i","display_name":"N","summary":"s","tool_names":["a"],"typed_names_for_query":["n__a"]}]`},
		badResult:  []string{`[{"name":"n"}]`},
	},
}

func TestSchemas(t *testing.T) {
	for _, name := range Names {
		t.Run(name, func(t *testing.T) {
			s, ok := samples[name]
			if !ok {
				t.Fatal("no samples")
			}
			check(t, Arguments(name), s.good, s.bad)
			check(t, Result(name), s.goodResult, s.badResult)
		})
	}
}

func check(t *testing.T, raw json.RawMessage, good, bad []string) {
	t.Helper()
	s := compile(t, raw)
	for valid, docs := range map[bool][]string{true: good, false: bad} {
		for _, d := range docs {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(d))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(v); (err == nil) != valid {
				t.Errorf("%s: valid should be %v: %v", d, valid, err)
			}
		}
	}
}
