package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBothWireFormats(t *testing.T) {
	for _, kind := range []string{"openai", "anthropic"} {
		t.Run(kind, func(t *testing.T) {
			p := newProvider(t)
			s := start(t, p, map[string]map[string]any{"high": {"provider": kind, "image_input": true, "input_cost": 3.0, "output_cost": 15.0}}, nil)
			r, g := s.ask(map[string]any{"model_tier": "high", "max_output_tokens": 77, "purpose": "test", "messages": []any{
				map[string]any{"role": "system", "content": "Be short."},
				map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "What is the weather?"}}},
			}})
			want := generated{Message: "It is sunny.", TierUsed: "high", Finish: "stop", Usage: usage{Cost: 0.0006}}
			if g.Message != want.Message || g.TierUsed != want.TierUsed || g.Finish != want.Finish || g.Usage.Input != 100 || g.Usage.Output != 20 || g.Usage.Cost != want.Usage.Cost || !strings.HasSuffix(g.Model, "-test") || g.Exchanged != "" {
				t.Errorf("%+v", g)
			}
			if r.Text != "It is sunny." || strings.Join(r.Events, "|") != "partial It is |partial sunny." {
				t.Errorf("%q, %q", r.Text, r.Events)
			}
			sent := p.last()
			for _, part := range []string{`"test-high"`, `77`, `Be short.`, `What is the weather?`} {
				if !strings.Contains(sent, part) {
					t.Errorf("%s is not in %s", part, sent)
				}
			}
			p.mu.Lock()
			p.calls = true
			p.mu.Unlock()
			schema := `{"type":"object","properties":{"n":{"const":9007199254740993}}}`
			_, g = s.ask(map[string]any{"model_tier": "high", "tool_choice": "weather", "tools": []any{map[string]any{"name": "weather", "description": "d", "input_schema": json.RawMessage(schema)}},
				"messages": []any{
					map[string]any{"role": "user", "content": "Weather?"},
					map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "tool_call", "id": "c0", "name": "weather", "arguments": json.RawMessage(`{"n":9007199254740993}`)}}},
					map[string]any{"role": "tool", "content": []any{map[string]any{"type": "tool_result", "id": "c0", "text": "no such city", "is_error": true}}},
				}})
			if len(g.Calls) == 0 || g.Calls[0].ID != "call_1" || g.Calls[0].Name != "weather" || string(g.Calls[0].Arguments) != `{"n":9007199254740993,"city":"Oslo"}` || g.Finish != "tool_calls" {
				t.Errorf("%+v", g)
			}
			if kind == "openai" && (len(g.Calls) != 2 || string(g.Calls[1].Arguments) != `{"unreadable":"{not json"}`) {
				t.Errorf("arguments that are none: %+v", g.Calls)
			}
			if sent := p.last(); strings.Count(sent, "9007199254740993") != 2 || !strings.Contains(sent, "no such city") {
				t.Errorf("%s", sent)
			}
		})
	}
}

func TestAnswersThatFitASchema(t *testing.T) {
	p := newProvider(t)
	s := start(t, p, map[string]map[string]any{"low": {}, "high": {"provider": "anthropic"}}, nil)
	for _, tier := range []string{"low", "high"} {
		s.ask(map[string]any{"model_tier": tier, "response_schema": json.RawMessage(`{"type":"object","properties":{"b":{},"a":{}}}`)})
		if sent := p.last(); !strings.Contains(sent, `{"type":"object","properties":{"b":{},"a":{}}}`) || !strings.Contains(sent, "json_schema") {
			t.Errorf("%s: %s", tier, sent)
		}
	}
}

func picture(t *testing.T, path string) {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func withImage(path string) []any {
	return []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "What is it?"}, map[string]any{"type": "image", "path": path}}}}
}

// An image goes to a model that sees, whatever tier was asked for, and to no other.
func TestNoImageGoesToABlindModel(t *testing.T) {
	p := newProvider(t)
	s := start(t, p, map[string]map[string]any{"low": {"image_input": true, "provider": "anthropic", "fallback": []string{"high"}}, "balanced": {}, "high": {}}, nil)
	picture(t, filepath.Join(s.SharedDir, "attachments/x.png"))
	_, g := s.ask(map[string]any{"model_tier": "high", "messages": withImage("/shared/attachments/x.png")})
	if g.TierUsed != "low" || !strings.Contains(g.Exchanged, "takes no such input") {
		t.Errorf("%+v", g)
	}
	if sent := p.last(); !strings.Contains(sent, `"media_type":"image/png"`) || !strings.Contains(sent, "iVBOR") || !strings.Contains(sent, "test-low") {
		t.Errorf("%.300s", sent)
	}
	p.fail(refuse(400, `{"error":{"message":"no"}}`))
	r, _ := s.ask(map[string]any{"model_tier": "low", "messages": withImage("/shared/attachments/x.png")})
	r.WantError("execution_failed", "no")
	for _, sent := range p.seen() {
		if string(sent["model"]) != `"test-low"` {
			t.Errorf("%s was asked", sent["model"])
		}
	}
	before := len(p.seen())
	if err := os.WriteFile(filepath.Join(s.SharedDir, "fake.png"), []byte("<html>"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, path := range map[string]string{"text/html": "/shared/fake.png", "no file": "/shared/none.png", "name it": "/etc/passwd", "not a file": "../x.png"} {
		r, _ := s.ask(map[string]any{"messages": withImage(path)})
		if !r.IsError || !strings.Contains(r.Message, want) {
			t.Errorf("%s: %s", path, r.Message)
		}
	}
	blind := start(t, p, map[string]map[string]any{"balanced": {}}, nil)
	picture(t, filepath.Join(blind.SharedDir, "x.png"))
	r, _ = blind.ask(map[string]any{"messages": withImage("/shared/x.png")})
	r.WantError("unavailable", "no configured model takes images")
	if n := len(p.seen()); n != before {
		t.Errorf("%d requests were made for what is refused", n-before)
	}
}

func TestTiersStandInForEachOther(t *testing.T) {
	p := newProvider(t)
	s := start(t, p, map[string]map[string]any{"high": {}, "low": {"fallback": []string{"high"}}}, map[string]any{"max_retries": 0})
	if _, g := s.ask(map[string]any{"model_tier": "balanced"}); g.TierUsed != "high" || !strings.Contains(g.Exchanged, "no model of tier balanced") {
		t.Errorf("%+v", g)
	}
	p.fail(refuse(503, "down"))
	if _, g := s.ask(map[string]any{"model_tier": "low"}); g.TierUsed != "high" || !strings.Contains(g.Exchanged, "failed") {
		t.Errorf("%+v", g)
	}
	p.fail(refuse(503, "down"))
	r, _ := s.ask(map[string]any{"model_tier": "high"})
	r.WantError("unavailable", "HTTP 503: down")
	none := start(t, p, nil, nil)
	r, _ = none.ask(map[string]any{})
	r.WantError("unavailable", "no model is configured")
}

// What a provider does wrong costs one call, with a clear error, and the next works.
func TestFaults(t *testing.T) {
	for _, kind := range []string{"openai", "anthropic"} {
		t.Run(kind, func(t *testing.T) {
			p := newProvider(t)
			s := start(t, p, map[string]map[string]any{"high": {"provider": kind}}, map[string]any{"max_retries": 1})
			half := openAIText("It is ")[:1]
			if kind == "anthropic" {
				half = anthropicText("It is ")[:4]
			}
			for name, c := range map[string]struct {
				faults     []func(http.ResponseWriter, *http.Request)
				code, want string
				tries      int
			}{
				"busy, then not":       {[]func(http.ResponseWriter, *http.Request){refuse(429, `{"error":{"message":"slow down"}}`, "Retry-After", "1")}, "", "", 2},
				"busy for long":        {[]func(http.ResponseWriter, *http.Request){refuse(429, `{"error":{"message":"slow down"}}`, "Retry-After", "3600")}, "unavailable", "slow down", 1},
				"failing, then not":    {[]func(http.ResponseWriter, *http.Request){refuse(500, "oops")}, "", "", 2},
				"failing":              {[]func(http.ResponseWriter, *http.Request){refuse(500, "oops"), refuse(529, `{"error":{"type":"overloaded_error","message":"overloaded"}}`)}, "unavailable", "overloaded", 2},
				"refusing":             {[]func(http.ResponseWriter, *http.Request){refuse(400, `{"error":{"message":"bad `+key+` request"}}`)}, "execution_failed", "bad [hidden] request", 1},
				"refusing the key":     {[]func(http.ResponseWriter, *http.Request){refuse(401, `{"error":{"message":"key `+key+`"}}`)}, "auth_required", "refuses the api_key", 1},
				"silent":               {[]func(http.ResponseWriter, *http.Request){p.hang(), p.hang()}, "unavailable", "nothing for too long", 2},
				"silent in the middle": {[]func(http.ResponseWriter, *http.Request){p.hang(half...)}, "interrupted", "broke off", 1},
				"cut in the middle":    {[]func(http.ResponseWriter, *http.Request){raw(half...)}, "interrupted", "broke off", 1},
				"garbage":              {[]func(http.ResponseWriter, *http.Request){raw("data: {{{"), raw("data: {{{")}, "unavailable", "", 2},
				"no stream":            {[]func(http.ResponseWriter, *http.Request){refuse(200, "<html>hello"), refuse(200, "<html>hello")}, "unavailable", "", 2},
				"redirecting":          {[]func(http.ResponseWriter, *http.Request){refuse(307, "", "Location", "http://127.0.0.1:1/steal"), refuse(307, "", "Location", "http://127.0.0.1:1/steal")}, "unavailable", "redirects to http://127.0.0.1:1", 2},
			} {
				before := len(p.seen())
				p.fail(c.faults...)
				r, g := s.ask(map[string]any{"model_tier": "high"}, sdktest.Within(patient))
				if c.code == "" {
					if g.Message != "It is sunny." {
						t.Errorf("%s: %s", name, r.Message)
					}
				} else if r.Code != c.code || !strings.Contains(r.Message, c.want) {
					t.Errorf("%s: %s %q, want %s with %q", name, r.Code, r.Message, c.code, c.want)
				}
				if n := len(p.seen()) - before; n != c.tries {
					t.Errorf("%s: %d requests, want %d", name, n, c.tries)
				}
				p.mu.Lock()
				p.faults = nil
				p.mu.Unlock()
			}
			if _, g := s.ask(map[string]any{"model_tier": "high"}); g.Message != "It is sunny." {
				t.Errorf("after it all: %+v", g)
			}
		})
	}
}

func TestAFloodIsBounded(t *testing.T) {
	p := newProvider(t)
	s := start(t, p, map[string]map[string]any{"high": {}}, map[string]any{"timeout": "1m"})
	p.fail(flood)
	r, _ := s.ask(map[string]any{"model_tier": "high"}, sdktest.Within(patient*3))
	if !r.IsError || r.Code == "timeout" {
		t.Errorf("%s %s", r.Code, r.Message)
	}
	if _, g := s.ask(map[string]any{}); g.Message != "It is sunny." {
		t.Errorf("%+v", g)
	}
}

func TestBudgets(t *testing.T) {
	p := newProvider(t)
	s := start(t, p, map[string]map[string]any{"high": {"input_cost": 3.0, "output_cost": 15.0}}, map[string]any{"budget": []any{map[string]any{"agent": "default", "tokens_per_day": 300}}})
	for range 3 {
		if r, _ := s.ask(map[string]any{}); r.IsError {
			t.Fatal(r.Message)
		}
	}
	before := len(p.seen())
	r, _ := s.ask(map[string]any{})
	r.WantError("denied", "has used its 300 tokens of today")
	if r.RetryAfter <= 0 || len(p.seen()) != before {
		t.Errorf("retry after %v, %d requests", r.RetryAfter, len(p.seen())-before)
	}
	// What was counted is what the provider did, and it stands in the host's state.
	at := "usage/" + time.Now().UTC().Format(time.DateOnly) + "/" + url.PathEscape(payer(&sdk.Call{Agent: "tester"}))
	raw, found := s.Host.State(at)
	var used struct {
		Calls  int64 `json:"calls"`
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
		Cost   int64 `json:"cost_micros"`
	}
	if err := json.Unmarshal(raw, &used); err != nil || used.Calls != 3 || used.Input != 300 || used.Output != 60 || used.Cost != 1800 {
		t.Errorf("%s (found %v): %s, %v", at, found, raw, err)
	}
	for range 2 { // failures that cost nothing leave no call open
		p.fail(refuse(400, "no"))
	}
	money := start(t, p, map[string]map[string]any{"high": {"input_cost": 3.0, "output_cost": 15.0}}, map[string]any{"budget": []any{map[string]any{"agent": "default", "cost_per_day": 0.001}}})
	money.ask(map[string]any{})
	money.ask(map[string]any{})
	money.ask(map[string]any{})
	money.ask(map[string]any{})
	r, _ = money.ask(map[string]any{})
	r.WantError("denied", "budget of 0.00")
}

func TestBadRequestsAreRefusedUnsent(t *testing.T) {
	p := newProvider(t)
	s := start(t, p, map[string]map[string]any{"high": {"context_chars": 2000}}, nil)
	for want, messages := range map[string]string{
		"the role is":        `[{"role":"robot","content":"x"}]`,
		"the type is":        `[{"role":"user","content":[{"type":"video"}]}]`,
		"1 to 2000":          `[]`,
		"can't be read":      `[{"role":"user","content":5}]`,
		"stands in an":       `[{"role":"user","content":[{"type":"tool_call","id":"1"}]}]`,
		"only a user's turn": `[{"role":"assistant","content":[{"type":"image","path":"/shared/x"}]}]`,
		"has no path":        `[{"role":"user","content":[{"type":"image"}]}]`,
		"2000":               fmt.Sprintf(`[{"role":"user","content":%q}]`, strings.Repeat("x", 3000)),
	} {
		r := s.Call("llm_generate", `{"messages":`+messages+`}`)
		if !r.IsError || !strings.Contains(r.Message, want) {
			t.Errorf("%s: %s %s", want, r.Code, r.Message)
		}
	}
	s.Call("llm_generate", `{"messages":[{"role":"user","content":"x"}],"temperature":1}`).WantError("invalid_arguments", "temperature")
	if n := len(p.seen()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestModelsAndVectors(t *testing.T) {
	p := newProvider(t)
	s := start(t, p, map[string]map[string]any{"high": {"image_input": true}, "low": {}}, map[string]any{"embedder": map[string]any{"model": "e", "base_url": p.url + "/v1", "api_key": key}})
	if r := s.Call("llm_models", `{}`); r.IsError || !strings.Contains(strings.Join(strings.Fields(r.Text), ""), `"model_tier":"high","model":"test-high","image_input":true`) {
		t.Errorf("%s %s", r.Text, r.Message)
	}
	r := s.Call("llm_embed", `{"texts":["a","bcd"]}`)
	if string(r.Structured) != `{"model":"e","vectors":[[1,0.5],[3,0.5]]}` {
		t.Errorf("%s %s", r.Structured, r.Message)
	}
	s.Call("llm_embed", `{"texts":[]}`).WantError("invalid_arguments", "1 to 256")
	if names := start(t, p, nil, nil).ToolNames(); len(names) != 2 {
		t.Errorf("%v are offered without an embedder", names)
	}
}

func TestSettings(t *testing.T) {
	s := start(t, newProvider(t), nil, nil)
	for want, conf := range map[string]string{
		"low, balanced or high":  `{"model":[{"tier":"huge","provider":"openai","model":"m"}]}`,
		"two models":             `{"model":[{"tier":"low","provider":"openai","model":"m"},{"tier":"low","provider":"openai","model":"m"}]}`,
		"openai or anthropic":    `{"model":[{"tier":"low","provider":"x","model":"m"}]}`,
		"without credentials":    `{"model":[{"tier":"low","provider":"openai","model":"m","base_url":"http://u:p@h/"}]}`,
		"another tier":           `{"model":[{"tier":"low","provider":"openai","model":"m","fallback":["low"]}]}`,
		"takes no recordings":    `{"model":[{"tier":"low","provider":"anthropic","model":"m","audio_input":true}]}`,
		"a budget has":           `{"budget":[{"agent":"a"}]}`,
		"from 0 to 10":           `{"max_retries":11}`,
		"at most 15m, is wanted": `{"timeout":"1h"}`,
	} {
		if got := strings.Join(s.Validate(conf), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: %q", want, got)
		}
	}
}
