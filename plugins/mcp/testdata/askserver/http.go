package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
)

// http serves the newer era over HTTP; its tasks outlive its clients.
func (s *server) http(addr string) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		if m.Method == "tasks/get" || m.Method == "tasks/update" || m.Method == "tasks/cancel" {
			var p struct {
				ID string `json:"taskId"`
			}
			_ = json.Unmarshal(m.Params, &p) // an unknown id fits no header
			if r.Header.Get("Mcp-Name") != p.ID {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"Mcp-Name is not the task"}}`, m.ID)
				return
			}
		}
		if m.Method == "subscriptions/listen" {
			s.stream(w, r, m)
			return
		}
		result, code, text := s.answer(m)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case len(m.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
		case code != 0:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, m.ID, code, quote(text))
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
	}))
}

// stream keeps a subscription open and sends on it what changes.
func (s *server) stream(w http.ResponseWriter, r *http.Request, m message) {
	w.Header().Set("Content-Type", "text/event-stream")
	events := make(chan string, 16)
	s.mu.Lock()
	s.subs, s.events = m.ID, events
	s.mu.Unlock()
	fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s},\"notifications\":{\"toolsListChanged\":true}}}\n\n", m.ID)
	flush := http.NewResponseController(w)
	for {
		_ = flush.Flush() // a client that is gone shows below
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", e)
		}
	}
}
