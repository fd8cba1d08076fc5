package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

const (
	maxLine     = 8 << 20 // bytes of one message; a larger one is refused and skipped
	maxInFlight = 128     // requests of one client at a time
	farewell    = 5 * time.Second
)

// conn is one client on a pair of streams, newline-delimited JSON-RPC.
type conn struct {
	lib    *server.MCPServer
	client *client
	in     *bufio.Reader

	write sync.Mutex
	out   io.Writer

	slots   chan struct{}
	running sync.WaitGroup

	nextID  atomic.Int64
	mu      sync.Mutex
	pending map[string]chan answered // our own requests to the client
}

type answered struct {
	result json.RawMessage
	err    error
}

// serve reads messages until the input ends or ctx does. What is in flight when
// the input ends gets a moment to answer.
func (c *conn) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = c.lib.WithContext(ctx, c.client)
	notified := make(chan struct{})
	go func() {
		defer close(notified)
		for {
			select {
			case n := <-c.client.notify:
				if err := c.send(n); err != nil {
					cancel() // nobody reads any more
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	err := c.read(ctx)
	done := make(chan struct{})
	go func() {
		c.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(farewell):
		cancel()
		<-done
	case <-ctx.Done():
		<-done
	}
	cancel()
	<-notified
	return err
}

func (c *conn) read(ctx context.Context) error {
	lines := make(chan []byte)
	failed := make(chan error, 1)
	go func() { // ends with the stream, which its owner closes
		defer close(lines)
		for {
			line, err := readLine(c.in)
			if len(line) > 0 {
				select {
				case lines <- line:
				case <-ctx.Done():
					return
				}
			}
			if errors.Is(err, errTooLong) {
				err = c.send(rpcError(nil, mcp.INVALID_REQUEST, fmt.Sprintf("a message has at most %d bytes", maxLine)))
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line, ok := <-lines:
			if !ok {
				if err := <-failed; !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
					return err
				}
				return nil
			}
			if err := c.message(ctx, line); err != nil {
				return err
			}
		}
	}
}

var errTooLong = errors.New("message too long")

// readLine reads one line of at most maxLine bytes and skips the rest of a longer one.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			tooLong, line = true, nil
		}
		if !tooLong {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if tooLong && err == nil {
			err = errTooLong
		}
		for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
			line = line[:len(line)-1]
		}
		return line, err
	}
}

// message handles one message. Requests run beside each other; notifications
// and answers are taken in order.
func (c *conn) message(ctx context.Context, line []byte) error {
	if !gjson.ValidBytes(line) {
		return c.send(rpcError(nil, mcp.PARSE_ERROR, "the message is not JSON"))
	}
	m := gjson.ParseBytes(line)
	if !m.IsObject() {
		return c.send(rpcError(nil, mcp.INVALID_REQUEST, "one JSON-RPC object a line"))
	}
	id, method := m.Get("id"), m.Get("method")
	switch {
	case !method.Exists() && id.Exists():
		c.answer(m)
		return nil
	case !id.Exists():
		c.lib.HandleMessage(ctx, line)
		return nil
	}
	select {
	case c.slots <- struct{}{}:
	default:
		return c.send(rpcError(json.RawMessage(id.Raw), mcp.INTERNAL_ERROR, fmt.Sprintf("more than %d requests at once", maxInFlight)))
	}
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		defer func() { <-c.slots }()
		// A client that is gone shows at the next read; nobody is left to tell.
		_ = c.send(c.request(ctx, line, id.Raw))
	}()
	return nil
}

// request runs one request through the library and splices in what the handlers
// left for it as bytes.
func (c *conn) request(ctx context.Context, line []byte, id string) (response any) {
	defer func() {
		if p := recover(); p != nil {
			response = rpcError(json.RawMessage(id), mcp.INTERNAL_ERROR, "the host failed on this request")
			c.client.core.Log.Error("an MCP request panicked", "panic", p)
		}
	}()
	x := &exchange{message: line, splice: map[string]json.RawMessage{}}
	answer := c.lib.HandleMessage(context.WithValue(ctx, exchangeKey{}, x), line)
	raw, err := json.Marshal(answer)
	if err != nil {
		return rpcError(json.RawMessage(id), mcp.INTERNAL_ERROR, "the answer could not be written: "+err.Error())
	}
	if gjson.GetBytes(raw, "result").Exists() {
		for key, value := range x.splice {
			if value == nil {
				raw, err = sjson.DeleteBytes(raw, "result."+key)
			} else {
				raw, err = sjson.SetRawBytes(raw, "result."+key, value)
			}
			if err != nil {
				return rpcError(json.RawMessage(id), mcp.INTERNAL_ERROR, "the answer could not be written: "+err.Error())
			}
		}
	}
	return json.RawMessage(raw)
}

// exchange travels with a request: its bytes in, and the parts of its result
// that go out as bytes (nil takes the key out).
type exchange struct {
	message []byte
	splice  map[string]json.RawMessage
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{splice: map[string]json.RawMessage{}}
}

func rpcError(id json.RawMessage, code int, message string) any {
	if id == nil {
		id = json.RawMessage("null")
	}
	return map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message}}
}

func (c *conn) send(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.write.Lock()
	defer c.write.Unlock()
	_, err = c.out.Write(append(raw, '\n'))
	return err
}

// ask sends a request of our own to the client and waits for its answer.
func (c *conn) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	id := fmt.Sprintf("host-%d", c.nextID.Add(1))
	ch := make(chan answered, 1)
	c.mu.Lock()
	c.pending[id] = ch
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()
	if err := c.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	select {
	case a := <-ch:
		return a.result, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *conn) answer(m gjson.Result) {
	c.mu.Lock()
	ch := c.pending[m.Get("id").String()]
	c.mu.Unlock()
	if ch == nil {
		return // late or never asked
	}
	a := answered{result: json.RawMessage(m.Get("result").Raw)}
	if e := m.Get("error"); e.Exists() {
		a.err = fmt.Errorf("the client answered: %.300s", e.Get("message").String())
	}
	select {
	case ch <- a:
	default: // answered twice
	}
}
