package mcpserver

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// heartbeat is how often a client that waits for an answer hears that it waits.
const heartbeat = 10 * time.Second

// callTool runs one tools/call.
func (cl *client) callTool(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	x := exchangeOf(ctx)
	params := gjson.GetBytes(x.message, "params")
	modern := server.IsModernRequest(ctx)
	if err := cl.takeAnswers(ctx, params); err != nil {
		return cl.finish(x, &call.Reply{Result: call.Failed(err)})
	}
	req := call.Request{
		Caller:    call.Caller{Agent: cl.agent, Session: cl.session, Run: cl.session.ID, ModelTier: cl.agent.ModelTier, Door: "mcp"},
		Tool:      r.Params.Name,
		Arguments: []byte(params.Get("arguments").Raw),
		Hold:      cl.core.Hold,
		LogLevel:  string(cl.GetLogLevel()),
	}
	meta := params.Get("_meta")
	if run := meta.Get(`dev\.bulkhead/run`); run.Type == gjson.String && len(run.Str) <= 128 {
		req.Run = run.Str
	}
	switch tier := meta.Get(`dev\.bulkhead/model_tier`).Str; tier {
	case "low", "balanced", "high":
		req.ModelTier = tier
	}
	req.TraceParent = meta.Get("traceparent").Str
	req.CanElicit = cl.canElicit()

	stop := cl.events(&req, meta.Get("progressToken"))
	if req.CanElicit && modern {
		req.Hold = 0 // this era asks by its result, not while it waits
	} else if req.CanElicit {
		req.Asked = cl.elicit
	}
	reply := cl.core.Pipeline.Call(ctx, req)
	stop()
	if !modern {
		cl.listChanged() // after it is committed, before the result
	}
	if modern && req.CanElicit {
		if result := cl.inputRequired(reply.Questions); result != nil {
			return result, nil
		}
	}
	return cl.finish(x, reply)
}

// events wires progress and logs of a call to the client. They are written before
// the call returns, so none is lost before its result. While the call waits for
// an answer the client hears so from time to time; stop ends that.
func (cl *client) events(req *call.Request, token gjson.Result) (stop func()) {
	var mu sync.Mutex
	last, done := 0.0, false
	progress := func(p, total float64, message string) {
		mu.Lock()
		defer mu.Unlock()
		if !token.Exists() || done {
			return
		}
		last = max(last, p) // the protocol wants it to grow
		params := map[string]any{"progressToken": json.RawMessage(token.Raw), "progress": last}
		if total > 0 {
			params["total"] = total
		}
		if message != "" {
			params["message"] = message
		}
		// A client that can't be written to shows at the next read.
		_ = cl.conn.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
	}
	req.Events = func(e *pluginv1.InvokeEvent) {
		switch ev := e.Event.(type) {
		case *pluginv1.InvokeEvent_Progress:
			progress(ev.Progress.Progress, ev.Progress.Total, ev.Progress.Message)
		case *pluginv1.InvokeEvent_Log:
			data := content.Valid(ev.Log.Data)
			if data == nil || !cl.wants(ev.Log.Level) {
				return
			}
			_ = cl.conn.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/message",
				"params": map[string]any{"level": ev.Log.Level, "logger": ev.Log.Logger, "data": data}})
		}
	}
	ticker := time.NewTicker(heartbeat)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ticker.C:
				progress(last, 0, "still running")
			case <-ended:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(ended)
		wg.Wait()
		mu.Lock()
		done = true
		mu.Unlock()
	}
}

var levels = map[string]int{"debug": 0, "info": 1, "notice": 2, "warning": 3, "error": 4, "critical": 5, "alert": 6, "emergency": 7}

func (cl *client) wants(level string) bool {
	have, ok := levels[level]
	return ok && have >= levels[string(cl.GetLogLevel())]
}

// finish turns a reply into the answer; what a plugin sent goes in as bytes.
func (cl *client) finish(x *exchange, reply *call.Reply) (*mcp.CallToolResult, error) {
	r := reply.Result
	blocks, err := json.Marshal(content.Blocks(r.Content))
	if err != nil {
		return nil, err
	}
	x.splice["content"] = blocks
	if s := content.Valid(r.Structured); s != nil {
		x.splice["structuredContent"] = s
	}
	meta := map[string]any{"dev.bulkhead/call_id": reply.CallID}
	if r.Error != nil {
		meta["dev.bulkhead/error"] = errorMeta{Code: r.Error.Code, Retryable: r.Error.Retryable, Ref: r.Error.Ref}
	}
	if len(reply.Questions) > 0 {
		meta["dev.bulkhead/questions"] = ids(reply.Questions)
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	if own := content.Valid(r.Meta); own != nil {
		raw = content.Merge(own, raw)
	}
	x.splice["_meta"] = raw
	return &mcp.CallToolResult{Content: []mcp.Content{}, IsError: r.IsError}, nil
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
