package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// callTyped runs a typed tool, and keeps its server's other tools listed after.
func (s *server) callTyped(ctx context.Context, call *sdk.Call, name string) (sdk.Result, error) {
	result, err := s.callTool(ctx, call, name)
	s.pin(ctx, call)
	return result, err
}

// pin lists a server's tools in the session that called one.
func (s *server) pin(ctx context.Context, call *sdk.Call) {
	c := s.inForce()
	if call.SessionRef == "" || !call.ListsFindTools || !c.Pins(call.ModelTier) || c.MaxPinnedServers == 0 {
		return
	}
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l == nil {
		return
	}
	v := l.view.Load()
	names := v.typedNames()
	if len(names) == 0 {
		return
	}
	set, fresh, dropped := s.b.pins.use(call.SessionRef, s.conf.Name, v.surface.Fingerprint, c.MaxPinnedServers)
	for _, old := range dropped {
		if err := call.Host().Session().Pin(ctx, old); err != nil {
			s.log.Debug("unpinning", "set", old, "error", err)
		}
	}
	if !fresh {
		return
	}
	if now, err := call.Host().Session().Listed(ctx); err == nil && !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(now.Names, n) }) {
		return // they are listed as it is
	}
	if err := call.Host().Session().Pin(ctx, set, names...); err != nil {
		s.log.Debug("the server's tools are not pinned", "error", err)
	}
}

// callTool calls a tool of the server and maps its result.
func (s *server) callTool(ctx context.Context, call *sdk.Call, name string) (sdk.Result, error) {
	limit := s.inForce().CallTimeout(&s.conf)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeUp)
	defer cancel()
	args := bytes.TrimSpace(call.Arguments)
	if len(args) == 0 {
		args = []byte("{}")
	}
	args = unwrapped(s.conf.Name, name, args)
	var tool *downstream.Tool
	look := func(v *view) (*downstream.Tool, error) {
		t, ok := v.tool(name)
		if !ok {
			return nil, sdk.Errorf(sdk.ToolNotFound, "server %q no longer has the tool %q; it has: %s", s.conf.Name, name, list(v.toolNames(), 40))
		}
		tool = t.Tool
		return t.Tool, nil
	}
	a := s.askingFor(call, name, args)
	x := &exchange{method: "tools/call", look: look, progress: call.Progress, asking: a, back: s.handsBack(call), tasks: s.mayTask(call)}
	once := func(args json.RawMessage) (sdk.Result, error) {
		a.args = args
		if call.Round > 0 && !a.repeated {
			if err := s.takeUp(ctx, call, x); err != nil {
				return sdk.Result{}, err
			}
		}
		out, save, err := s.outgoing(ctx, call, name, a.args)
		if err != nil {
			return sdk.Result{}, err
		}
		x.params, x.save = toolParams(name, out), save
		raw, err := s.converse(ctx, x)
		if err != nil {
			return s.toolFailure(ctx, name, tool, a.args, limit, err)
		}
		if x.created != nil {
			defer x.free()
			return s.taskStarted(ctx, x, x.created)
		}
		return s.incoming(ctx, tool, a.args, raw, save)
	}
	result, err := once(args)
	var back *handedBack
	if errors.As(err, &back) {
		return back.result, nil
	}
	if err == nil && x.created == nil {
		x.responses, x.state, a.repeated = nil, nil, true
		result, err = s.recover(call.SessionRef, tool, a.args, result, once)
		if err == nil && complaint(&result) == "" {
			s.b.recent.note(call.SessionRef, call.Name, a.args)
		}
	}
	return a.noted(s.conf.Name, tool, result, err)
}

// askingFor makes the record of what a server asks during a call.
func (s *server) askingFor(call *sdk.Call, tool string, args json.RawMessage) *asking {
	return &asking{what: fmt.Sprintf("the tool %q", tool), tool: tool, args: args, call: call, session: call.SessionRef, namespace: call.Namespace}
}

// unwrapped are the arguments of an aggregator's invoke_tool, out of a second
// wrapping into which models put them: a call of invoke_tool by invoke_tool.
func unwrapped(server, tool string, args json.RawMessage) json.RawMessage {
	if tool != "invoke_tool" || !strings.Contains(strings.ToLower(server), "aggregator") {
		return args
	}
	var outer struct {
		Server    string `json:"serverName"`
		Tool      string `json:"toolName"`
		Arguments string `json:"arguments"`
	}
	if json.Unmarshal(args, &outer) != nil || outer.Tool != "invoke_tool" || !strings.Contains(strings.ToLower(outer.Server), "aggregator") {
		return args
	}
	inner := json.RawMessage(strings.TrimSpace(outer.Arguments))
	var object map[string]json.RawMessage
	if json.Unmarshal(inner, &object) != nil || object == nil {
		return args
	}
	return inner
}

// toolParams are the parameters of tools/call; the arguments stay the bytes they are.
func toolParams(name string, args json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	out.WriteString(`{"name":`)
	out.Write(quote(name))
	out.WriteString(`,"arguments":`)
	out.Write(args)
	out.WriteByte('}')
	return out.Bytes()
}

// left waits until the owner has let go of a link.
func (s *server) left(ctx context.Context, l *link) error {
	for {
		s.mu.Lock()
		current, change := s.link, s.change
		s.mu.Unlock()
		if current != l {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// failure turns what went wrong into an error with a code, which repeats none of the
// server's secrets.
func (s *server) failure(ctx context.Context, what string, limit time.Duration, err error) error {
	err = s.coded(ctx, what, limit, err)
	var own *sdk.Error
	if errors.As(err, &own) && s.hide.Text(own.Message) != own.Message {
		quiet := *own
		quiet.Message = s.hide.Text(own.Message)
		return &quiet
	}
	return err
}

// coded is failure before secrets are taken out.
func (s *server) coded(ctx context.Context, what string, limit time.Duration, err error) error {
	var own *sdk.Error
	var rpc *downstream.RPCError
	var auth *downstream.AuthError
	var status *downstream.StatusError
	var answer *downstream.AnswerError
	var back *handedBack
	switch {
	case errors.As(err, &back):
		return back
	case errors.As(err, &own):
		return own
	case errors.Is(context.Cause(ctx), errTimeUp):
		return sdk.Errorf(sdk.Timeout, "server %q did not answer %s within %s (%s)", s.conf.Name, what, limit, s.timeoutSetting()).After(0)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &auth):
		return sdk.Errorf(sdk.AuthRequired, "server %q: %v", s.conf.Name, auth)
	case errors.As(err, &rpc):
		return sdk.Errorf(sdk.ExecutionFailed, "server %q answered %s with an error: %s", s.conf.Name, what, clip(rpc.Error(), 4000))
	case errors.As(err, &answer):
		return sdk.Errorf(sdk.ExecutionFailed, "server %q answered %s, but %v", s.conf.Name, what, answer)
	case errors.As(err, &status) && (status.Status == 429 || status.Status == 503):
		return sdk.Errorf(sdk.Unavailable, "server %q is busy: %v", s.conf.Name, status).After(max(status.RetryAfter, time.Second))
	case errors.As(err, &status):
		return sdk.Errorf(sdk.ExecutionFailed, "server %q answered %s with %v", s.conf.Name, what, status)
	case downstream.Unsent(err):
		return sdk.Errorf(sdk.Unavailable, "server %q could not be reached for %s: %v", s.conf.Name, what, err).After(time.Second)
	}
	if errors.Is(err, errRepeated) {
		return sdk.Errorf(sdk.ExecutionFailed, "server %q was lost while %s ran: %v", s.conf.Name, what, err).After(0)
	}
	return sdk.Errorf(sdk.ExecutionFailed, "server %q was lost while %s ran: %v; it was not repeated, since it may have had its effect", s.conf.Name, what, err)
}

func (s *server) timeoutSetting() string {
	if s.conf.ToolTimeout > 0 {
		return "the server's tool_timeout"
	}
	return "default_timeout; tool_timeout of the server beats it"
}

// toolFailure is failure, with what the schema says when the server refused the
// arguments.
func (s *server) toolFailure(ctx context.Context, name string, tool *downstream.Tool, args json.RawMessage, limit time.Duration, err error) (sdk.Result, error) {
	var rpc *downstream.RPCError
	if pages := downstream.PagesFirst(err); len(pages) > 0 {
		return sdk.Result{}, sdk.Errorf(sdk.AuthRequired, "server %q wants a page visited before it runs %q: %s; ask the user to do so, then call again", s.conf.Name, name, s.hide.Text(strings.Join(pages, "; ")))
	}
	if tool != nil && errors.As(err, &rpc) && downstream.BadParams(err) {
		text := rpc.Error()
		if strings.Contains(strings.ToLower(text), "unknown tool") {
			return sdk.Result{}, sdk.Errorf(sdk.ToolNotFound, "server %q: %s; call mcp_get_service_details to see what it has now", s.conf.Name, clip(s.hide.Text(text), 2000))
		}
		return sdk.Failure("%s", withHint(clip(s.hide.Text(text), 8000), tool, args)), nil
	}
	return sdk.Result{}, s.failure(ctx, fmt.Sprintf("the tool %q", name), limit, err)
}

// simple is a request that is no tool call.
func (s *server) simple(ctx context.Context, what, method string, params json.RawMessage) (json.RawMessage, error) {
	limit := s.inForce().CallTimeout(&s.conf)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeUp)
	defer cancel()
	raw, err := s.converse(ctx, &exchange{method: method, params: params, asking: &asking{what: what, args: params}})
	if err != nil {
		return nil, s.failure(ctx, what, limit, err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return nil, sdk.Errorf(sdk.ExecutionFailed, "server %q answered %s with what is no object", s.conf.Name, what)
	}
	return raw, nil
}

func list(names []string, most int) string {
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
