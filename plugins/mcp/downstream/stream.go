package downstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/tidwall/gjson"
)

var errTooLong = errors.New("sent a message of more than 64 MiB")

// maxCopied is how many bytes the library may copy for one event: it joins the lines
// of an event one by one.
const maxCopied = 8 << 30

// events reads a stream of server-sent events, one whole event at a time, and keeps
// what they are within the flow's bounds.
type events struct {
	body  io.ReadCloser
	br    *bufio.Reader
	flow  *flow
	asks  bool   // the library hands requests of the server on
	ready []byte // of the event, what was not given out yet
	first func(event []byte) error
	err   error
	held  []byte // the last answer to what nobody asked, until another one comes
}

func newEvents(body io.ReadCloser, f *flow, asks bool) *events {
	return &events{body: body, br: bufio.NewReaderSize(body, 16<<10), flow: f, asks: asks}
}

func (e *events) Close() error { return e.body.Close() }

func (e *events) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.ready, e.err = e.next()
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// next reads an event with the empty line at its end. The error comes with what was
// read before it.
func (e *events) next() ([]byte, error) {
	var event, data []byte
	copied := 0
	for {
		begin := len(event)
		part, err := e.br.ReadSlice('\n')
		event = append(event, part...)
		for err == bufio.ErrBufferFull && len(event) <= maxMessage {
			part, err = e.br.ReadSlice('\n')
			event = append(event, part...)
		}
		if len(event) > maxMessage {
			return nil, errTooLong
		}
		line := bytes.TrimRight(event[begin:], "\r\n")
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, text...)
			if copied += len(data); copied > maxCopied {
				return nil, errTooLong
			}
		}
		if err == nil && len(line) > 0 {
			continue
		}
		if why := e.pass(event, data); why != nil {
			return nil, why
		}
		if fitting := fit(data); len(data) > 0 && !bytes.Equal(fitting, data) {
			if fitting == nil {
				return nil, err
			}
			data = fitting
			event = fmt.Appendf(nil, "event: message\ndata: %s\n\n", bytes.ReplaceAll(fitting, []byte("\n"), []byte("\ndata: ")))
		}
		return e.sift(event, data, err)
	}
}

// sift keeps back answers to what was never asked: the library takes the first answer
// for the one it waits for. When none comes after it, it is given out at the end.
func (e *events) sift(event, data []byte, err error) ([]byte, error) {
	if len(data) > 0 && !bytes.Contains(data, []byte(`"method"`)) {
		id := gjson.GetBytes(data, "id")
		if id.Type != gjson.Null && (id.Type != gjson.String || !ofOurs(id.Str)) && err == nil {
			e.held = event
			return nil, nil
		}
		e.held = nil
	}
	if err != nil && e.held != nil {
		event, e.held = append(e.held, event...), nil
	}
	return event, err
}

func (e *events) pass(event, data []byte) error {
	if first := e.first; first != nil {
		e.first = nil
		if err := first(event); err != nil {
			return err
		}
	}
	if err := e.flow.message(1); err != nil {
		return err
	}
	if e.asks && isRequest(data) {
		if err := e.flow.room(); err != nil {
			return err
		}
		e.flow.ask()
	}
	return nil
}
