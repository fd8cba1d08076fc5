package mcpserver

import (
	"bytes"
	"net/http"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
)

// responder writes the answer of one POST. The library writes through it; what
// handlers left as bytes is spliced in on the way, and messages of ours go out
// before the answer, for which the answer becomes a stream.
type responder struct {
	http.ResponseWriter
	control  *http.ResponseController
	exchange *exchange
	before   func() // runs once, right before the answer

	mu     sync.Mutex
	status int
	stream bool
}

// Unwrap lets the response controller reach the connection.
func (o *responder) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// WriteHeader waits for the first byte: until then it is not known whether the
// answer is a stream.
func (o *responder) WriteHeader(status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.status == 0 {
		o.status = status
	}
	if o.exchange == nil || status != http.StatusOK {
		o.head()
	}
}

// head sends status and headers once.
func (o *responder) head() {
	if o.stream {
		return
	}
	if strings.HasPrefix(o.Header().Get("Content-Type"), "text/event-stream") {
		o.stream = true
	}
	o.ResponseWriter.WriteHeader(o.status)
}

// event sends a message of ours; the answer is a stream from then on.
func (o *responder) event(v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.upgrade()
	if err := o.write("event: message\ndata: ", raw, "\n\n"); err != nil {
		return err
	}
	return o.control.Flush()
}

func (o *responder) upgrade() {
	if o.stream {
		return
	}
	h := o.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Del("Content-Length")
	o.status = http.StatusOK
	o.head()
}

func (o *responder) write(before string, raw []byte, after string) error {
	for _, part := range [][]byte{[]byte(before), raw, []byte(after)} {
		if len(part) == 0 {
			continue
		}
		if _, err := o.ResponseWriter.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Write takes what the library writes: a JSON body in one piece, or one event of
// a stream.
func (o *responder) Write(p []byte) (int, error) {
	if o.exchange == nil {
		return o.ResponseWriter.Write(p)
	}
	before, data, after := cut(p)
	answer := gjson.GetBytes(data, "id").Exists() && !gjson.GetBytes(data, "method").Exists()
	if answer {
		if o.before != nil {
			o.before()
			o.before = nil
		}
		data = o.exchange.finish(bytes.TrimRight(data, "\n"))
	} else if l := o.exchange.listening; l != nil && len(data) > 0 {
		data = l.out(data)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.status == 0 {
		o.status = http.StatusOK
	}
	switch {
	case o.stream && before == "" && len(data) > 0: // the library does not know that this became a stream
		before, data, after = "event: message\ndata: ", content.Line(data), "\n\n"
	case o.stream:
		data = content.Line(data) // an event's data has no line ends of its own
	case !o.stream:
		if f := o.exchange.failure; answer && f != nil && f.status != 0 {
			o.status = f.status
		}
		o.head()
	}
	return len(p), o.write(before, data, after)
}

// cut takes an event apart; what is no event is all data.
func cut(p []byte) (before string, data []byte, after string) {
	if !bytes.HasPrefix(p, []byte("event:")) && !bytes.HasPrefix(p, []byte("id:")) && !bytes.HasPrefix(p, []byte("data:")) {
		return "", p, ""
	}
	head, rest, ok := bytes.Cut(p, []byte("data: "))
	if !ok {
		return "", p, ""
	}
	line, tail, _ := bytes.Cut(rest, []byte("\n"))
	return string(head) + "data: ", line, "\n" + string(tail)
}

// Flush sends what was written so far. A stream the library opens before it has
// anything to say sends its head.
func (o *responder) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.exchange != nil && !o.stream {
		if o.status == 0 || !strings.HasPrefix(o.Header().Get("Content-Type"), "text/event-stream") {
			return
		}
		o.head()
	}
	_ = o.control.Flush() // a reader that left shows at the next write
}
