package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
)

// exchange travels with one request: its bytes in, and the parts of its result
// that go out as bytes (nil takes the key out).
type exchange struct {
	params  gjson.Result    // of the request, as they came
	id      json.RawMessage // of the request, as it came
	peer    *peer
	splice  map[string]json.RawMessage
	failure *rpcFailure // answered instead of a result

	listening *listening // the stream this request opened
}

// rpcFailure is a JSON-RPC error; status is its HTTP status where that is not 200.
type rpcFailure struct {
	code    int
	message string
	data    any
	status  int
}

// peer is the client at the other end of one request.
type peer struct {
	agent   *policy.Agent
	session *session.Session
	known   *known // what the client said of itself, where the library is passed by
	// send writes a message of ours to the client, before the answer.
	send func(any) error
	// ask sends a request of ours and waits for the client's answer; nil when this
	// client can't be asked while it waits.
	ask func(ctx context.Context, method string, params any) (json.RawMessage, error)
	// spawn runs something that may outlive the handler but not the client.
	spawn func(func())
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{splice: map[string]json.RawMessage{}}
}

// toLibrary is the message as the library is given it: a call of any tool becomes
// a call of the one it knows.
func (d *door) toLibrary(message []byte) ([]byte, string) {
	m := gjson.ParseBytes(message)
	name := m.Get("params.name")
	if m.Get("method").Str != string(mcp.MethodToolsCall) || name.Type != gjson.String || d.isNative(name.Str) {
		return message, ""
	}
	out, err := sjson.SetBytes(message, "params.name", anyTool)
	if err != nil {
		return message, ""
	}
	return out, name.Str
}

// finish splices what the handlers left into the library's answer.
func (x *exchange) finish(answer []byte) []byte {
	id := gjson.GetBytes(answer, "id")
	if len(x.id) > 0 && id.Raw != string(x.id) { // the library reads large numbers as floats
		if spliced, err := sjson.SetRawBytes(answer, "id", x.id); err == nil {
			answer, id.Raw = spliced, string(x.id)
		}
	}
	if x.failure != nil {
		raw, err := json.Marshal(x.failure.response(json.RawMessage(id.Raw)))
		if err == nil {
			return raw
		}
	}
	if e := gjson.GetBytes(answer, "error"); e.Exists() {
		return x.named(answer, e)
	}
	if len(x.splice) == 0 || !gjson.GetBytes(answer, "result").Exists() {
		return answer
	}
	var err error
	for key, value := range x.splice {
		if value == nil {
			answer, err = sjson.DeleteBytes(answer, "result."+key)
		} else {
			answer, err = sjson.SetRawBytes(answer, "result."+key, value)
		}
		if err != nil {
			raw, _ := json.Marshal(rpcError(json.RawMessage(id.Raw), mcp.INTERNAL_ERROR, "the answer could not be written: "+err.Error())) // plain strings
			return raw
		}
	}
	return answer
}

// named says in our words what the library could not read, and which resource it is
// that was not found.
func (x *exchange) named(answer []byte, e gjson.Result) []byte {
	if text := e.Get("message").Str; strings.HasPrefix(text, "unparsable ") {
		if worded, err := sjson.SetBytes(answer, "error.message", "the request's params do not have the form that its method asks for"); err == nil {
			answer = worded
		}
	}
	code, uri := e.Get("code").Int(), x.params.Get("uri")
	if uri.Type != gjson.String || e.Get("data").Exists() ||
		code != mcp.RESOURCE_NOT_FOUND && code != mcp.INVALID_PARAMS {
		return answer
	}
	if spliced, err := sjson.SetBytes(answer, "error.data.uri", uri.Str); err == nil {
		return spliced
	}
	return answer
}

func rpcError(id json.RawMessage, code int, message string) any {
	return rpcFailure{code: code, message: message}.response(id)
}

func (f rpcFailure) response(id json.RawMessage) any {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	e := map[string]any{"code": f.code, "message": f.message}
	if f.data != nil {
		e["data"] = f.data
	}
	return rawObject{"jsonrpc": json.RawMessage(`"2.0"`), "id": id, "error": mustJSON(e)}
}

// encode writes a message on one line; what is JSON already keeps its bytes.
func encode(v any) ([]byte, error) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		return content.Marshal(v)
	}
	if line := content.Line(raw); line != nil {
		return line, nil
	}
	return nil, errors.New("the message is not JSON")
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil { // numbers and strings only
		panic(err)
	}
	return raw
}

// pending are requests of ours that clients have not answered yet.
type pending struct {
	mu   sync.Mutex
	last int
	wait map[string]chan answered
}

type answered struct {
	result json.RawMessage
	err    error
}

// ask sends a request under an id of ours, bound to owner, and waits.
func (p *pending) ask(ctx context.Context, owner, method string, params any, send func(any) error) (json.RawMessage, error) {
	ch := make(chan answered, 1)
	p.mu.Lock()
	p.last++
	id := fmt.Sprintf("host-%d", p.last)
	if p.wait == nil {
		p.wait = map[string]chan answered{}
	}
	p.wait[owner+"\x00"+id] = ch
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.wait, owner+"\x00"+id)
		p.mu.Unlock()
	}()
	if err := send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	select {
	case a := <-ch:
		return a.result, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// answer delivers a client's answer; false when nothing of ours has that id.
func (p *pending) answer(owner string, m gjson.Result) bool {
	p.mu.Lock()
	ch := p.wait[owner+"\x00"+m.Get("id").String()]
	p.mu.Unlock()
	if ch == nil {
		return false
	}
	a := answered{result: json.RawMessage(m.Get("result").Raw)}
	if e := m.Get("error"); e.Exists() {
		a.err = fmt.Errorf("the client answered: %.300s", e.Get("message").String())
	}
	select {
	case ch <- a:
	default: // answered twice
	}
	return true
}

var errNoPeer = errors.New("the request came from nobody")
