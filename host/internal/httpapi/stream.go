package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

const (
	ndjson      = "application/x-ndjson"
	eventStream = "text/event-stream"
)

// wants says which stream a client accepts: server-sent events, JSON lines, or
// neither.
func wants(r *http.Request) string {
	for _, kind := range []string{ndjson, eventStream} {
		for _, v := range r.Header.Values("Accept") {
			if strings.Contains(v, kind) {
				return kind
			}
		}
	}
	return ""
}

// stream writes values as they come, each flushed. Once a write fails the reader is
// gone; the request's context has then ended.
type stream struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	sse bool

	mu     sync.Mutex
	broken bool
}

// open begins a stream of the kind on w.
func open(w http.ResponseWriter, kind string) *stream {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Accel-Buffering", "no")
	return &stream{w: w, rc: http.NewResponseController(w), sse: kind == eventStream}
}

// begin sends the head before there is anything to say.
func (s *stream) begin() {
	s.w.WriteHeader(http.StatusOK)
	_ = s.rc.Flush() // a reader that left shows at the next write
}

// send writes one value. As a server-sent event it has a name, and an id unless 0.
func (s *stream) send(name string, id uint64, v any) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return
	}
	text := out.String()
	if s.sse {
		head := ""
		if id > 0 {
			head = fmt.Sprintf("id: %d\n", id)
		}
		text = head + "event: " + name + "\ndata: " + text + "\n"
	}
	s.write(text)
}

// beat shows that the host is there.
func (s *stream) beat() {
	if s.sse {
		s.write(": keep-alive\n\n")
		return
	}
	s.write("{}\n")
}

func (s *stream) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return
	}
	_, err := s.w.Write([]byte(text))
	if err == nil {
		err = s.rc.Flush()
	}
	s.broken = err != nil
}

// beats shows life until stop is called.
func (s *stream) beats(every time.Duration, beat func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				beat()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// maxStreams is how many streams one agent may have open: of events, and of its
// MCP sessions.
const maxStreams = 64

// streams counts the open streams by agent.
type streams struct {
	mu   sync.Mutex
	open map[string]int
}

// enter admits one more stream of an agent; leave gives its place back.
func (s *streams) enter(agent string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[agent] >= maxStreams {
		return nil, fault.New(fault.HostBusy, "agent %q has %d streams open; close some", agent, maxStreams)
	}
	if s.open == nil {
		s.open = map[string]int{}
	}
	s.open[agent]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[agent]--; s.open[agent] <= 0 {
			delete(s.open, agent)
		}
	}, nil
}
