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
	if call.SessionRef == "" || !c.Pins(call.ModelTier) || c.MaxPinnedServers == 0 {
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
	var tool *downstream.Tool
	look := func(v *view) (*downstream.Tool, error) {
		t, ok := v.tool(name)
		if !ok {
			return nil, sdk.Errorf(sdk.ToolNotFound, "server %q no longer has the tool %q; it has: %s", s.conf.Name, name, list(v.toolNames(), 40))
		}
		tool = t.Tool
		return t.Tool, nil
	}
	once := func(args json.RawMessage) (sdk.Result, error) {
		out, save, err := s.outgoing(ctx, call, name, args)
		if err != nil {
			return sdk.Result{}, err
		}
		raw, err := s.request(ctx, "tools/call", toolParams(name, out), look, call.Progress)
		if err != nil {
			return s.toolFailure(ctx, name, tool, args, limit, err)
		}
		return s.incoming(ctx, tool, args, raw, save)
	}
	first, err := once(args)
	if err != nil {
		return first, err
	}
	result, err := s.recover(call.SessionRef, tool, args, first, once)
	if err == nil && complaint(&result) == "" {
		s.b.recent.note(call.SessionRef, call.Name, args)
	}
	return result, err
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

// request sends a request over a leased link. It is sent again, once and over a
// new connection, when it provably did not run or may run twice.
func (s *server) request(ctx context.Context, method string, params json.RawMessage, look func(*view) (*downstream.Tool, error), progress downstream.Progress) (json.RawMessage, error) {
	for again := false; ; again = true {
		l, err := s.acquire(ctx)
		if err != nil {
			return nil, err
		}
		raw, tool, err := s.over(ctx, l, method, params, look, progress)
		if err == nil {
			return raw, nil
		}
		var auth *downstream.AuthError
		if errors.As(err, &auth) {
			if auth.Status == 401 {
				s.deny(l, err)
			}
			return nil, err
		}
		if !downstream.Broken(err) {
			return nil, err
		}
		s.renew(l)
		repeatable := method != "tools/call" || (tool != nil && tool.Repeatable)
		if again || ctx.Err() != nil || (!downstream.Unsent(err) && !repeatable) {
			return nil, err
		}
		s.log.Info("once more over a new connection", "method", method, "reason", err)
		if err := s.left(ctx, l); err != nil {
			return nil, err
		}
	}
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

func (s *server) over(ctx context.Context, l *link, method string, params json.RawMessage, look func(*view) (*downstream.Tool, error), progress downstream.Progress) (json.RawMessage, *downstream.Tool, error) {
	defer l.release()
	var tool *downstream.Tool
	if look != nil {
		var err error
		if tool, err = look(l.view.Load()); err != nil {
			return nil, nil, err
		}
	}
	raw, err := l.conn.Request(ctx, method, params, tool, progress)
	return raw, tool, err
}

// failure turns what went wrong into an error with a code.
func (s *server) failure(ctx context.Context, what string, limit time.Duration, err error) error {
	var own *sdk.Error
	var rpc *downstream.RPCError
	var auth *downstream.AuthError
	var status *downstream.StatusError
	switch {
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
	case errors.As(err, &status) && (status.Status == 429 || status.Status == 503):
		return sdk.Errorf(sdk.Unavailable, "server %q is busy: %v", s.conf.Name, status).After(max(status.RetryAfter, time.Second))
	case errors.As(err, &status):
		return sdk.Errorf(sdk.ExecutionFailed, "server %q answered %s with %v", s.conf.Name, what, status)
	case downstream.Unsent(err):
		return sdk.Errorf(sdk.Unavailable, "server %q could not be reached for %s: %v", s.conf.Name, what, err).After(time.Second)
	}
	return sdk.Errorf(sdk.ExecutionFailed, "server %q was lost while %s ran: %v; it was not repeated, since it may have had its effect", s.conf.Name, what, err).After(0)
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
	if tool != nil && errors.As(err, &rpc) && downstream.BadParams(err) {
		text := rpc.Error()
		if strings.Contains(strings.ToLower(text), "unknown tool") {
			return sdk.Result{}, sdk.Errorf(sdk.ToolNotFound, "server %q: %s; call mcp_get_service_details to see what it has now", s.conf.Name, clip(text, 2000))
		}
		return sdk.Failure("%s", withHint(clip(text, 8000), tool, args)), nil
	}
	return sdk.Result{}, s.failure(ctx, fmt.Sprintf("the tool %q", name), limit, err)
}

// simple is a request that is no tool call.
func (s *server) simple(ctx context.Context, what, method string, params json.RawMessage) (json.RawMessage, error) {
	limit := s.inForce().CallTimeout(&s.conf)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeUp)
	defer cancel()
	raw, err := s.request(ctx, method, params, nil, nil)
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
