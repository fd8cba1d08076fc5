package downstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
)

// sessions is a server of the session era whose answers to tools/call are those of
// the tool's name; it counts the handshakes and the calls.
func sessions(t *testing.T, answers map[string]http.HandlerFunc) (url string, handshakes, calls *atomic.Int64) {
	handshakes, calls = new(atomic.Int64), new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			handshakes.Add(1)
			w.Header().Set("Mcp-Session-Id", "s1")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, m.ID)
		case "tools/call":
			calls.Add(1)
			w.Header().Set("X-Id", string(m.ID))
			answers[m.Params.Name](w, r)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, handshakes, calls
}

// What a server refuses is told in its own words, and costs neither the session nor a
// second try, unless it speaks of the session.
func TestARefusalKeepsItsReason(t *testing.T) {
	ctx := badtest.Within(t, 60*time.Second)
	url, handshakes, calls := sessions(t, map[string]http.HandlerFunc{
		"page":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>the amount is below zero", 400) },
		"session": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "No valid Session ID provided", 400) },
	})
	c, err := Connect(ctx, Target{Name: "h", URL: url, Log: quietLog()}, Events{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = call(ctx, c, "page", "{}")
	var status *StatusError
	if !errors.As(err, &status) || status.Status != 400 || !strings.Contains(err.Error(), "the amount is below zero") || Broken(err) {
		t.Errorf("%v", err)
	}
	if calls.Load() != 1 || handshakes.Load() != 1 {
		t.Errorf("%d calls, %d handshakes", calls.Load(), handshakes.Load())
	}
	if _, err = call(ctx, c, "session", "{}"); !errors.Is(err, ErrSessionLost) {
		t.Errorf("%v", err)
	}
}

// A tower of brackets is told as such: those who read it recurse, and 20 MB of it
// would take more stack than a Go program may have.
func TestDeepAnswers(t *testing.T) {
	deep := func(levels int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":{"a":`, w.Header().Get("X-Id"))
			_, _ = io.WriteString(w, strings.Repeat("[", levels)+strings.Repeat("]", levels)+"}}}")
		}
	}
	ctx := badtest.Within(t, 120*time.Second)
	url, _, _ := sessions(t, map[string]http.HandlerFunc{"flat": deep(900), "deep": deep(5000), "deepest": deep(10_000_000)})
	c, err := Connect(ctx, Target{Name: "h", URL: url, Log: quietLog()}, Events{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, name := range []string{"deep", "deepest"} {
		var answer *AnswerError
		if _, err := call(ctx, c, name, "{}"); !errors.As(err, &answer) || !strings.Contains(err.Error(), "deeper than 1000 levels") || Broken(err) {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	if _, err := call(ctx, c, "flat", "{}"); err != nil {
		t.Errorf("%v", err)
	}
	for raw, want := range map[string]bool{
		`{"a":"` + strings.Repeat("[", 5000) + `"}`: false, `{"a":"\"` + strings.Repeat("[", 5000) + `"}`: false, strings.Repeat("[]", 5000): false,
		strings.Repeat("[", maxDepth): false, strings.Repeat(`{"a":`, maxDepth+1): true, `"`: false, "": false,
	} {
		if got := tooDeep([]byte(raw)); got != want {
			t.Errorf("%.40s: %v", raw, got)
		}
	}
}

// Of a line that is too long only its beginning is known, whatever that is.
func TestLinesThatAreTooLong(t *testing.T) {
	for name, begin := range map[string]string{"blank": "   ", "spaces": strings.Repeat(" ", 5000), "array": "[", "text": "hello", "tabs": "\t\t", "a message": `{"jsonrpc"`} {
		m := &messages{log: quietLog(), flow: newFlow(), answer: func(json.RawMessage) {}}
		src := io.MultiReader(strings.NewReader(begin), io.LimitReader(blanks{}, maxMessage+10), strings.NewReader("\n"+`{"jsonrpc":"2.0","id":1,"result":{}}`+"\n"))
		var out bytes.Buffer
		err := m.copy(&out, src)
		if long := name == "a message"; long != errors.Is(err, errTooLong) || (!long && (m.noise().Lines != 1 || !strings.Contains(out.String(), `"id":1`))) {
			t.Errorf("%s: %v, %+v, %.100q", name, err, m.noise(), out.String())
		}
	}
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// The address that is dialled is checked, over each transport, and not one packet
// goes to it.
func TestOnlyAllowedAddressesAreDialled(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var dialled atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			c.Close()
		}
	}()
	refused := errors.New("this address is private")
	var asked []string
	for _, kind := range []string{Auto, HTTP, SSE} {
		for _, host := range []string{"127.0.0.1", "localhost"} {
			_, port, err := net.SplitHostPort(l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, err = Connect(badtest.Within(t, 20*time.Second), Target{Name: "h", Transport: kind, URL: "http://" + host + ":" + port + "/mcp", Log: quietLog(),
				AllowAddr: func(a netip.AddrPort) error { asked = append(asked, a.String()); return refused }}, Events{})
			if err == nil || !strings.Contains(err.Error(), refused.Error()) {
				t.Errorf("%s to %s: %v", kind, host, err)
			}
		}
	}
	if dialled.Load() != 0 || len(asked) == 0 {
		t.Errorf("%d connections were made; asked about %v", dialled.Load(), asked)
	}
}
