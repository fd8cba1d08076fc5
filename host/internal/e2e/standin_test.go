package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// standIn speaks as a known client does, message by message. It stands in for the
// client; it is not built on any library of ours.
type standIn struct {
	t       *testing.T
	write   func(message string)                        // sends one message
	answers map[string]func(params gjson.Result) string // to the server's own requests, by method

	writes sync.WaitGroup // requests on their way

	mu       sync.Mutex
	id       int
	waiting  map[int]chan gjson.Result
	notified map[string]int // notifications by method
	asked    map[string]int // requests of the server by method
}

func newStandIn(t *testing.T) *standIn {
	return &standIn{t: t, waiting: map[int]chan gjson.Result{}, notified: map[string]int{}, asked: map[string]int{}, answers: map[string]func(gjson.Result) string{
		"ping": func(gjson.Result) string { return `{}` }, "roots/list": func(gjson.Result) string { return `{"roots":[{"uri":"file:///home/ada/project"}]}` }}}
}

// take handles one message of the server.
func (s *standIn) take(raw string) {
	m := gjson.Parse(raw)
	method := m.Get("method").Str
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !json.Valid([]byte(raw)):
		s.t.Errorf("no JSON: %s", clip(raw))
	case method != "" && m.Get("id").Exists():
		s.asked[method]++
		answer, known := s.answers[method]
		if !known {
			s.t.Errorf("the server asks %s, which was not declared", method)
			return
		}
		reply := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.Get("id").Raw, answer(m.Get("params")))
		go s.write(reply)
	case method != "":
		s.notified[method]++
	default:
		if ch := s.waiting[int(m.Get("id").Int())]; ch != nil {
			ch <- m
		}
	}
}

// start sends a request; the channel gives its answer.
func (s *standIn) start(method, params string) (int, chan gjson.Result) {
	ch := make(chan gjson.Result, 1)
	s.mu.Lock()
	id := s.id
	s.id++ // they all begin at 0
	s.waiting[id] = ch
	s.mu.Unlock()
	if params != "" {
		params = `,"params":` + params
	}
	s.writes.Go(func() { s.write(fmt.Sprintf(`{"method":%q%s,"jsonrpc":"2.0","id":%d}`, method, params, id)) })
	return id, ch
}

func (s *standIn) await(method string, ch chan gjson.Result) gjson.Result {
	s.t.Helper()
	select {
	case m := <-ch:
		return m
	case <-time.After(30 * time.Second):
		s.t.Fatalf("%s was not answered", method)
		return gjson.Result{}
	}
}

// ask sends a request and returns its result.
func (s *standIn) ask(method, params string) gjson.Result {
	s.t.Helper()
	_, ch := s.start(method, params)
	m := s.await(method, ch)
	if e := m.Get("error"); e.Exists() {
		s.t.Fatalf("%s: %s", method, e.Raw)
	}
	return m.Get("result")
}

// call calls a tool and returns its text.
func (s *standIn) call(tool, arguments string) string {
	s.t.Helper()
	r := s.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	return r.Get("content.0.text").Str
}

func (s *standIn) heard(notification string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notified[notification]
}

// open greets the server as the client named does, and checks what was agreed.
func (s *standIn) open(version, capabilities, client string) {
	s.t.Helper()
	r := s.ask("initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, version, capabilities, client))
	if r.Get("protocolVersion").Str != version || r.Get("serverInfo.name").Str != "bulkhead" || !r.Get("capabilities.tools.listChanged").Bool() {
		s.t.Fatalf("agreed on %s", r.Raw)
	}
	s.write(`{"method":"notifications/initialized","jsonrpc":"2.0"}`)
}

// lists asks for everything there is at once, as most clients do after the greeting.
func (s *standIn) lists() (tools []string) {
	s.t.Helper()
	answers := map[string]chan gjson.Result{}
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		_, answers[method] = s.start(method, `{}`)
	}
	for method, ch := range answers {
		m := s.await(method, ch)
		if m.Get("error").Exists() {
			s.t.Errorf("%s: %s", method, m.Raw)
		}
		if method == "tools/list" {
			for _, tool := range m.Get("result.tools").Array() {
				tools = append(tools, tool.Get("name").Str)
			}
		}
		if method == "prompts/list" && len(m.Get("result.prompts").Array()) == 0 {
			s.t.Errorf("no guide is a prompt: %s", m.Raw)
		}
	}
	return tools
}

// stdio starts the command of a page's sample and speaks with it.
func (s *standIn) stdio(w *world, command string, args []string) (end func()) {
	s.t.Helper()
	cmd := exec.Command(command, args...)
	cmd.Dir, cmd.Stderr = s.t.TempDir(), os.Stderr // clients start servers wherever they stand
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if strings.TrimSpace(line) != "" {
				s.take(line)
			}
			if err != nil {
				return
			}
		}
	}()
	var one sync.Mutex
	s.write = func(message string) {
		one.Lock()
		defer one.Unlock()
		if _, err := io.WriteString(in, message+"\n"); err != nil {
			s.t.Errorf("the server left: %v", err)
		}
	}
	return func() {
		s.t.Helper()
		s.writes.Wait()
		_ = in.Close()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			s.t.Error("the server did not end with its input")
			_ = cmd.Process.Kill()
			<-done
		}
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("the server ended with %v", err)
		}
	}
}

// overHTTP is how a client speaks Streamable HTTP.
type overHTTP struct {
	s       *standIn
	url     string
	header  map[string]string
	version string // of the header after the greeting; empty: none is sent

	mu      sync.Mutex
	session string
}

func (s *standIn) http(url string, header map[string]string, version string) *overHTTP {
	h := &overHTTP{s: s, url: url, header: header, version: version}
	s.write = func(message string) {
		code, text := h.post(message)
		if code != 200 && code != 202 {
			s.t.Errorf("%d %s for %s", code, clip(text), clip(message))
		}
	}
	return h
}

func (h *overHTTP) request(ctx context.Context, method, body string) *http.Response {
	h.s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, h.url, strings.NewReader(body))
	if err != nil {
		h.s.t.Error(err)
		return nil
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Header.Set("Accept", "text/event-stream")
	}
	for k, v := range h.header {
		req.Header.Set(k, v)
	}
	h.mu.Lock()
	if h.session != "" {
		req.Header.Set("Mcp-Session-Id", h.session)
		if h.version != "" {
			req.Header.Set("Mcp-Protocol-Version", h.version)
		}
	}
	h.mu.Unlock()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			h.s.t.Errorf("%s: %v", method, err)
		}
		return nil
	}
	return resp
}

// post sends a message and takes what comes back, as it comes.
func (h *overHTTP) post(message string) (int, string) {
	resp := h.request(context.Background(), http.MethodPost, message)
	if resp == nil {
		return 0, ""
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		h.mu.Lock()
		h.session = id
		h.mu.Unlock()
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		h.events(resp.Body)
		return resp.StatusCode, ""
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		h.s.t.Error(err)
	}
	if resp.StatusCode == 200 {
		h.s.take(string(raw))
	}
	return resp.StatusCode, string(raw)
}

func (h *overHTTP) events(body io.Reader) {
	r := bufio.NewReader(body)
	for {
		line, err := r.ReadString('\n')
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			h.s.take(data)
		}
		if err != nil {
			return
		}
	}
}

// listen opens the stream of notifications; end closes it.
func (h *overHTTP) listen() (code int, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	resp := h.request(ctx, http.MethodGet, "")
	if resp == nil {
		cancel()
		return 0, func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.events(resp.Body)
	}()
	return resp.StatusCode, func() {
		cancel()
		<-done
		_ = resp.Body.Close()
	}
}
