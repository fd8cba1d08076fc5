package hostservice

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/memory"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Services makes the service of each generation.
type Services struct {
	Store     *store.Store
	Memory    *memory.Memory
	Policy    *policy.Policy
	Sessions  *session.Sessions
	Questions *question.Desk
	Calls     *call.Pipeline
	Log       hclog.Logger
	Listed    func(*policy.Agent, *session.Session) (names []string, total, budget int)

	mu      sync.Mutex
	serving map[string]uint64 // generation by plugin
	revoked map[generation]bool
}

type generation struct {
	plugin string
	number uint64
}

// For is the service of one generation.
func (s *Services) For(plugin string, number uint64) pluginv1.HostServiceServer {
	return &service{Services: s, who: generation{plugin, number}}
}

// Serving fences all generations of the plugin before this one. Without its fence
// an older one could still write, but nothing it would not have written before.
func (s *Services) Serving(plugin string, number uint64) {
	s.mu.Lock()
	if s.serving == nil {
		s.serving = map[string]uint64{}
	}
	s.serving[plugin] = max(s.serving[plugin], number)
	s.mu.Unlock()
	ctx, end := context.WithTimeout(context.Background(), 5*time.Second)
	defer end()
	if err := s.Store.Fence(ctx, plugin, number); err != nil {
		s.Log.Error("older generations could not be fenced", "plugin", plugin, "generation", number, "error", err)
	}
}

// Revoke fences a generation: what it still writes is refused.
func (s *Services) Revoke(plugin string, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revoked == nil {
		s.revoked = map[generation]bool{}
	}
	s.revoked[generation{plugin, number}] = true
}

type service struct {
	pluginv1.UnimplementedHostServiceServer
	*Services
	who generation
}

// live refuses a generation that was replaced.
func (s *service) live() error { return s.fenced(false) }

// fenced refuses a generation that was replaced. While a call runs on one it may
// still act for that call: it was dispatched there and ends there.
func (s *service) fenced(inCall bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revoked[s.who] || !inCall && s.who.number < s.serving[s.who.plugin] {
		return fault.New(fault.PluginFenced, "generation %d of plugin %q was replaced", s.who.number, s.who.plugin)
	}
	return nil
}

// grant checks that the plugin was given what this needs.
func (s *service) grant(name string) error {
	if !s.Policy.Granted(s.who.plugin, name) {
		return fault.New(fault.GrantMissing, "plugin %q lacks grants = [%q]", s.who.plugin, name)
	}
	return nil
}

// scope is whom a request acts for: a running call, a session by handle, or
// (all nil) the plugin itself.
type scope struct {
	live    *call.Live
	agent   *policy.Agent
	session *session.Session
}

func (s *service) scope(ctx context.Context, sc *pluginv1.Scope) (scope, error) {
	by, inCall := sc.GetBy().(*pluginv1.Scope_CallId)
	if err := s.fenced(inCall); err != nil {
		return scope{}, err
	}
	if inCall {
		l, err := s.Calls.Live(s.who.plugin, s.who.number, by.CallId)
		if err != nil {
			return scope{}, err
		}
		who := l.Caller()
		return scope{live: &l, agent: who.Agent, session: who.Session}, nil
	}
	if by, ok := sc.GetBy().(*pluginv1.Scope_Handle); ok {
		agent, sess, err := s.Sessions.ByHandle(ctx, s.who.plugin, by.Handle)
		return scope{agent: agent, session: sess}, err
	}
	return scope{}, nil
}

// namespace is where the scope's working memory lives.
func (s *service) namespace(sc scope) string {
	if sc.session != nil {
		return sc.session.Namespace
	}
	return "plugin/" + s.who.plugin
}

// inSession is scope for requests that mean nothing without a session.
func (s *service) inSession(ctx context.Context, sc *pluginv1.Scope) (scope, error) {
	x, err := s.scope(ctx, sc)
	if err == nil && x.session == nil {
		err = fault.New(fault.BadHandle, "this needs a session: name a running call or a handle")
	}
	return x, err
}

// wire turns a fault into the status a plugin's SDK reads back.
func wire(err error) error {
	if err == nil {
		return nil
	}
	f := fault.From(err)
	code := codes.Unknown
	switch f.Class {
	case fault.Denied:
		code = codes.PermissionDenied
	case fault.NotFound, fault.ToolNotFound:
		code = codes.NotFound
	case fault.Fenced:
		code = codes.FailedPrecondition
	case fault.TooLarge:
		code = codes.ResourceExhausted
	case fault.Conflict:
		code = codes.Aborted
	case fault.InvalidArguments:
		code = codes.InvalidArgument
	case fault.Unavailable:
		code = codes.Unavailable
	case fault.Timeout:
		code = codes.DeadlineExceeded
	}
	st, detailErr := status.New(code, f.Message).WithDetails(f.Proto())
	if detailErr != nil {
		return status.Error(code, f.Message)
	}
	return st.Err()
}

const (
	maxInboxText = 64 << 10
	maxNames     = 500
)

// PublishEvent leaves an entry in the session's inbox.
func (s *service) PublishEvent(ctx context.Context, r *pluginv1.PublishEventRequest) (*pluginv1.PublishEventResponse, error) {
	seq, err := func() (uint64, error) {
		sc, err := s.inSession(ctx, r.Scope)
		if err != nil {
			return 0, err
		}
		if len(r.Text)+len(r.Data) > maxInboxText || len(r.Kind) > 64 || len(r.DedupId) > 128 {
			return 0, fault.New(fault.StateTooLarge, "an inbox entry has at most %d bytes", maxInboxText)
		}
		to, err := s.Sessions.Inbox(ctx, sc.agent, sc.session)
		if err != nil {
			return 0, err
		}
		item := store.InboxItem{Session: to.ID, Agent: sc.agent.Name, Kind: r.Kind, Text: r.Text, Data: r.Data, At: time.Now().UTC()}
		if r.DedupId != "" {
			item.DedupID = s.who.plugin + "/" + r.DedupId
		}
		seq, _, err := s.Store.InboxAppend(ctx, item)
		return seq, err
	}()
	if err != nil {
		return nil, wire(err)
	}
	return &pluginv1.PublishEventResponse{Seq: seq}, nil
}

// Ask puts a question for a handler that waits inside itself.
func (s *service) Ask(ctx context.Context, r *pluginv1.AskRequest) (*pluginv1.AskResponse, error) {
	sc, err := s.inSession(ctx, r.Scope)
	if err != nil {
		return nil, wire(err)
	}
	if r.Request == nil {
		return nil, wire(fault.New(fault.PluginProtocol, "plugin %q asks nothing", s.who.plugin))
	}
	tool, run := "", ""
	var asked func(store.Question)
	if sc.live != nil {
		defer sc.live.Pause()()
		tool, run = sc.live.Tool(), sc.live.Caller().Run
		var stop func() bool
		ctx, stop = until(ctx, sc.live.Context())
		defer stop()
		if hear := sc.live.Root().Asked; hear != nil {
			asked = func(q store.Question) { hear(ctx, []store.Question{q}) }
		}
	}
	if sc.live == nil {
		asked = func(q store.Question) { s.tellAsked(ctx, q) }
	}
	frozen := question.NewCall(sc.agent.Name, sc.session.ID, run, "", tool, s.who.plugin, nil)
	answer, id, err := s.Questions.Ask(ctx, frozen, r.Request, asked)
	if err != nil {
		return nil, wire(err)
	}
	return &pluginv1.AskResponse{Answer: answer, QuestionId: id}, nil
}

// until is ctx ended also by other.
func until(ctx, other context.Context) (context.Context, func() bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() bool {
		cancel(context.Canceled)
		return stop()
	}
}

// CallTool runs a nested call and streams what it says.
func (s *service) CallTool(r *pluginv1.CallToolRequest, stream pluginv1.HostService_CallToolServer) error {
	ctx := stream.Context()
	sc, err := s.scope(ctx, r.Scope)
	if err != nil {
		return wire(err)
	}
	var broken error
	n := call.Nested{Plugin: s.who.plugin, Tool: r.Tool, Arguments: r.Arguments, Timeout: time.Duration(r.TimeoutMs) * time.Millisecond, OwnSource: r.OwnSource,
		Events: func(e *pluginv1.InvokeEvent) { broken = errors.Join(broken, stream.Send(e)) }}
	var reply *call.Reply
	if sc.live != nil {
		reply = s.Calls.CallWithin(ctx, *sc.live, n)
	} else {
		agent, sess := sc.agent, sc.session
		if agent == nil {
			agent, err = s.owner()
			if err != nil {
				return wire(err)
			}
		}
		reply = s.Calls.CallFor(ctx, agent, sess, n)
	}
	if broken != nil {
		return broken
	}
	return stream.Send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Result{Result: reply.Result}})
}

// owner is the agent a plugin acts as when it acts for itself, nil when its
// block names none.
func (s *service) owner() (*policy.Agent, error) {
	name := s.Policy.Owner(s.who.plugin)
	if name == "" {
		return nil, nil
	}
	return s.Policy.Agent(name)
}

// DeriveRun mints a handle for a run below a session.
func (s *service) DeriveRun(ctx context.Context, r *pluginv1.DeriveRunRequest) (*pluginv1.DeriveRunResponse, error) {
	if err := errors.Join(s.live(), s.grant("runs")); err != nil {
		return nil, wire(err)
	}
	handle, err := s.Sessions.Derive(ctx, s.who.plugin, r.Handle, r.Namespace, r.Profile, time.Duration(r.TtlMs)*time.Millisecond)
	if err != nil {
		return nil, wire(err)
	}
	return &pluginv1.DeriveRunResponse{Handle: handle}, nil
}

// ReleaseRun ends a derived run.
func (s *service) ReleaseRun(ctx context.Context, r *pluginv1.ReleaseRunRequest) (*pluginv1.ReleaseRunResponse, error) {
	if err := errors.Join(s.live(), s.grant("runs")); err != nil {
		return nil, wire(err)
	}
	if err := s.Sessions.Release(ctx, s.who.plugin, r.Handle); err != nil {
		return nil, wire(err)
	}
	return &pluginv1.ReleaseRunResponse{}, nil
}
