// Command askserver is an MCP server that asks its client what a call tells it to
// ask. It writes its messages by hand, over stdio. Its argument is the era it
// speaks: legacy asks by requests on the connection, modern by results. With
// http=ADDR it is modern over HTTP.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

type server struct {
	modern bool
	mu     sync.Mutex
	out    sync.Mutex
	next   int
	waits  map[string]chan message
	caps   json.RawMessage // of the client
	calls  int
	tasks  map[string]*task
	subs   json.RawMessage // id of the subscription
	events chan string     // of the subscription over HTTP
	extra  bool
}

func main() {
	s := &server{waits: map[string]chan message{}, tasks: map[string]*task{}}
	for _, a := range os.Args[1:] {
		s.modern = s.modern || a == "modern"
		if addr, ok := strings.CutPrefix(a, "http="); ok {
			s.modern = true
			s.http(addr)
			return
		}
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal([]byte(line), &m) != nil {
			continue
		}
		if m.Method == "" {
			s.mu.Lock()
			c := s.waits[string(m.ID)]
			delete(s.waits, string(m.ID))
			s.mu.Unlock()
			if c != nil {
				c <- m
			}
			continue
		}
		go s.serve(m)
	}
}

func (s *server) write(format string, args ...any) {
	s.mu.Lock()
	events := s.events
	s.mu.Unlock()
	if events != nil {
		events <- fmt.Sprintf(format, args...)
		return
	}
	s.out.Lock()
	defer s.out.Unlock()
	fmt.Println(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
}

func (s *server) serve(m message) {
	result, code, text := s.answer(m)
	switch {
	case code == -32042:
		s.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"a page first","data":{"elicitations":[%s]}}}`, m.ID, text)
	case len(m.ID) == 0 || result == "" && code == 0:
	case code != 0:
		s.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, m.ID, code, quote(text))
	default:
		s.write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
}

func quote(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

const tools = `{"name":"ask","description":"Asks.","inputSchema":{"type":"object","properties":{"color":{"type":"string"}}}},
{"name":"ask_again","description":"Asks, and may be called twice.","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}},
{"name":"stats","description":"Tells what it knows.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
{"name":"grow","description":"Adds a tool.","inputSchema":{"type":"object"}},
{"name":"work","description":"Works long.","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`

func (s *server) answer(m message) (result string, code int, text string) {
	switch m.Method {
	case "server/discover":
		if !s.modern {
			return "", -32601, "Method not found"
		}
		return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{},"completions":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"ask","version":"1"}}`, 0, ""
	case "initialize":
		if s.modern {
			return "", -32601, "Method not found"
		}
		var p struct{ Capabilities json.RawMessage }
		_ = json.Unmarshal(m.Params, &p) // no capabilities are none
		s.mu.Lock()
		s.caps = p.Capabilities
		s.mu.Unlock()
		return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"ask","version":"1"}}`, 0, ""
	case "tools/list":
		s.mu.Lock()
		defer s.mu.Unlock()
		list := tools
		if s.extra {
			list += `,{"name":"grown","inputSchema":{"type":"object"}}`
		}
		return `{"tools":[` + list + `]}`, 0, ""
	case "prompts/list":
		return `{"prompts":[{"name":"plan","arguments":[{"name":"topic"}]}]}`, 0, ""
	case "resources/list":
		return `{"resources":[]}`, 0, ""
	case "resources/templates/list":
		return `{"resourceTemplates":[{"uriTemplate":"ask://item/{id}","name":"item"}]}`, 0, ""
	case "completion/complete":
		return `{"completion":{"values":["one","two"],"total":12345678901234567890,"asked":` + string(m.Params) + `}}`, 0, ""
	case "ping":
		return "{}", 0, ""
	case "subscriptions/listen":
		s.mu.Lock()
		s.subs = m.ID
		s.mu.Unlock()
		s.write(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":true}}}`, m.ID)
		return "", 0, "" // it stays open
	case "tools/call":
		return s.call(m)
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
		return s.task(m)
	}
	return "", -32601, "Method not found"
}

// asked is what a call is told to ask.
type asked struct {
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema"`
	URL     string          `json:"url"`
	Method  string          `json:"method"`
	Times   int             `json:"times"`   // rounds
	Keys    int             `json:"keys"`    // questions in one round
	NoState bool            `json:"noState"` // without a state
	Fail    bool            `json:"fail"`    // an error in the end
	Pages   bool            `json:"pages"`   // an error that wants a page visited
	Die     bool            `json:"die"`     // ends the server instead of answering
	DieOnce bool            `json:"dieOnce"` // ends the server before it asks, the first time
	Task    bool            `json:"task"`    // becomes a task
	Steps   int             `json:"steps"`   // of a task
	Fails   bool            `json:"fails"`   // the task fails
	Forgets bool            `json:"forgets"` // the server forgets the task
}

func (a asked) params() string {
	if a.URL != "" {
		return `{"mode":"url","message":` + quote(a.Message) + `,"url":` + quote(a.URL) + `,"elicitationId":"e1"}`
	}
	schema := string(a.Schema)
	if schema == "" {
		schema = `{"type":"object","properties":{}}`
	}
	return `{"mode":"form","message":` + quote(a.Message) + `,"requestedSchema":` + schema + `}`
}

type callParams struct {
	Name      string
	Arguments json.RawMessage
	Responses map[string]json.RawMessage `json:"inputResponses"`
	State     string                     `json:"requestState"`
	Task      json.RawMessage            `json:"task"`
	Meta      map[string]json.RawMessage `json:"_meta"`
}

func textResult(t string) string {
	return `{"content":[{"type":"text","text":` + quote(t) + `}]}`
}

func (s *server) call(m message) (string, int, string) {
	var p callParams
	_ = json.Unmarshal(m.Params, &p) // an unknown name is answered below
	var a asked
	_ = json.Unmarshal(p.Arguments, &a) // zero is fine
	s.mu.Lock()
	s.calls++
	if c := p.Meta["io.modelcontextprotocol/clientCapabilities"]; len(c) > 0 {
		s.caps = c
	}
	s.mu.Unlock()
	switch p.Name {
	case "ask", "ask_again":
		if _, err := os.Stat("died"); a.DieOnce && err != nil {
			if f, err := os.Create("died"); err == nil { // in its own folder
				f.Close()
			}
			os.Exit(7)
		}
		if s.modern {
			return s.askByResult(p, a)
		}
		return s.askByRequest(a)
	case "stats":
		s.mu.Lock()
		defer s.mu.Unlock()
		return textResult(quote(map[string]any{"calls": s.calls, "capabilities": s.caps, "pid": os.Getpid()})), 0, ""
	case "grow":
		s.mu.Lock()
		s.extra = true
		id := s.subs
		s.mu.Unlock()
		s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, id)
		return textResult("grown"), 0, ""
	case "work":
		return s.work(p, a)
	}
	return "", -32602, "Unknown tool: " + p.Name
}

// askByRequest asks over the connection and tells what it was answered.
func (s *server) askByRequest(a asked) (string, int, string) {
	if a.Pages {
		return "", -32042, a.params()
	}
	var answers []string
	for range max(a.Times, 1) {
		answers = append(answers, s.request(a, ""))
	}
	if a.Die {
		os.Exit(7)
	}
	if a.Fail {
		return "", -32000, "no luck"
	}
	return textResult("got " + strings.Join(answers, " ")), 0, ""
}

func (s *server) request(a asked, meta string) string {
	c := make(chan message, 1)
	s.mu.Lock()
	s.next++
	id := fmt.Sprintf(`"ask-%d"`, s.next)
	s.waits[id] = c
	s.mu.Unlock()
	method := a.Method
	if method == "" {
		method = "elicitation/create"
	}
	params := a.params()
	if meta != "" {
		params = `{"_meta":` + meta + `,` + params[1:]
	}
	s.write(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
	select {
	case m := <-c:
		if len(m.Error) > 0 {
			return "error " + string(m.Error)
		}
		return string(m.Result)
	case <-time.After(20 * time.Second):
		return "nothing"
	}
}

// askByResult asks in as many rounds as it is told; the state says which is next.
func (s *server) askByResult(p callParams, a asked) (string, int, string) {
	round := 0
	if p.State != "" {
		if _, err := fmt.Sscanf(p.State, "round-%d", &round); err != nil {
			return "", -32602, "the state was changed: " + p.State
		}
	} else if len(p.Responses) > 0 {
		round = 1
	}
	if round >= max(a.Times, 1) {
		if a.Die {
			os.Exit(7)
		}
		if a.Fail {
			return "", -32000, "no luck"
		}
		return textResult(fmt.Sprintf("got %s state %q", quote(p.Responses), p.State)), 0, ""
	}
	method := a.Method
	if method == "" {
		method = "elicitation/create"
	}
	var requests []string
	for i := range max(a.Keys, 1) {
		requests = append(requests, fmt.Sprintf(`"q%d":{"method":%q,"params":%s}`, i, method, a.params()))
	}
	state := fmt.Sprintf(`,"requestState":"round-%d"`, round+1)
	if a.NoState {
		state = ""
	}
	return `{"resultType":"input_required","inputRequests":{` + strings.Join(requests, ",") + `}` + state + `}`, 0, ""
}
