package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// heartbeat is how often a client that waits for an answer hears that it waits.
const heartbeat = 10 * time.Second

// callTool runs one tools/call, of whichever tool the message named.
func (d *door) callTool(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	x := exchangeOf(ctx)
	empty := &mcp.CallToolResult{Content: []mcp.Content{}}
	params := x.params
	var before map[string]bool
	if x.peer != nil {
		before = x.peer.session.Active()
	}
	reply, err := d.run(ctx, x, call.Request{Tool: params.Get("name").Str, Arguments: []byte(params.Get("arguments").Raw)})
	if err != nil || reply == nil {
		return empty, err
	}
	if f := reply.Result.Error; f != nil && f.Ref == string(fault.UnknownTool) {
		x.failure = &rpcFailure{code: mcp.INVALID_PARAMS, message: f.Message}
		return empty, nil
	}
	if hint := activated(before, x.peer.session.Active()); hint != "" && !reply.Result.IsError {
		reply.Result.Content = append(slices.Clone(reply.Result.Content), call.Text(hint).Content...)
	}
	return d.finish(x, reply)
}

// activated says how to reach what a call activated: many clients never ask for
// their list again, and a list of 2026-07-28 does not change.
func activated(before, after map[string]bool) string {
	var names []string
	for name := range after {
		if !before[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("Now at hand: %s. What your tool list does not show is called with %s(name, arguments).", strings.Join(names, ", "), call.CallTool)
}

// run takes one request of a client through the pipeline, with all that may
// happen on the way: answers it brings, questions it meets, progress, logs. A nil
// reply means that the exchange has its answer already.
func (d *door) run(ctx context.Context, x *exchange, req call.Request) (*call.Reply, error) {
	if x.peer == nil {
		return nil, errNoPeer
	}
	params := x.params
	meta := params.Get("_meta")
	modern := server.IsModernRequest(ctx)
	caps := capabilities(ctx)
	if err := d.takeAnswers(ctx, x); err != nil {
		x.failure = &rpcFailure{code: mcp.INVALID_PARAMS, message: err.Error()}
		return nil, nil
	}
	token, err := progressToken(meta)
	if err != nil {
		x.failure = &rpcFailure{code: mcp.INVALID_PARAMS, message: err.Error()}
		return nil, nil
	}
	req.Caller = d.caller(x.peer, meta)
	req.Hold = d.core.Hold
	req.LogLevel = string(logLevel(ctx))
	req.TraceParent = meta.Get("traceparent").Str
	req.CanElicit = caps.Elicitation != nil
	req.Capable = func(kind string) bool { return canAsk(caps, kind) }
	asks := askable(x.peer.agent, caps)
	switch {
	case modern && (caps.Elicitation != nil || caps.Sampling != nil || caps.Roots != nil):
		req.Hold = 0 // this era asks by its result, not while it waits
	case !modern && x.peer.ask != nil:
		req.Asked = func(ctx context.Context, questions []store.Question) { d.elicit(ctx, x.peer, asks(questions)) }
	}
	stop := events(&req, x.peer.send, token, wants(ctx, modern))
	reply := d.core.Pipeline.Call(ctx, req)
	for range wire.MaxRounds {
		// Answers that came with a requestState were for that call's questions.
		if !modern || params.Get("requestState").Exists() || !d.brought(ctx, x.peer.agent, asks(reply.Questions), params.Get("inputResponses")) {
			break
		}
		reply = d.core.Pipeline.Call(ctx, req) // the answers came along with the question
	}
	stop()
	if f := reply.Result.Error; modern && f != nil && f.Ref == string(fault.NoAnswerer) {
		x.failure = &rpcFailure{code: mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, message: f.Message, status: http.StatusBadRequest,
			data: map[string]any{"requiredCapabilities": missing(caps)}}
		return nil, nil
	}
	if modern && d.inputRequired(x, reply.Questions, asks(reply.Questions)) {
		return nil, nil
	}
	return reply, nil
}

// maxToken is how long a client's progress token may be, in bytes of JSON: it comes
// back in every notice.
const maxToken = 256

// progressToken is the client's, a string or an integer; null is none.
func progressToken(meta gjson.Result) (gjson.Result, error) {
	token := meta.Get("progressToken")
	whole := token.Type == gjson.Number && !strings.ContainsAny(token.Raw, ".eE")
	switch {
	case !token.Exists(), token.Type == gjson.Null:
		return gjson.Result{}, nil
	case token.Type != gjson.String && !whole, len(token.Raw) > maxToken:
		return token, fmt.Errorf("_meta.progressToken is a string or an integer of at most %d bytes, not %.40s", maxToken, token.Raw)
	}
	return token, nil
}

// missing are the capabilities by which a client could be asked and that it lacks.
func missing(caps mcp.ClientCapabilities) map[string]any {
	out := map[string]any{}
	for name, kind := range map[string]string{"elicitation": "form", "sampling": "model", "roots": "roots"} {
		if !canAsk(caps, kind) {
			out[name] = struct{}{}
		}
	}
	return out
}

// caller is who calls, as the request's metadata may narrow it.
func (d *door) caller(p *peer, meta gjson.Result) call.Caller {
	c := call.Caller{Agent: p.agent, Session: p.session, Run: p.session.ID, ModelTier: p.agent.ModelTier, Door: "mcp"}
	if run := meta.Get(`dev\.bulkhead/run`); run.Type == gjson.String && len(run.Str) <= 128 && run.Str != "" {
		c.Run = run.Str
	}
	switch tier := meta.Get(`dev\.bulkhead/model_tier`).Str; tier {
	case "low", "balanced", "high":
		c.ModelTier = tier
	}
	return c
}

func capabilities(ctx context.Context) mcp.ClientCapabilities {
	if p := exchangeOf(ctx).peer; p != nil && p.known != nil {
		return p.known.caps
	}
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern {
		if info.ClientCapabilities != nil {
			return *info.ClientCapabilities
		}
		return mcp.ClientCapabilities{}
	}
	if s, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok {
		return s.GetClientCapabilities()
	}
	return mcp.ClientCapabilities{}
}

// logLevel is the least level the client wants to hear; empty is none.
func logLevel(ctx context.Context) mcp.LoggingLevel {
	if p := exchangeOf(ctx).peer; p != nil && p.known != nil {
		return p.known.level
	}
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern {
		return info.LogLevel
	}
	if s, ok := server.ClientSessionFromContext(ctx).(server.SessionWithLogging); ok {
		return s.GetLogLevel()
	}
	return ""
}

// wants says which log lines go to the client.
func wants(ctx context.Context, modern bool) func(level string) bool {
	least := logLevel(ctx)
	return func(level string) bool {
		have, ok := levels[level]
		if !ok || (modern && least == "") {
			return false
		}
		return have >= levels[string(least)]
	}
}

// eventQueue is how many events of a call wait for a client that reads slowly;
// what is more is dropped.
const eventQueue = 512

// events wires progress and logs of a call to the client. A client that does not
// read must not hold up the plugin, so they wait in a queue; stop writes what is
// left of it, so that none comes after the result. While the call waits the client
// hears so from time to time.
func events(req *call.Request, send func(any) error, token gjson.Result, wants func(string) bool) (stop func()) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var queue chan any
	last, done := 0.0, false
	tell := func(method string, params map[string]any) { // mu is held
		if done {
			return
		}
		if queue == nil {
			queue = make(chan any, eventQueue)
			wg.Go(func() {
				for m := range queue {
					_ = send(m) // a client that can't be written to shows at the answer
				}
			})
		}
		select {
		case queue <- map[string]any{"jsonrpc": "2.0", "method": method, "params": params}:
		default:
		}
	}
	progress := func(p, total float64, message string) {
		if !token.Exists() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		last = max(last, p) // the protocol wants it to grow
		params := map[string]any{"progressToken": json.RawMessage(token.Raw), "progress": last}
		if total > 0 {
			params["total"] = total
		}
		if message != "" {
			params["message"] = message
		}
		tell("notifications/progress", params)
	}
	req.Events = func(e *pluginv1.InvokeEvent) {
		switch ev := e.Event.(type) {
		case *pluginv1.InvokeEvent_Progress:
			progress(ev.Progress.Progress, ev.Progress.Total, ev.Progress.Message)
		case *pluginv1.InvokeEvent_Log:
			data := content.Valid(ev.Log.Data)
			if data == nil || !wants(ev.Log.Level) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			tell("notifications/message", map[string]any{"level": ev.Log.Level, "logger": ev.Log.Logger, "data": data})
		}
	}
	ended := make(chan struct{})
	if token.Exists() {
		wg.Go(func() {
			ticker := time.NewTicker(heartbeat)
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
					progress(0, 0, "still running")
				case <-ended:
					return
				}
			}
		})
	}
	return func() {
		mu.Lock()
		done = true
		if queue != nil {
			close(queue)
		}
		mu.Unlock()
		close(ended)
		wg.Wait()
	}
}

var levels = map[string]int{"debug": 0, "info": 1, "notice": 2, "warning": 3, "error": 4, "critical": 5, "alert": 6, "emergency": 7}

// finish turns a reply into the answer; what a plugin sent goes in as bytes.
func (d *door) finish(x *exchange, reply *call.Reply) (*mcp.CallToolResult, error) {
	r := reply.Result
	blocks := content.Blocks(r.Content)
	if d.core.Media != nil && x.peer != nil {
		blocks = append(blocks, d.core.Media(d.agent(), x.peer.session.ID, reply.Tool, r)...)
	}
	x.splice["content"] = content.List(blocks)
	if s := content.Valid(r.Structured); s != nil {
		x.splice["structuredContent"] = s
	}
	meta := resultMeta{CallID: reply.CallID, Questions: ids(reply.Questions)}
	if r.Error != nil {
		meta.Error = &errorMeta{Code: r.Error.Code, Retryable: r.Error.Retryable, Ref: r.Error.Ref}
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	if own := content.Valid(r.Meta); own != nil {
		raw = content.Join(foreign(own), raw)
	}
	x.splice["_meta"] = raw
	return &mcp.CallToolResult{Content: []mcp.Content{}, IsError: r.IsError}, nil
}

// foreign is a plugin's metadata, which is JSON, without the names that are the
// host's to use.
func foreign(meta json.RawMessage) json.RawMessage {
	return content.Without(meta, func(name string) bool { return strings.HasPrefix(name, "dev.bulkhead/") })
}

// resultMeta is what the host says of a call in its result's _meta.
type resultMeta struct {
	CallID    string     `json:"dev.bulkhead/call_id"`
	Error     *errorMeta `json:"dev.bulkhead/error,omitempty"`
	Questions []string   `json:"dev.bulkhead/questions,omitempty"`
}

type errorMeta struct {
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`
	Ref       string `json:"ref"`
}

func ids(questions []store.Question) []string {
	out := make([]string, len(questions))
	for i, q := range questions {
		out[i] = q.ID
	}
	return out
}
