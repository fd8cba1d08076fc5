package downstream

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// The bridge and a worker exchange frames over two pipes: a small header, and
// beside it the bytes of a message as they are, so that nothing is rewritten on
// the way.

// Kinds of frames.
const (
	toConnect  = "connect"  // → where the server is
	toRequest  = "request"  // → Text is the method
	toCancel   = "cancel"   // → nobody waits any more
	toNotify   = "notify"   // → Text is the method
	toAnswer   = "answer"   // → to what the server asked
	fromReady  = "ready"    // ← what the server is
	fromFailed = "failed"   // ← it can't be connected to
	fromResult = "result"   // ← of a request
	fromStep   = "progress" // ← of a request
	fromChange = "changed"  // ← Text says what
	fromUpdate = "updated"  // ← Text is a URI
	fromAsk    = "ask"      // ← the server asks, perhaps in the stream of request Call
	fromNoise  = "noise"    // ← stray lines on stdout
	fromLog    = "log"      // ← Text is the level
	fromEnded  = "ended"    // ← the connection is over
)

type frame struct {
	Kind   string      `json:"k"`
	ID     uint64      `json:"i,omitempty"`
	Text   string      `json:"t,omitempty"`
	Steps  bool        `json:"p,omitempty"` // progress is wanted
	Tasks  bool        `json:"x,omitempty"` // it may become a task
	Call   uint64      `json:"c,omitempty"`
	Tool   string      `json:"n,omitempty"`
	Schema []byte      `json:"s,omitempty"` // of the tool, where parameters travel in headers
	Done   float64     `json:"d,omitempty"`
	Total  float64     `json:"o,omitempty"`
	Err    *frameError `json:"e,omitempty"`
	Body   []byte      `json:"-"`
}

const maxHeader = 4 << 20

type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *frameWriter) send(f frame) error {
	head, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if len(head) > maxHeader || len(f.Body) > maxMessage {
		return fmt.Errorf("a message of %d bytes", len(head)+len(f.Body))
	}
	out := make([]byte, 8, 8+len(head)+len(f.Body))
	binary.BigEndian.PutUint32(out, uint32(len(head)))
	binary.BigEndian.PutUint32(out[4:], uint32(len(f.Body)))
	out = append(append(out, head...), f.Body...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if d, ok := w.w.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = d.SetWriteDeadline(time.Now().Add(writeTime)) // pipes take deadlines
	}
	_, err = w.w.Write(out)
	return err
}

func readFrame(r io.Reader) (frame, error) {
	var sizes [8]byte
	var f frame
	if _, err := io.ReadFull(r, sizes[:]); err != nil {
		return f, err
	}
	head, body := binary.BigEndian.Uint32(sizes[:4]), binary.BigEndian.Uint32(sizes[4:])
	if head > maxHeader || body > maxMessage {
		return f, fmt.Errorf("a frame of %d and %d bytes", head, body)
	}
	raw := make([]byte, head)
	if _, err := io.ReadFull(r, raw); err != nil {
		return f, err
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return f, err
	}
	f.Body = make([]byte, body)
	_, err := io.ReadFull(r, f.Body)
	return f, err
}

// frameError is an error of this package on its way between processes.
type frameError struct {
	Kind     string        `json:"k"`
	Text     string        `json:"t,omitempty"`
	Code     int           `json:"c,omitempty"`
	Data     []byte        `json:"d,omitempty"`
	Metadata string        `json:"m,omitempty"`
	After    time.Duration `json:"a,omitempty"`
}

func packError(err error) *frameError {
	var rpc *RPCError
	var auth *AuthError
	var status *StatusError
	var answer *AnswerError
	var op *net.OpError
	switch {
	case errors.As(err, &rpc):
		return &frameError{Kind: "rpc", Text: rpc.Message, Code: rpc.Code, Data: rpc.Data}
	case errors.As(err, &auth):
		return &frameError{Kind: "auth", Code: auth.Status, Metadata: auth.Metadata}
	case errors.As(err, &status):
		return &frameError{Kind: "status", Text: status.Body, Code: status.Status, After: status.RetryAfter}
	case errors.As(err, &answer):
		return &frameError{Kind: "answer", Text: answer.Why}
	case errors.Is(err, ErrSessionLost):
		return &frameError{Kind: "lost"}
	case errors.As(err, new(*sentError)):
		return &frameError{Kind: "sent", Text: err.Error()}
	case errors.Is(err, ErrClosed), errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &op) && op.Op == "dial":
		return &frameError{Kind: "unsent", Text: err.Error()}
	case errors.Is(err, errOnceMore):
		return &frameError{Kind: "again", Text: err.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &frameError{Kind: "deadline", Text: err.Error()}
	}
	return &frameError{Kind: "other", Text: err.Error()}
}

func (e *frameError) unpack() error {
	if e == nil {
		return nil
	}
	switch e.Kind {
	case "rpc":
		return &RPCError{Code: e.Code, Message: e.Text, Data: e.Data}
	case "auth":
		return &AuthError{Status: e.Code, Metadata: e.Metadata}
	case "status":
		return &StatusError{Status: e.Code, Body: e.Text, RetryAfter: e.After}
	case "answer":
		return &AnswerError{e.Text}
	case "lost":
		return ErrSessionLost
	case "sent":
		return &sentError{errors.New(e.Text)}
	case "unsent":
		return &unsentError{e.Text}
	case "again":
		return fmt.Errorf("%w: %s", errOnceMore, e.Text)
	case "deadline":
		return &sentError{errors.New(e.Text)}
	}
	return errors.New(e.Text)
}

// unsentError is a failure before anything was sent, told by a worker.
type unsentError struct{ text string }

func (e *unsentError) Error() string   { return e.text }
func (e *unsentError) Is(t error) bool { return t == ErrClosed }

// errOnceMore says that a program ended at the newer revision's first message and
// may speak the older.
var errOnceMore = errors.New("the server ended at server/discover")
