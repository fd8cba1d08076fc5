//go:build linux

package hostservice

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/memory"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

func TestMain(m *testing.M) {
	sandbox.MaybeRun()
	code := m.Run()
	testbin.Cleanup()
	os.Exit(code)
}

// spy tells the ids under which calls go to plugins.
type spy struct {
	*supervise.Supervisor
	ids chan string
}

func (s spy) Invoke(ctx context.Context, plugin string, nested bool, req *pluginv1.InvokeRequest, on func(*pluginv1.InvokeEvent)) (*pluginv1.Result, supervise.Dispatch, error) {
	s.ids <- req.CallId
	return s.Supervisor.Invoke(ctx, plugin, nested, req, on)
}

type world struct {
	*Services
	ann     *policy.Agent
	session *session.Session
	plugins spy
}

// newWorld has a running plugin "one" with the tool sleep, and a session of an
// agent.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "h") // sockets need a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	db, err := store.Open(t.Context(), store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	mem, err := memory.New(memory.Options{Budget: 1 << 20, SpillDir: filepath.Join(dir, "memory")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	w := &world{ann: &policy.Agent{Name: "ann", Profile: "main"}}
	rules := policy.New(policy.Rules{Agents: []*policy.Agent{w.ann}, Plugins: map[string]policy.Plugin{
		"one": {Grants: []string{"runs", "turns"}}, "two": {Grants: []string{"runs", "turns", "session", "tool:*"}}}})
	log := hclog.NewNullLogger()
	events := event.New(10)
	desk := question.New(question.Options{Store: db, Events: events, Log: log})
	sessions := session.New(db, rules, 40)
	reg := registry.New(rules)
	w.Services = &Services{Store: db, Memory: mem, Policy: rules, Sessions: sessions, Questions: desk, Log: log,
		Listed: func(*policy.Agent, *session.Session) ([]string, int, int) { return nil, 0, 0 }}
	w.plugins = spy{supervise.New(supervise.Options{DataDir: dir, RunDir: filepath.Join(dir, "r"), Offers: reg, HostServices: w.Services, Log: log}), make(chan string, 8)}
	w.Calls = &call.Pipeline{Registry: reg, Policy: rules, Sessions: sessions, Questions: desk, Plugins: w.plugins,
		Audit: func(store.AuditRow) {}, Observe: func(string, string, time.Duration) {}, Events: events, Log: log}
	desk.Resume = w.Calls.Resume
	if err := desk.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(desk.Close)
	binary := testbin.Build(t, "github.com/bulkhead-dev/bulkhead/host/internal/testplugin")
	if err := w.plugins.Add(supervise.Plugin{Name: "one", Binary: binary, Configured: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = w.plugins.Close(ctx)
	})
	testbin.Await(t, 20*time.Second, "the plugin's tool", func() bool {
		_, ok := reg.Snapshot().Tool("sleep")
		return ok && w.plugins.Status()[0].State == supervise.Ready
	})
	if w.session, err = sessions.Open(t.Context(), w.ann, "talk"); err != nil {
		t.Fatal(err)
	}
	return w
}

// running starts a call that lasts until the returned end, and gives its id and
// the generation it runs on.
func (w *world) running(t *testing.T) (id string, number uint64, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Calls.Call(ctx, call.Request{Caller: call.Caller{Agent: w.ann, Session: w.session, Door: "cli"}, Tool: "sleep", Arguments: []byte(`{"ms":60000}`)})
	}()
	id = <-w.plugins.ids
	testbin.Await(t, 10*time.Second, "the call to run", func() bool { return w.plugins.Status()[0].InFlight == 1 })
	return id, w.plugins.Status()[0].Generation, func() { cancel(); <-done }
}

// refOf is the BH code in a status.
func refOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*pluginv1.Error); ok {
			return e.Ref
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// stream hears what CallTool sends.
type stream struct {
	ctx  context.Context
	last *pluginv1.InvokeEvent
}

func (s *stream) Send(e *pluginv1.InvokeEvent) error { s.last = e; return nil }
func (s *stream) Context() context.Context           { return s.ctx }
func (s *stream) SetHeader(metadata.MD) error        { return nil }
func (s *stream) SendHeader(metadata.MD) error       { return nil }
func (s *stream) SetTrailer(metadata.MD)             {}
func (s *stream) SendMsg(any) error                  { return nil }
func (s *stream) RecvMsg(any) error                  { return nil }

var _ grpc.ServerStreamingServer[pluginv1.InvokeEvent] = (*stream)(nil)

// requests is one of each kind that acts in a scope.
func requests(ctx context.Context, sc *pluginv1.Scope) map[string]func(pluginv1.HostServiceServer) error {
	return map[string]func(pluginv1.HostServiceServer) error{
		"MemoryPut": func(s pluginv1.HostServiceServer) error {
			_, err := s.MemoryPut(ctx, &pluginv1.MemoryPutRequest{Scope: sc, Key: "k", Value: []byte("v")})
			return err
		},
		"MemoryGet": func(s pluginv1.HostServiceServer) error {
			_, err := s.MemoryGet(ctx, &pluginv1.MemoryGetRequest{Scope: sc, Key: "k"})
			return err
		},
		"MemoryDelete": func(s pluginv1.HostServiceServer) error {
			_, err := s.MemoryDelete(ctx, &pluginv1.MemoryDeleteRequest{Scope: sc, Key: "k"})
			return err
		},
		"MemorySearch": func(s pluginv1.HostServiceServer) error {
			_, err := s.MemorySearch(ctx, &pluginv1.MemorySearchRequest{Scope: sc, Query: "v"})
			return err
		},
		"PublishEvent": func(s pluginv1.HostServiceServer) error {
			_, err := s.PublishEvent(ctx, &pluginv1.PublishEventRequest{Scope: sc, Kind: "k", Text: "t"})
			return err
		},
		"Ask": func(s pluginv1.HostServiceServer) error {
			ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond) // nobody answers
			defer cancel()
			_, err := s.Ask(ctx, &pluginv1.AskRequest{Scope: sc, Request: &pluginv1.InputRequest{Id: "q", Kind: "form", Message: "?", Schema: []byte(`{"type":"object"}`)}})
			return err
		},
		"CallTool": func(s pluginv1.HostServiceServer) error {
			out := &stream{ctx: ctx}
			if err := s.CallTool(&pluginv1.CallToolRequest{Scope: sc, Tool: "no_such_tool"}, out); err != nil {
				return err
			}
			return nil
		},
		"SessionActivate": func(s pluginv1.HostServiceServer) error {
			_, err := s.SessionActivate(ctx, &pluginv1.SessionActivateRequest{Scope: sc})
			return err
		},
		"SessionDeactivate": func(s pluginv1.HostServiceServer) error {
			_, err := s.SessionDeactivate(ctx, &pluginv1.SessionDeactivateRequest{Scope: sc})
			return err
		},
		"SessionPin": func(s pluginv1.HostServiceServer) error {
			_, err := s.SessionPin(ctx, &pluginv1.SessionPinRequest{Scope: sc, Set: "s"})
			return err
		},
		"SessionListed": func(s pluginv1.HostServiceServer) error {
			_, err := s.SessionListed(ctx, &pluginv1.SessionListedRequest{Scope: sc})
			return err
		},
		"SessionTurns": func(s pluginv1.HostServiceServer) error {
			_, err := s.SessionTurns(ctx, &pluginv1.SessionTurnsRequest{Scope: sc})
			return err
		},
	}
}

func byCall(id string) *pluginv1.Scope {
	return &pluginv1.Scope{By: &pluginv1.Scope_CallId{CallId: id}}
}
func byHandle(h string) *pluginv1.Scope {
	return &pluginv1.Scope{By: &pluginv1.Scope_Handle{Handle: h}}
}

// all checks that a service answers every kind of request in a scope with ref;
// empty: with whatever says nothing against the scope.
func all(t *testing.T, what string, s pluginv1.HostServiceServer, sc *pluginv1.Scope, want fault.Ref) {
	t.Helper()
	for name, do := range requests(t.Context(), sc) {
		got := refOf(do(s))
		bad := got == string(fault.BadHandle) || got == string(fault.PluginFenced)
		if want == "" && bad || want != "" && got != string(want) {
			t.Errorf("%s, %s: %q, want %q", what, name, got, want)
		}
	}
}

// A call id is good while its call runs, for the generation it was given to.
func TestCallIDs(t *testing.T) {
	w := newWorld(t)
	id, number, end := w.running(t)
	all(t, "another plugin", w.For("two", number), byCall(id), fault.BadHandle)
	all(t, "an older generation", w.For("one", number-1), byCall(id), fault.BadHandle)
	all(t, "a newer generation", w.For("one", number+1), byCall(id), fault.BadHandle)
	all(t, "a guess", w.For("one", number), byCall(strings.Repeat("0", 32)), fault.BadHandle)
	all(t, "the one it was given to", w.For("one", number), byCall(id), "")
	end()
	all(t, "after its end", w.For("one", number), byCall(id), fault.BadHandle)
}

// A handle is good for the plugin it was minted for.
func TestHandles(t *testing.T) {
	w := newWorld(t)
	h, err := w.Sessions.Handle(t.Context(), "one", w.ann, w.session)
	if err != nil {
		t.Fatal(err)
	}
	all(t, "another plugin", w.For("two", 1), byHandle(h), fault.BadHandle)
	all(t, "its plugin", w.For("one", 1), byHandle(h), "")
	if _, err := w.For("two", 1).DeriveRun(t.Context(), &pluginv1.DeriveRunRequest{Handle: h, Namespace: "wisp/x"}); refOf(err) != string(fault.BadHandle) {
		t.Errorf("another plugin derives: %v", err)
	}
	if _, err := w.For("two", 1).ReleaseRun(t.Context(), &pluginv1.ReleaseRunRequest{Handle: h}); refOf(err) != string(fault.BadHandle) {
		t.Errorf("another plugin releases: %v", err)
	}
}

// A generation that was replaced acts for nothing any more but for the calls that
// still run on it; one whose process has ended, for nothing at all.
func TestFence(t *testing.T) {
	w := newWorld(t)
	h, err := w.Sessions.Handle(t.Context(), "one", w.ann, w.session)
	if err != nil {
		t.Fatal(err)
	}
	id, number, end := w.running(t)
	defer end()
	old := w.For("one", number)
	all(t, "before", old, byHandle(h), "")
	w.Serving("one", number+1)
	all(t, "replaced, by handle", old, byHandle(h), fault.PluginFenced)
	for _, name := range []string{"MemoryPut", "MemoryGet", "MemoryDelete", "MemorySearch", "CallTool", "Ask"} {
		if got := refOf(requests(t.Context(), nil)[name](old)); got != string(fault.PluginFenced) {
			t.Errorf("replaced, as itself, %s: %q", name, got)
		}
	}
	ctx := t.Context()
	for name, err := range map[string]error{
		"StatePut":    second(old.StatePut(ctx, &pluginv1.StatePutRequest{Key: "k"})),
		"StateDelete": second(old.StateDelete(ctx, &pluginv1.StateDeleteRequest{Key: "k"})),
		"StateCAS":    second(old.StateCompareAndSet(ctx, &pluginv1.StateCompareAndSetRequest{Key: "k"})),
		"DeriveRun":   second(old.DeriveRun(ctx, &pluginv1.DeriveRunRequest{Handle: h, Namespace: "wisp/x"})),
	} {
		if refOf(err) != string(fault.PluginFenced) {
			t.Errorf("replaced, %s: %v", name, err)
		}
	}
	all(t, "replaced, in its call", old, byCall(id), "")
	all(t, "the next generation", w.For("one", number+1), byHandle(h), "")
	w.Revoke("one", number)
	all(t, "ended, in its call", old, byCall(id), fault.PluginFenced)
	all(t, "ended, by handle", old, byHandle(h), fault.PluginFenced)
}

func second[T any](_ T, err error) error { return err }

// A call that must go to the caller's own tool of one source runs nothing else's,
// whoever has the name.
func TestOwnTools(t *testing.T) {
	w := newWorld(t)
	h := func(plugin string) *pluginv1.Scope {
		handle, err := w.Sessions.Handle(t.Context(), plugin, w.ann, w.session)
		if err != nil {
			t.Fatal(err)
		}
		return byHandle(handle)
	}
	tool, _ := w.Calls.Registry.Snapshot().Tool("sleep")
	for _, c := range []struct {
		plugin, source string
		number         uint64
	}{{"two", tool.Source, 1}, {"two", "elsewhere", 1}, {"one", "elsewhere", w.plugins.Status()[0].Generation}} {
		source := c.source
		if source == "" {
			source = "elsewhere"
		}
		out := &stream{ctx: t.Context()}
		if err := w.For(c.plugin, c.number).CallTool(&pluginv1.CallToolRequest{Scope: h(c.plugin), Tool: "sleep", Arguments: []byte(`{"ms":1}`), OwnSource: source}, out); err != nil {
			t.Fatal(err)
		}
		if got := out.last.GetResult().GetError().GetRef(); got != string(fault.NameTaken) {
			t.Errorf("%s with source %q: %q", c.plugin, source, got)
		}
	}
	select {
	case id := <-w.plugins.ids:
		t.Errorf("call %s reached a plugin", id)
	default:
	}
}
