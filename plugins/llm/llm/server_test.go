package llm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

const key = "sk-very-secret-key-1234"

// provider is a server of both wire formats. By default it answers each request with
// what was asked last; faults come first, one for each request.
type provider struct {
	t   *testing.T
	url string

	mu       sync.Mutex
	requests []map[string]json.RawMessage
	faults   []func(w http.ResponseWriter, r *http.Request)
	calls    bool // answers with a call of a tool
	left     chan struct{}
}

func newProvider(t *testing.T) *provider {
	p := &provider{t: t, left: make(chan struct{}, 100)}
	s := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

func (p *provider) fail(faults ...func(w http.ResponseWriter, r *http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, faults...)
}

func (p *provider) seen() []map[string]json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]map[string]json.RawMessage(nil), p.requests...)
}

func (p *provider) last() string {
	all := p.seen()
	if len(all) == 0 {
		return ""
	}
	raw, err := json.Marshal(all[len(all)-1])
	if err != nil {
		p.t.Error(err)
	}
	return string(raw)
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var body map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &body) != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.requests = append(p.requests, body)
	var fault func(http.ResponseWriter, *http.Request)
	if len(p.faults) > 0 {
		fault, p.faults = p.faults[0], p.faults[1:]
	}
	calls := p.calls
	p.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	switch r.URL.Path {
	case "/v1/chat/completions":
		if r.Header.Get("Authorization") != "Bearer "+key {
			refuse(401, `{"error":{"message":"Incorrect API key provided: `+r.Header.Get("Authorization")+`"}}`)(w, r)
			return
		}
		if calls {
			stream(w, openAICall...)
		} else {
			stream(w, openAIText("It is ", "sunny.")...)
		}
	case "/v1/messages":
		if r.Header.Get("X-Api-Key") != key || r.Header.Get("Anthropic-Version") == "" {
			refuse(401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`)(w, r)
			return
		}
		if calls {
			stream(w, anthropicCall...)
		} else {
			stream(w, anthropicText("It is ", "sunny.")...)
		}
	case "/v1/embeddings":
		var texts []string
		_ = json.Unmarshal(body["input"], &texts) // none then
		var data []string
		for i := range texts {
			data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d,0.5]}`, i, len(texts[i])))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"list","data":[%s],"model":"e","usage":{"prompt_tokens":3,"total_tokens":3}}`, strings.Join(data, ","))
	default:
		http.NotFound(w, r)
	}
}

func stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		fmt.Fprint(w, e+"\n\n")
		w.(http.Flusher).Flush()
	}
}

func openAIText(parts ...string) (events []string) {
	for _, p := range parts {
		events = append(events, fmt.Sprintf(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-test","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, p))
	}
	return append(events, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-test","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-test","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`, `data: [DONE]`)
}

var openAICall = []string{
	`data: {"id":"c","model":"gpt-test","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]}}]}`,
	`data: {"id":"c","model":"gpt-test","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"n\":9007199254740993,"}}]}}]}`,
	`data: {"id":"c","model":"gpt-test","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"city\":\"Oslo\"}"}},{"index":1,"id":"call_2","type":"function","function":{"name":"odd","arguments":"{not json"}}]}}]}`,
	`data: {"id":"c","model":"gpt-test","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, `data: [DONE]`,
}

func anthropicText(parts ...string) (events []string) {
	events = []string{"event: message_start\n" + `data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"claude-test","content":[],"usage":{"input_tokens":90,"cache_read_input_tokens":10,"output_tokens":1}}}`,
		"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, "event: ping\n" + `data: {"type":"ping"}`}
	for _, p := range parts {
		events = append(events, "event: content_block_delta\n"+fmt.Sprintf(`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, p))
	}
	return append(events, "event: content_block_stop\n"+`data: {"type":"content_block_stop","index":0}`,
		"event: message_delta\n"+`data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":20}}`, "event: message_stop\n"+`data: {"type":"message_stop"}`)
}

var anthropicCall = []string{
	`data: {"type":"message_start","message":{"model":"claude-test","usage":{"input_tokens":10,"output_tokens":1}}}`,
	`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
	`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Let me see."}}`,
	`data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"call_1","name":"weather","input":{}}}`,
	`data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"n\":9007199254740993,"}}`,
	`data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"city\":\"Oslo\"}"}}`,
	`data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`, `data: {"type":"message_stop"}`,
}

func refuse(status int, body string, headers ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func raw(events ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { stream(w, events...) }
}

// hang sends what it is given and then nothing, until the client goes.
func (p *provider) hang(events ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if len(events) > 0 {
			stream(w, events...)
		}
		<-r.Context().Done()
		p.left <- struct{}{}
	}
}

// flood sends without end.
func flood(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	line := openAIText(strings.Repeat("x", 60_000))[0] + "\n\n"
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
	}
}

type session struct {
	*sdktest.Session
	t *testing.T
}

// start runs the plugin with models of the provider given: tier → block.
func start(t *testing.T, p *provider, models map[string]map[string]any, more map[string]any) session {
	t.Helper()
	conf := map[string]any{"idle_timeout": "1s", "timeout": "10s"}
	var all []map[string]any
	for _, tier := range tiers {
		if m := models[tier]; m != nil {
			base := map[string]any{"tier": tier, "provider": "openai", "model": "test-" + tier, "api_key": key}
			for k, v := range m {
				base[k] = v
			}
			if base["base_url"] == nil {
				base["base_url"] = map[any]string{"openai": p.url + "/v1", "anthropic": p.url}[base["provider"]]
			}
			all = append(all, base)
		}
	}
	if all != nil {
		conf["model"] = all
	}
	for k, v := range more {
		conf[k] = v
	}
	raw, err := json.Marshal(conf)
	if err != nil {
		t.Fatal(err)
	}
	return session{sdktest.Start(t, Plugin(), sdktest.Config(string(raw)), sdktest.Granted("shared")), t}
}

func (s session) ask(args map[string]any, opts ...sdktest.CallOption) (*sdktest.Reply, generated) {
	s.t.Helper()
	if args["messages"] == nil {
		args["messages"] = []any{map[string]any{"role": "user", "content": "What is the weather?"}}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		s.t.Fatal(err)
	}
	r := s.Call("llm_generate", string(raw), opts...)
	var g generated
	if !r.IsError {
		if err := json.Unmarshal(r.Structured, &g); err != nil {
			s.t.Fatalf("%s: %v", r.Structured, err)
		}
	}
	if strings.Contains(r.Text+r.Message+string(r.Structured)+strings.Join(r.Events, ""), key) {
		s.t.Errorf("the key is in the answer: %s %s", r.Text, r.Message)
	}
	return r, g
}

const patient = 20 * time.Second
