package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// Invoke runs one call in the stream's own goroutine: the host sees the call end
// when the handler has really returned.
func (s *server) Invoke(req *pluginv1.InvokeRequest, stream pluginv1.PluginService_InvokeServer) error {
	out := &eventStream{stream: stream, p: s.p}
	ctx, end, ok := s.calls.begin(stream.Context(), req.GetCallId())
	if !ok {
		return out.finish(failed(Errorf(Unavailable, "plugin %q is stopping", s.p.Name).WithRef(refStopped).After(0)))
	}
	defer end()
	result, err := s.run(ctx, newCall(s.p, req, out), req)
	if err == nil {
		err = checkResult(&result)
	}
	if err != nil {
		// What a handler, or the host it asked something meanwhile, says of the call's
		// own cancel is noise.
		if ctx.Err() != nil && (!isTyped(err) || errors.Is(err, context.Canceled)) {
			err = context.Cause(ctx)
		}
		return out.finish(failed(err))
	}
	return out.finish(resultToProto(result))
}

func isTyped(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

// run finds the handler and keeps a panic inside the call.
func (s *server) run(ctx context.Context, call *Call, req *pluginv1.InvokeRequest) (result Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.p.log.Error("a handler panicked", "call_id", call.ID, "name", call.Name, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			result, err = Result{}, Errorf(ExecutionFailed, "%q panicked: %v; the stack is in the log", call.Name, v).WithRef(refPanic)
		}
	}()
	if !s.configured.Load() {
		return Result{}, Errorf(Unavailable, "plugin %q is not configured yet", s.p.Name).After(0)
	}
	offers := s.p.offers.view()
	switch req.GetKind() {
	case pluginv1.InvokeRequest_KIND_UNSPECIFIED, pluginv1.InvokeRequest_KIND_TOOL:
		t, ok := offers.tools[call.Name]
		if !ok {
			return Result{}, Errorf(ToolNotFound, "plugin %q has no tool %q", s.p.Name, call.Name).WithRef(refUnknownTool)
		}
		if err := isObject(call.Arguments); err != nil {
			return Result{}, err
		}
		return t.handler(ctx, call)
	case pluginv1.InvokeRequest_KIND_PROMPT:
		prompt, ok := offers.prompts[call.Name]
		if !ok {
			return Result{}, Errorf(NotFound, "plugin %q has no prompt %q", s.p.Name, call.Name)
		}
		return prompt.Handler(ctx, call)
	case pluginv1.InvokeRequest_KIND_RESOURCE:
		if r, ok := offers.resources[call.Name]; ok {
			return r.Handler(ctx, call, call.Name)
		}
		for _, t := range offers.all.Templates {
			if t.Matches(call.Name) {
				return t.Handler(ctx, call, call.Name)
			}
		}
		return Result{}, Errorf(NotFound, "plugin %q has no resource %q", s.p.Name, call.Name)
	case pluginv1.InvokeRequest_KIND_COMPLETE:
		if s.p.Complete == nil {
			return Completion(), nil
		}
		c := req.GetCompletion()
		return s.p.Complete(ctx, call, CompletionTarget{
			Kind: c.GetRefKind(), Ref: c.GetRef(), Argument: c.GetArgument(), Value: c.GetValue(), Context: c.GetContext(),
		})
	}
	return Result{}, Errorf(ExecutionFailed, "plugin %q does not know calls of kind %v", s.p.Name, req.GetKind())
}

func isObject(raw []byte) error {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] != '{' || !json.Valid(raw) {
		return Errorf(InvalidArguments, "the arguments are not a JSON object").WithRef(refBadJSON)
	}
	return nil
}

// checkResult refuses what the host could not take, so that the author hears it
// and not the caller.
func checkResult(r *Result) error {
	for what, raw := range map[string]json.RawMessage{"structured": r.Structured, "meta": r.Meta, "raw": r.Raw} {
		if len(raw) > 0 && !json.Valid(raw) {
			return Errorf(ExecutionFailed, "the tool gave a result whose %s part is not JSON", what).WithRef(refFailed)
		}
	}
	if r.needs == nil {
		return nil
	}
	if n := len(r.needs.state); n > wire.MaxState {
		return Errorf(ExecutionFailed, "the tool asks with %d bytes of state; at most %d are kept", n, wire.MaxState).WithRef(refFailed)
	}
	seen := map[string]bool{}
	for _, q := range r.needs.requests {
		if q.ID == "" || seen[q.ID] {
			return Errorf(ExecutionFailed, "the tool asks with an empty or repeated request id %q", q.ID).WithRef(refFailed)
		}
		seen[q.ID] = true
	}
	if len(seen) == 0 {
		return Errorf(ExecutionFailed, "the tool asks nothing: NeedInput without requests").WithRef(refFailed)
	}
	return nil
}
