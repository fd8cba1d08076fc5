package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
)

func (s *server) linkNow() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link
}

func echoWithin(s *server, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_, err := s.converse(ctx, &exchange{method: "tools/call", params: toolParams("echo", json.RawMessage(`{}`)), asking: &asking{what: "echo"}})
	return err
}

// A server that answers nothing any more is started anew, in the bridge and by way of
// a worker, and its status says why; the calls that it still runs end over the old
// connection, each once.
func TestAServerThatHangsIsRenewed(t *testing.T) {
	for _, isolation := range []string{"shared", "server"} {
		t.Run(isolation, func(t *testing.T) {
			b := newBridge()
			block := bad(t, "bad", "storm")
			block["isolation"], block["tool_timeout"] = isolation, "60s"
			s := startBridge(t, b, block)
			ending(t, s)
			awaitTool(t, s, "bad__storm")
			srv, err := b.find("bad")
			if err != nil {
				t.Fatal(err)
			}
			old := srv.linkNow()
			slept := make(chan string, 8)
			for range 8 {
				go func() { slept <- s.Call("bad__sleep", `{"ms":6000}`).Text }()
			}
			badtest.Await(t, "eight calls to run", func() bool { return strings.Count(s.Call("bad__log", "{}").Text, "bulkhead-") >= 9 })
			s.Call("bad__storm", `{"deaf":true}`)
			if err := echoWithin(srv, 300*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%v", err)
			}
			badtest.Await(t, "another connection", func() bool { l := srv.linkNow(); return l != nil && l != old })
			if err := echoWithin(srv, 10*time.Second); err != nil {
				t.Error(err)
			}
			for range 8 {
				if text := <-slept; text != "slept" {
					t.Errorf("%q", text)
				}
			}
			if note := services(t, s)["bad"].Note; !strings.Contains(note, "made anew at") || !strings.Contains(note, "nor had a ping within 3s") {
				t.Errorf("%q", note)
			}
		})
	}
}

// A slow tool costs no connection where the server answers otherwise.
func TestASlowToolKeepsItsConnection(t *testing.T) {
	b := newBridge()
	block := bad(t, "bad")
	block["tool_timeout"] = "1s"
	s := startBridge(t, b, block, conf{"name": "h", "url": badtest.HTTP(t), "tool_timeout": "1s"})
	ending(t, s)
	for _, name := range []string{"bad", "h"} {
		awaitTool(t, s, name+"__sleep")
		srv, err := b.find(name)
		if err != nil {
			t.Fatal(err)
		}
		old := srv.linkNow()
		s.Call(name+"__sleep", `{"ms":1500}`).WantError("timeout", "1s")
		if !srv.answers(t.Context(), old) || srv.linkNow() != old || services(t, s)[name].Note != "" {
			t.Errorf("%s: the connection was given up", name)
		}
	}
}

// A program that closes its stdout and lives on is started anew.
func TestAServerThatClosesItsStdout(t *testing.T) {
	for _, isolation := range []string{"shared", "server"} {
		block := bad(t, "bad", "storm")
		block["isolation"], block["tool_timeout"] = isolation, "2s"
		s := start(t, nil, block)
		awaitTool(t, s, "bad__hush")
		if r := s.Call("bad__hush", "{}"); r.Code == "" { // what holds the walls may keep the pipe open
			t.Errorf("%s: %+v", isolation, r)
		}
		badtest.Await(t, "an answer", func() bool { return strings.Contains(s.Call("bad__echo", "{}").Text, "echo") })
	}
}
