package downstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tidwall/gjson"
)

// poster sends the requests of a connection over Streamable HTTP that are many:
// calls of tools. The library writes and reads each message by way of its own
// types; what is plain here, an answer in JSON that holds a result, is taken as the
// bytes it is. Every other answer is handed to the library as if it had asked.
type poster struct {
	tr   *transport.StreamableHTTP
	http *tripper
	url  *url.URL
}

func (p *poster) send(ctx context.Context, c *Conn, req transport.JSONRPCRequest, id string, params json.RawMessage) (*transport.JSONRPCResponse, error) {
	if !gjson.ValidBytes(params) {
		return p.tr.SendRequest(ctx, req) // which tells what is wrong
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	resp, err := p.http.send(p.request(ctx, c, req, id, params))
	if err != nil {
		return nil, err
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if resp.StatusCode == http.StatusOK && strings.TrimSpace(kind) == "application/json" {
		body, err := bodyOf(resp)
		if err != nil {
			return nil, err
		}
		if tooDeep(body) {
			return nil, &AnswerError{fmt.Sprintf("it is nested deeper than %d levels", maxDepth)}
		}
		if result := resultIn(body, id); result != nil {
			return &transport.JSONRPCResponse{ID: req.ID, Result: result}, nil
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	return p.tr.SendRequest(context.WithValue(ctx, receivedKey{}, &received{resp: resp}), req)
}

// request is the HTTP request that the library would make.
func (p *poster) request(ctx context.Context, c *Conn, req transport.JSONRPCRequest, id string, params json.RawMessage) *http.Request {
	body := make([]byte, 0, len(params)+len(req.Method)+len(id)+64)
	body = append(body, `{"jsonrpc":"2.0","id":"`...)
	body = append(append(body, id...), `","method":"`...)
	body = append(append(body, req.Method...), `","params":`...)
	body = append(append(body, params...), '}')
	h := req.Header.Clone()
	if h == nil {
		h = make(http.Header, 6)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	if session := p.tr.GetSessionId(); session != "" && !c.modern() {
		h.Set(transport.HeaderKeySessionID, session)
	}
	if c.Info.Version != "" {
		h.Set(mcp.HeaderProtocolVersion, c.Info.Version)
	}
	r := &http.Request{Method: http.MethodPost, URL: p.url, Host: p.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }}
	setHeaders(r, p.http.headers)
	return r.WithContext(ctx)
}

// resultIn is the result in an answer to the request id; nil when it is no plain
// answer to it.
func resultIn(body []byte, id string) json.RawMessage {
	if !gjson.ValidBytes(body) {
		return nil
	}
	m := gjson.ParseBytes(body)
	if !m.IsObject() {
		return nil
	}
	var result, asked, failure gjson.Result
	m.ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "result":
			result = value
		case "id":
			asked = value
		case "error":
			failure = value
		}
		return true
	})
	if asked.Str != id || failure.Exists() || !result.IsObject() || result.Index <= 0 {
		return nil
	}
	return body[result.Index : result.Index+len(result.Raw)]
}

// maxDepth is how deep JSON of a server may nest. The host takes no deeper, and those
// who read it recurse: a megabyte of brackets is a stack of gigabytes.
const maxDepth = 1000

// tooDeep reports whether JSON, which may be none, nests deeper than maxDepth.
func tooDeep(raw []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// received is an answer that was had before the library asks for it.
type received struct {
	resp  *http.Response
	taken atomic.Bool
}

type receivedKey struct{}

// receivedFor gives the answer that is there for a request, once.
func receivedFor(req *http.Request) *http.Response {
	r, ok := req.Context().Value(receivedKey{}).(*received)
	if !ok || r.taken.Swap(true) {
		return nil
	}
	return r.resp
}
