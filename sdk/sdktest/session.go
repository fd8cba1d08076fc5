package sdktest

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// limit is the deadline of every step that should take no time.
const limit = 20 * time.Second

// TB is what a session needs of a test: a *testing.T, or Check's own.
type TB interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Failed() bool
	Cleanup(func())
	TempDir() string
}

// Session is a plugin under test.
type Session struct {
	// Host is the host service behind the plugin.
	Host *FakeHost
	// DataDir, SharedDir and TempDir are what the plugin was told of.
	DataDir, SharedDir, TempDir string

	t      TB
	conn   *connection
	client pluginv1.PluginServiceClient
	opts   options
}

type options struct {
	config  string
	granted []string
	slow    string
	args    string
	idle    bool
	env     []string
	run     *pluginv1.RunFacts
}

// Option sets up a session.
type Option func(*options)

// Config gives the plugin's settings as evaluated JSON; the default is {}.
func Config(json string) Option { return func(o *options) { o.config = json } }

// Granted tells the plugin which of its grants it has.
func Granted(grants ...string) Option { return func(o *options) { o.granted = grants } }

// SlowTool names a tool, and arguments, whose call lasts until it is cancelled;
// with it the conformance cases of deadlines and cancelling are run.
func SlowTool(name, args string) Option {
	return func(o *options) { o.slow, o.args = name, args }
}

// Env adds NAME=value to the environment of a launched binary.
func Env(env ...string) Option { return func(o *options) { o.env = append(o.env, env...) } }

// Unconfigured leaves Configure and Activate to the test.
func Unconfigured() Option { return func(o *options) { o.idle = true } }

// Start serves p inside this process and configures and activates it. It ends
// with the test.
func Start(t TB, p *sdk.Plugin, opts ...Option) *Session {
	t.Helper()
	return newSession(t, opts, func(s *Session) *connection { return serve(s.t, p, s.Host) })
}

// Launch starts the binary at path as the host would, without its sandbox, and
// configures and activates it. It ends with the test.
func Launch(t TB, path string, opts ...Option) *Session {
	t.Helper()
	return newSession(t, opts, func(s *Session) *connection { return launch(s.t, path, s) })
}

func newSession(t TB, opts []Option, connect func(*Session) *connection) *Session {
	t.Helper()
	s := &Session{t: t, Host: newFakeHost(), opts: options{config: "{}"}}
	for _, o := range opts {
		o(&s.opts)
	}
	s.opts.run = &pluginv1.RunFacts{
		Agent: "tester", Namespace: "session/test", Run: "test", ModelTier: "balanced", Profile: "main",
		CanAnswer: true, CanElicit: true, MayTask: true, ListsFindTools: true,
	}
	root := t.TempDir()
	for name, dir := range map[string]*string{"data": &s.DataDir, "shared": &s.SharedDir, "tmp": &s.TempDir} {
		*dir = filepath.Join(root, name)
		if err := os.Mkdir(*dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.conn = connect(s)
	s.client = s.conn.client
	if !s.opts.idle {
		s.Configure(s.opts.config)
		s.Activate()
	}
	return s
}

func (s *Session) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit)
}

// Configure sends settings and fails the test when they are refused. It gives
// configured, reconfigured or restart_needed.
func (s *Session) Configure(json string) string {
	s.t.Helper()
	resp := s.configure(json)
	if d := firstError(resp.GetDiagnostics()); d != "" {
		s.t.Fatalf("the settings are refused: %s", d)
	}
	switch resp.GetOutcome() {
	case pluginv1.ConfigureResponse_OUTCOME_CONFIGURED:
		return "configured"
	case pluginv1.ConfigureResponse_OUTCOME_RECONFIGURED:
		return "reconfigured"
	case pluginv1.ConfigureResponse_OUTCOME_RESTART_NEEDED:
		return "restart_needed"
	}
	s.t.Fatal("Configure gave neither an outcome nor an error")
	return ""
}

func (s *Session) configure(json string) *pluginv1.ConfigureResponse {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	granted := s.opts.granted
	if granted == nil {
		granted = []string{"shared"}
	}
	resp, err := s.client.Configure(ctx, &pluginv1.ConfigureRequest{
		ConfigJson: []byte(json),
		Host: &pluginv1.HostFacts{
			Instance: "test", Generation: 1, DataDir: s.DataDir, SharedDir: s.SharedDir, TempDir: s.TempDir,
			Granted: granted, MaxMessageBytes: wire.MaxMessage, LogLevel: "debug", HostVersion: "sdktest",
		},
	})
	if err != nil {
		s.t.Fatalf("Configure: %v", err)
	}
	return resp
}

// Validate gives what the plugin says of settings, one line a fault, with the
// path in front.
func (s *Session) Validate(json string) []string {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	resp, err := s.client.Validate(ctx, &pluginv1.ValidateRequest{ConfigJson: []byte(json)})
	if err != nil {
		s.t.Fatalf("Validate: %v", err)
	}
	var lines []string
	for _, d := range resp.GetDiagnostics() {
		lines = append(lines, diagText(d))
	}
	return lines
}

// Activate makes this the serving generation.
func (s *Session) Activate() {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	if _, err := s.client.Activate(ctx, &pluginv1.ActivateRequest{}); err != nil {
		s.t.Fatalf("Activate: %v", err)
	}
}

// ToolNames gives the names of the tools offered now, in the order offered.
func (s *Session) ToolNames() []string {
	s.t.Helper()
	var names []string
	for _, t := range s.snapshot().GetTools() {
		names = append(names, t.GetName())
	}
	return names
}

// snapshot gives the whole offer of the moment, its parts joined.
func (s *Session) snapshot() *pluginv1.OfferSnapshot {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	stream, err := s.client.WatchOffers(ctx, &pluginv1.WatchOffersRequest{})
	if err != nil {
		s.t.Fatalf("WatchOffers: %v", err)
	}
	whole := &pluginv1.OfferSnapshot{}
	for {
		part, err := stream.Recv()
		if err != nil {
			s.t.Fatalf("WatchOffers: %v", err)
		}
		whole.Revision = part.GetRevision()
		whole.Tools = append(whole.Tools, part.GetTools()...)
		whole.Prompts = append(whole.Prompts, part.GetPrompts()...)
		whole.Resources = append(whole.Resources, part.GetResources()...)
		whole.Templates = append(whole.Templates, part.GetTemplates()...)
		whole.Guides = append(whole.Guides, part.GetGuides()...)
		whole.Orientation = append(whole.Orientation, part.GetOrientation()...)
		whole.UpdatedResourceUris = append(whole.UpdatedResourceUris, part.GetUpdatedResourceUris()...)
		if !part.GetMore() {
			return whole
		}
	}
}

// Health gives how the plugin sees itself: whether degraded, and its words on it.
func (s *Session) Health() (degraded bool, detail string) {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	h, err := s.client.Health(ctx, &pluginv1.HealthRequest{})
	if err != nil {
		s.t.Fatalf("Health: %v", err)
	}
	return h.GetStatus() == pluginv1.HealthResponse_STATUS_DEGRADED, h.GetDetail()
}
