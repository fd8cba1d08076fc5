// Command badserver is an MCP server that does, on demand, what servers should
// not. It writes its messages by hand. Its arguments are modes, such as banner or
// init=16s; with http=ADDR it serves Streamable HTTP, else stdio.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

var modes = map[string]string{}

// started tells processes apart; their ids may be the same, each in its namespace.
var started = time.Now().UnixNano()

func has(m string) bool { _, ok := modes[m]; return ok }

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type server struct {
	mu        sync.Mutex
	write     func(string)
	cancelled []string
	requests  []string
	ran       int
	waiting   map[string]chan struct{}
	extra     bool
}

func main() {
	for _, a := range os.Args[1:] {
		k, v, _ := strings.Cut(a, "=")
		modes[k] = v
	}
	s := &server{waiting: map[string]chan struct{}{}}
	if has("http") {
		s.http(modes["http"])
		return
	}
	var out sync.Mutex
	s.write = func(line string) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(line)
	}
	if has("banner") {
		s.write("Welcome to badserver 🚢 " + modes["banner"] + "\n\n  listening…")
	}
	if has("grandchild") {
		cmd := exec.Command("sleep", modes["grandchild"])
		_ = cmd.Start() // the test looks for it
	}
	if has("stderr") {
		fmt.Fprintln(os.Stderr, "no API key: "+modes["stderr"])
		os.Exit(3)
	}
	if has("flood") {
		go func() {
			for {
				s.write(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}`)
				s.write("noise noise noise")
			}
		}()
	}
	if has("reads-late") {
		time.Sleep(1200 * time.Millisecond)
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		for deaf.Load() {
			time.Sleep(10 * time.Millisecond) // until it is killed
		}
		var m message
		if json.Unmarshal([]byte(line), &m) != nil {
			continue
		}
		if m.Method == "" {
			continue // an answer
		}
		if m.Method == "server/discover" && has("dies-at-discover") {
			os.Exit(1) // before whatever came behind it is looked at
		}
		go func() {
			if reply := s.answer(m); reply != "" {
				if has("banner") {
					s.write("INFO about to answer " + m.Method)
				}
				s.write(reply)
				if has("twice") {
					s.write(reply)
				}
			}
		}()
	}
	if has("stubborn") {
		select {}
	}
}

func (s *server) answer(m message) string {
	result := func(r string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, strings.ReplaceAll(r, "\n", " "))
	}
	fail := func(code int, text string) string {
		raw, _ := json.Marshal(text) // a string
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, m.ID, code, raw)
	}
	if r := rowsList(m.Method, m.Params, result, fail); r != "" {
		return r
	}
	switch m.Method {
	case "server/discover":
		if has("quiet-at-discover") {
			return ""
		}
		if has("yes-to-all") {
			return result(`{}`)
		}
		return fail(-32601, "Method not found")
	case "initialize":
		if d, err := time.ParseDuration(modes["init"]); err == nil {
			time.Sleep(d)
		}
		if has("never") {
			return ""
		}
		if has("tools-only") {
			return result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bad","version":"1"}}`)
		}
		return result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{}},"serverInfo":{"name":"bad","version":"1"},"instructions":"be careful"}`)
	case "notifications/cancelled":
		var p struct {
			RequestID string `json:"requestId"`
		}
		_ = json.Unmarshal(m.Params, &p) // a wrong one is no request's
		s.mu.Lock()
		s.cancelled = append(s.cancelled, p.RequestID)
		if c := s.waiting[p.RequestID]; c != nil {
			close(c)
			delete(s.waiting, p.RequestID)
		}
		s.mu.Unlock()
		return ""
	case "tools/list":
		return result(s.tools(m.Params))
	case "prompts/list":
		return result(`{"prompts":[{"name":"plan","description":"Plans.","arguments":[{"name":"topic","required":true},{"name":"style"}]}]}`)
	case "prompts/get":
		raw, _ := json.Marshal(string(m.Params)) // a string
		return result(`{"messages":[{"role":"user","content":{"type":"text","text":` + string(raw) + `}}]}`)
	case "resources/list":
		return result(`{"resources":[{"uri":"bad://note","name":"note","mimeType":"text/plain"}]}`)
	case "resources/templates/list":
		return result(`{"resourceTemplates":[{"uriTemplate":"bad://item/{id}","name":"item"}]}`)
	case "resources/read":
		var p struct{ URI string }
		_ = json.Unmarshal(m.Params, &p) // an empty URI is unknown
		if !strings.HasPrefix(p.URI, "bad://") {
			return fail(-32602, "unknown resource "+p.URI)
		}
		return result(`{"contents":[{"uri":"` + p.URI + `","mimeType":"text/plain","text":"read ` + p.URI + `"}]}`)
	case "tools/call":
		return s.call(m, result, fail)
	case "ping":
		return result("{}")
	}
	if len(m.ID) > 0 {
		return fail(-32601, "Method not found")
	}
	return ""
}

const plain = `{"name":"echo","description":"Echoes its arguments.","inputSchema":{"type":"object"}},
{"name":"sleep","description":"Sleeps.","inputSchema":{"type":"object","properties":{"ms":{"type":"integer"}},"required":["ms"]}},
{"name":"log","description":"Tells what it was asked.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
{"name":"die","description":"Ends the server.","inputSchema":{"type":"object"}},
{"name":"meet","description":"Wants a time zone and a room.","inputSchema":{"type":"object","properties":{"tz":{"type":"string"},"room":{"type":"string"},"id":{"type":"integer"}}}},
{"name":"big","description":"Gives many bytes.","inputSchema":{"type":"object"}},
{"name":"broken","description":"Gives invalid UTF-8.","inputSchema":{"type":"object"}},
{"name":"grow","description":"Adds a tool.","inputSchema":{"type":"object"}},
{"name":"forget","description":"Forgets all sessions.","inputSchema":{"type":"object"}},
{"name":"garble","description":"Answers with what is no result.","inputSchema":{"type":"object"}},
{"name":"rich","title":"Rich","description":"Has everything.","icons":[{"src":"https://x.example/i.png","mimeType":"image/png"}],
 "inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","x-vendor":{"b":1,"a":[2]},"anyOf":[{"required":["a"]},{"required":["b"]}],"definitions":{"q":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/q"},"b":{"type":"integer","maximum":9223372036854775807}}},
 "outputSchema":{"type":"object","oneOf":[{"required":["id"]}],"properties":{"id":{"type":"integer"}}},
 "annotations":{"title":"R","readOnlyHint":true,"vendor":1},"execution":{"taskSupport":"optional"},"_meta":{"vendor/x":{"n":12345678901234567890}}}`

const odd = `,{"name":"a-tool.with.dots/and spaces","inputSchema":{"type":"object"}},{"name":"名前","inputSchema":{"type":"object"}},
{"name":"read-file","inputSchema":{"type":"object"}},{"name":"read_file","inputSchema":{"type":"object"}},{"name":"read.file","inputSchema":{"type":"object"}},
{"name":"null-schema","inputSchema":null},{"name":"no-schema"},{"name":"null-properties","inputSchema":{"type":"object","properties":null}},
{"name":"no-type","inputSchema":{"properties":{"a":{}}}},{"name":"array-schema","inputSchema":[]},{"name":5},{"description":"nameless"},"text",null,
{"name":"echo","description":"a second echo","inputSchema":{"type":"object"}},{"name":"LONG","inputSchema":{"type":"object"}}`

func (s *server) tools(params json.RawMessage) string {
	var p struct{ Cursor string }
	_ = json.Unmarshal(params, &p) // no cursor is the first page
	list := plain
	if has("odd") {
		list += strings.Replace(odd, "LONG", strings.Repeat("long", 33)+"abc", 1)
	}
	if has("files") {
		list += filesTools
	}
	if has("rows") {
		list += rowsTools
	}
	if has("storm") {
		list += `,{"name":"storm","inputSchema":{"type":"object"}},{"name":"line","inputSchema":{"type":"object"}},{"name":"hush","inputSchema":{"type":"object"}}`
	}
	if has("own-names") {
		list += `,{"name":"call_tool","inputSchema":{"type":"object"}},{"name":"mcp_answer","inputSchema":{"type":"object"}},{"name":"mcp_list_services","inputSchema":{"type":"object"}}`
	}
	if has("schemas") {
		list += `,{"name":"huge","description":"` + strings.Repeat("d", 1_100_000) + `","inputSchema":{"type":"object"}}`
	}
	s.mu.Lock()
	if s.extra {
		list += `,{"name":"grown","inputSchema":{"type":"object"}}`
	}
	s.mu.Unlock()
	if n := modes["many"]; n != "" {
		var count int
		fmt.Sscan(n, &count)
		for i := range count {
			list += fmt.Sprintf(`,{"name":"tool_%d","description":"%s","inputSchema":{"type":"object"}}`, i, strings.Repeat("words ", 500))
		}
	}
	if has("loop") {
		return `{"tools":[` + list + `],"nextCursor":"again"}`
	}
	if has("pages") && p.Cursor == "" {
		return `{"tools":[` + list + `],"nextCursor":"p2"}`
	}
	if p.Cursor == "p2" {
		return `{"tools":[{"name":"second_page","inputSchema":{"type":"object"}}]}`
	}
	return `{"tools":[` + list + `]}`
}

func (s *server) call(m message, result func(string) string, fail func(int, string) string) string {
	var p struct {
		Name      string
		Arguments json.RawMessage
	}
	_ = json.Unmarshal(m.Params, &p) // an unknown name is answered below
	var id string
	_ = json.Unmarshal(m.ID, &id) // ids that are no strings are not asked for
	s.mu.Lock()
	s.requests = append(s.requests, id)
	s.mu.Unlock()
	text := func(t string) string {
		raw, _ := json.Marshal(t) // a string
		return result(fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, raw))
	}
	var a struct{ MS, N int }
	_ = json.Unmarshal(p.Arguments, &a) // zero is fine
	if has("rows") {
		if r := rowsTool(p.Name, p.Arguments, result, fail); r != "" {
			return r
		}
	}
	if has("files") {
		if r := fileTool(p.Name, p.Arguments); r != "" {
			return result(r)
		}
	}
	switch p.Name {
	case "echo", "call_tool", "mcp_answer", "mcp_list_services", "read-file", "read_file", "read.file", "grown", "second_page", "名前", "null-schema", "no-schema", "null-properties", "no-type", "array-schema":
		raw, _ := json.Marshal(p.Name + " " + string(p.Arguments)) // a string
		return result(fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"structuredContent":{"id":1915883588174806058,"got":%s}}`, raw, p.Arguments))
	case "sleep":
		stop := make(chan struct{})
		s.mu.Lock()
		s.waiting[id] = stop
		s.mu.Unlock()
		select {
		case <-time.After(time.Duration(a.MS) * time.Millisecond):
		case <-stop:
			return ""
		}
		s.mu.Lock()
		s.ran++
		s.mu.Unlock()
		return text("slept")
	case "log":
		s.mu.Lock()
		defer s.mu.Unlock()
		raw, _ := json.Marshal(map[string]any{"cancelled": s.cancelled, "requests": s.requests, "ran": s.ran, "pid": os.Getpid(), "started": started, "args": os.Args[1:]}) // strings and ints
		return text(string(raw))
	case "die":
		fmt.Fprintln(os.Stderr, "fatal: out of cheese")
		os.Exit(7)
	case "meet":
		var m map[string]any
		_ = json.Unmarshal(p.Arguments, &m) // no object has no fields
		if m["tz"] == nil {
			return result(`{"content":[{"type":"text","text":"missing required argument 'tz'"}],"isError":true}`)
		}
		if m["room"] == nil {
			return result(`{"content":[{"type":"text","text":"{\"error\":\"room is required\"}"}]}`)
		}
		return text("meeting " + string(p.Arguments))
	case "big":
		return text(strings.Repeat("0123456789abcde\n", a.N/16))
	case "broken":
		return result("{\"content\":[{\"type\":\"text\",\"text\":\"bad \xff\xfe bytes\"}]}")
	case "grow":
		s.mu.Lock()
		s.extra = true
		s.mu.Unlock()
		if s.write != nil {
			s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		return text("grown")
	case "line": // answers with the line given, its ID the request's, its FILL so many times a text
		var l struct {
			Line, Fill string
			N          int
		}
		_ = json.Unmarshal(p.Arguments, &l) // nothing is an empty line
		return strings.Replace(strings.ReplaceAll(l.Line, "ID", string(m.ID)), "FILL", strings.Repeat(l.Fill, l.N), 1)
	case "hush": // says no more, and lives on
		_ = os.Stdout.Close() // what is written then is lost
		return ""
	case "storm":
		return text(s.storm(p.Arguments))
	case "garble":
		return result(`"just a string"`)
	case "rich":
		return result(`{"content":[{"type":"text","text":"see","annotations":{"priority":0.5,"audience":["user"]}},
{"type":"resource_link","uri":"bad://note","name":"note","mimeType":"text/plain","icons":[{"src":"https://x.example/l.png"}]},
{"type":"hologram","data":[1,2],"big":9007199254740993},{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}],
"structuredContent":{"id":1915883588174806058,"z":1,"a":2.50},"_meta":{"vendor/trace":18446744073709551615}}`)
	}
	return fail(-32602, "Unknown tool: "+p.Name)
}

// http serves Streamable HTTP with sessions that can be forgotten.
func (s *server) http(addr string) {
	sessions := map[string]bool{}
	var mu sync.Mutex
	n := 0
	l, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t := modes["token"]; t != "" && r.Header.Get("Authorization") != "Bearer "+t {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://auth.example/meta"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		if has("files") && strings.HasPrefix(r.URL.Path, "/files") {
			store.serve(w, r)
			return
		}
		if r.Method != http.MethodPost {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		var m message
		if json.NewDecoder(r.Body).Decode(&m) != nil {
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if m.Method == "initialize" {
			n++
			id := fmt.Sprintf("s%d", n)
			sessions[id] = true
			w.Header().Set("Mcp-Session-Id", id)
		} else if !sessions[r.Header.Get("Mcp-Session-Id")] && m.Method != "server/discover" {
			w.Header().Set("Content-Type", "application/json")
			if has("http400") {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`)
				return
			}
			http.Error(w, "session not found", http.StatusNotFound)
			return
		}
		if strings.Contains(string(m.Params), `"forget"`) {
			clear(sessions)
		}
		if len(m.ID) == 0 {
			s.answer(m)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if m.Method == "server/discover" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, s.answer(m))
			return
		}
		if strings.Contains(string(m.Params), `"forget"`) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"forgotten"}]}}`, m.ID)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, s.answer(m))
	}))
}
