package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
)

// direct answers a tools/call over HTTP without the library, which would read the
// message six times to find what is plain here. It reports false for whatever is
// not plain; that goes the library's way.
func (d *door) direct(out *responder, r *http.Request, m gjson.Result, x *exchange, id string) bool {
	name, request := m.Get("params.name"), m.Get("id")
	plain := m.Get("jsonrpc").Str == "2.0" && m.Get("method").Str == string(mcp.MethodToolsCall) && name.Type == gjson.String &&
		(request.Type == gjson.String || request.Type == gjson.Number) && x.peer != nil && !d.isNative(name.Str) &&
		!m.Get("params.task").Exists() && jsonBody(r)
	if !plain {
		return false
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if modernMessage(m) {
		info, ok := protocolInfo(r, m)
		if !ok {
			return false
		}
		ctx = server.WithRequestProtocolInfo(ctx, info)
		x.splice["resultType"] = complete
	} else {
		known, ok := d.ids.client(id)
		if !ok || id == "" || !spoken(r.Header.Get(mcp.HeaderProtocolVersion)) {
			return false
		}
		x.peer.known = &known
		d.open.cancelBy(id, request.Raw, cancel)
	}
	out.answer(d.plainCall(withExchange(ctx, x), x))
	return true
}

// complete marks a result of 2026-07-28 that is one.
var complete = json.RawMessage(`"` + mcp.ResultTypeComplete + `"`)

// protocolInfo is what a message of 2026-07-28 says of itself and its client; false
// where the library must tell what is wrong with it.
func protocolInfo(r *http.Request, m gjson.Result) (*server.RequestProtocolInfo, bool) {
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	meta := m.Get("params._meta")
	raw := meta.Get(`io\.modelcontextprotocol/clientCapabilities`)
	if !mcp.IsValidProtocolVersion(version) || version != m.Get(versionKey).Str || sameNames(r, m) != nil || !raw.IsObject() {
		return nil, false
	}
	level := meta.Get(`io\.modelcontextprotocol/logLevel`)
	if _, known := levels[level.Str]; level.Exists() && !known {
		return nil, false
	}
	caps := &mcp.ClientCapabilities{}
	if json.Unmarshal([]byte(raw.Raw), caps) != nil {
		return nil, false
	}
	return &server.RequestProtocolInfo{Modern: true, ProtocolVersion: version, ClientCapabilities: caps, LogLevel: mcp.LoggingLevel(level.Str)}, true
}

// plainCall runs the call and writes its whole answer.
func (d *door) plainCall(ctx context.Context, x *exchange) (answer []byte) {
	fail := func(f rpcFailure) []byte { return mustJSON(f.response(x.id)) }
	defer func() {
		if p := recover(); p != nil {
			d.core.Log.Error("an MCP request panicked", "panic", p)
			answer = fail(rpcFailure{code: mcp.INTERNAL_ERROR, message: "the host failed on this request"})
		}
	}()
	result, err := d.callTool(ctx, mcp.CallToolRequest{})
	switch {
	case x.failure != nil:
		return fail(*x.failure)
	case err != nil:
		return fail(rpcFailure{code: mcp.INTERNAL_ERROR, message: err.Error()})
	}
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":`)
	b.Write(x.id)
	b.WriteString(`,"result":`)
	sep := byte('{')
	for _, key := range []string{"resultType", "content", "structuredContent", "inputRequests", "requestState", "_meta"} {
		if part := x.splice[key]; part != nil {
			b.WriteByte(sep)
			b.WriteString(`"` + key + `":`)
			b.Write(part)
			sep = ','
		}
	}
	if result.IsError {
		b.WriteString(`,"isError":true`)
	}
	b.WriteString("}}")
	return b.Bytes()
}

func jsonBody(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	if kind == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(kind)
	return err == nil && media == "application/json"
}

// spoken says whether a version header names a version of the session era.
func spoken(version string) bool {
	return version == "" || (slices.Contains(mcp.ValidProtocolVersions, version) && !mcp.IsModernProtocol(version))
}

// answer writes a whole answer: as JSON, or as the last event of a stream.
func (o *responder) answer(raw []byte) {
	if o.before != nil {
		o.before()
		o.before = nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	// A client that left shows in the request's context; nobody is left to tell.
	if o.stream {
		_ = o.write("event: message\ndata: ", content.Line(raw), "\n\n")
		_ = o.control.Flush()
		return
	}
	o.Header().Set("Content-Type", "application/json")
	o.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	o.status = http.StatusOK
	if f := o.exchange.failure; f != nil && f.status != 0 {
		o.status = f.status
	}
	o.head()
	_ = o.write("", raw, "")
}

// known is what a client of the session era said of itself.
type known struct {
	caps  mcp.ClientCapabilities
	level mcp.LoggingLevel
}

// refresh is how often a session must pass through the library, whose own clock
// else takes it for idle.
const refresh = 10 * time.Minute
