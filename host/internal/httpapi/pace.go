package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

const (
	writeTime = 30 * time.Second // of one write; an answer as a whole has none
	writeStep = 64 << 10         // bytes of one write
	beatTime  = 15 * time.Second // between signs of life on a stream
)

// paced gives every write of an answer a deadline of its own, so that a reader
// that stops reading is dropped, and one that is only slow is not. The request's
// context ends with the first write that fails: whoever makes the answer stops.
func paced(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		base := r.Context()
		r = r.WithContext(ctx)
		p := &pacer{ResponseWriter: w, control: http.NewResponseController(w), cancel: cancel, body: watchBody(r)}
		p.extend()
		defer p.extend() // what the server itself still has to send
		h.ServeHTTP(p, r)
		p.body.finish(base, p)
	})
}

type pacer struct {
	http.ResponseWriter
	control *http.ResponseController
	cancel  context.CancelCauseFunc
	body    *unread
	begun   bool      // the header is out
	last    time.Time // when the deadline was set
}

var errReaderLeft = fault.New(fault.CallCancelled, "the reader of the answer left")

// Unwrap lets response controllers reach the connection.
func (p *pacer) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// extend gives the next write its time. One that follows at once has nearly all of
// the last one's.
func (p *pacer) extend() {
	now := time.Now()
	if now.Sub(p.last) < writeTime/30 {
		return
	}
	p.last = now
	_ = p.control.SetWriteDeadline(now.Add(writeTime)) // a hijacked connection has its own
}

// begin comes before the header.
func (p *pacer) begin() {
	if !p.begun && p.body.rest {
		p.Header().Set("Connection", "close")
	}
	p.begun = true
}

func (p *pacer) WriteHeader(status int) {
	p.extend()
	if status >= 200 {
		p.begin()
	}
	p.ResponseWriter.WriteHeader(status)
}

func (p *pacer) Write(b []byte) (n int, err error) {
	p.begin()
	for {
		p.extend()
		step := b[:min(len(b), writeStep)]
		m, err := p.ResponseWriter.Write(step)
		n += m
		if err != nil {
			p.cancel(errReaderLeft)
			return n, err
		}
		if b = b[len(step):]; len(b) == 0 {
			return n, nil
		}
	}
}

// FlushError sends what was written so far.
func (p *pacer) FlushError() error {
	p.extend()
	p.begin()
	err := p.control.Flush()
	if err != nil {
		p.cancel(errReaderLeft)
	}
	return err
}

// Flush is FlushError for those who can't use the error.
func (p *pacer) Flush() { _ = p.FlushError() }
