package httpapi

import (
	"net/http"
	"time"
)

const (
	writeTime = 30 * time.Second // of one write; an answer as a whole has none
	writeStep = 64 << 10         // bytes of one write
	beatTime  = 15 * time.Second // between signs of life on a stream
)

// paced gives every write of an answer a deadline of its own, so that a reader
// that stops reading is dropped, and one that is only slow is not.
func paced(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &pacer{ResponseWriter: w, control: http.NewResponseController(w)}
		p.extend()
		defer p.extend() // what the server itself still has to send
		h.ServeHTTP(p, r)
	})
}

type pacer struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Unwrap lets response controllers reach the connection.
func (p *pacer) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *pacer) extend() {
	_ = p.control.SetWriteDeadline(time.Now().Add(writeTime)) // a hijacked connection has its own
}

func (p *pacer) WriteHeader(status int) {
	p.extend()
	p.ResponseWriter.WriteHeader(status)
}

func (p *pacer) Write(b []byte) (n int, err error) {
	for {
		p.extend()
		step := b[:min(len(b), writeStep)]
		m, err := p.ResponseWriter.Write(step)
		n += m
		if b = b[len(step):]; err != nil || len(b) == 0 {
			return n, err
		}
	}
}

// Flush sends what was written so far.
func (p *pacer) Flush() {
	p.extend()
	_ = p.control.Flush() // a reader that left shows at the next write
}
