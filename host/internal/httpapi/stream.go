package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/munnerz/goautoneg"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

const (
	plainJSON   = "application/json"
	ndjson      = "application/x-ndjson"
	eventStream = "text/event-stream"
)

// wants says which of kinds a client accepts best; where it likes several alike,
// the first. A client that names none of them gets the first too, unless it refused
// that in so many words.
func wants(r *http.Request, kinds ...string) (string, error) {
	header := strings.ReplaceAll(strings.Join(r.Header.Values("Accept"), ","), "\t", " ")
	ranges := goautoneg.ParseAccept(header)
	best, most := kinds[0], 0.0
	for _, kind := range kinds {
		if q, _ := liking(ranges, kind); q > most {
			best, most = kind, q
		}
	}
	if _, named := liking(ranges, best); named && most == 0 {
		return "", fault.New(fault.NotAcceptable, "served here is %s, and Accept: %.100s refuses it", strings.Join(kinds, ", "), header)
	}
	return best, nil
}

// liking is the weight of the range that fits kind most closely, if one does.
func liking(ranges []goautoneg.Accept, kind string) (q float64, named bool) {
	main, sub, _ := strings.Cut(kind, "/")
	closest := -1
	for _, r := range ranges {
		near := 0
		switch t, s := strings.ToLower(strings.TrimSpace(r.Type)), strings.ToLower(strings.TrimSpace(r.SubType)); {
		case t == main && s == sub:
			near = 2
		case t == main && s == "*":
			near = 1
		case t != "*" || s != "*":
			continue
		}
		if near > closest || near == closest && r.Q > q {
			closest, q = near, r.Q
		}
	}
	return q, closest >= 0
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
