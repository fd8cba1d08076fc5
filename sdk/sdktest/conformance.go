package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Run puts a plugin through the conformance cases inside the test process. make
// is called once a case, since a plugin is configured once in its life.
func Run(t *testing.T, make func() *sdk.Plugin, opts ...Option) {
	t.Helper()
	conform(t, opts, func(t TB, opts ...Option) *Session { return Start(t, make(), opts...) })
}

// RunBinary puts a built plugin through the same cases. configJSON is its
// evaluated config; empty = {}.
func RunBinary(t *testing.T, path, configJSON string, opts ...Option) {
	t.Helper()
	conform(t, withConfig(configJSON, opts), func(t TB, opts ...Option) *Session { return Launch(t, path, opts...) })
}

func withConfig(configJSON string, opts []Option) []Option {
	if configJSON == "" {
		return opts
	}
	return append([]Option{Config(configJSON)}, opts...)
}

func conform(t *testing.T, opts []Option, start func(TB, ...Option) *Session) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.slow && slowTool(opts) == "" {
				t.Skip(noSlowTool)
			}
			c.run(t, start(t, c.options(opts)...))
		})
	}
}

const noSlowTool = "no slow tool is named: see sdktest.SlowTool"

func slowTool(opts []Option) string {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return o.slow
}

func (c conformanceCase) options(opts []Option) []Option {
	mine := append([]Option(nil), opts...)
	if c.raw {
		mine = append(mine, Unconfigured())
	}
	return mine
}

type conformanceCase struct {
	name string
	raw  bool // starts unconfigured
	slow bool // needs a slow tool
	run  func(TB, *Session)
}

var cases = []conformanceCase{
	{"describe is stable", true, false, describeStable},
	{"validate has no effect", true, false, validateNoEffect},
	{"an unknown setting is refused", true, false, unknownSetting},
	{"configure twice", true, false, configureTwice},
	{"offers come before activate", true, false, offersBeforeActivate},
	{"calls before activate", true, false, callsBeforeActivate},
	{"names and schemas", false, false, namesAndSchemas},
	{"unknown tool", false, false, unknownTool},
	{"bad arguments", false, false, badArguments},
	{"health answers", false, false, healthAnswers},
	{"cancel of an unknown call", false, false, cancelUnknown},
	{"deadline", false, true, deadlineKept},
	{"cancel ends the handler", false, true, cancelEnds},
	{"drain", false, false, drains},
	{"drain cuts what outlasts it", false, true, drainCuts},
}

func describeStable(t TB, s *Session) {
	first := describe(t, s)
	if first.GetName() == "" || first.GetVersion() == "" {
		t.Errorf("name %q, version %q: both are needed", first.GetName(), first.GetVersion())
	}
	if second := describe(t, s); !proto.Equal(first, second) {
		t.Errorf("Describe differs:\n%v\n%v", first, second)
	}
	s.Configure(s.opts.config)
	if third := describe(t, s); !proto.Equal(first, third) {
		t.Errorf("Describe differs after Configure:\n%v\n%v", first, third)
	}
	switch p := first.GetSandbox().GetProfile(); p {
	case "", "strict", "launcher", "none":
	default:
		t.Errorf("the sandbox profile %q is not known", p)
	}
	switch n := first.GetSandbox().GetNetwork(); n {
	case "", "none", "all":
	default:
		t.Errorf("the sandbox network %q is not known", n)
	}
}

func describe(t TB, s *Session) *pluginv1.DescribeResponse {
	t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	d, err := s.client.Describe(ctx, &pluginv1.DescribeRequest{HostVersion: "sdktest"})
	if err != nil {
		t.Fatalf("Describe: %v", err)
	}
	return d
}

func validateNoEffect(t TB, s *Session) {
	if faults := s.Validate(s.opts.config); hasError(faults) {
		t.Fatalf("the config given to the test is refused: %v", faults)
	}
	if outcome := s.Configure(s.opts.config); outcome != "configured" {
		t.Errorf("after Validate, Configure gives %q: validating has configured", outcome)
	}
	s.Validate(`{"no_such_setting":1}`)
	if outcome := s.Configure(s.opts.config); outcome != "reconfigured" {
		t.Errorf("after Validate of other settings the same ones give %q", outcome)
	}
}

func hasError(lines []string) bool {
	for _, l := range lines {
		if len(l) < 8 || l[:8] != "warning:" {
			return true
		}
	}
	return false
}

func unknownSetting(t TB, s *Session) {
	if faults := s.Validate(`{"no_such_setting":1}`); !hasError(faults) {
		t.Error("Validate takes a setting nobody knows")
	}
	if d := firstError(s.configure(`{"no_such_setting":1}`).GetDiagnostics()); d == "" {
		t.Error("Configure takes a setting nobody knows")
	}
	if outcome := s.Configure(s.opts.config); outcome != "configured" {
		t.Errorf("after a refused Configure the right one gives %q", outcome)
	}
}

func configureTwice(t TB, s *Session) {
	s.Configure(s.opts.config)
	if outcome := s.Configure(s.opts.config); outcome != "reconfigured" {
		t.Errorf("the same bytes again give %q, they change nothing", outcome)
	}
}

func offersBeforeActivate(t TB, s *Session) {
	s.Configure(s.opts.config)
	before := s.snapshot()
	if before.GetRevision() == 0 {
		t.Error("the first snapshot has no revision")
	}
	s.Activate()
	if after := s.snapshot(); after.GetRevision() < before.GetRevision() {
		t.Errorf("the revision falls from %d to %d", before.GetRevision(), after.GetRevision())
	}
}

func namesAndSchemas(t TB, s *Session) {
	pattern := regexp.MustCompile(wire.ToolName)
	seen := map[string]bool{}
	for _, tool := range s.snapshot().GetTools() {
		name := tool.GetName()
		if !pattern.MatchString(name) || seen[name] {
			t.Errorf("tool name %q is repeated or does not match %s", name, wire.ToolName)
		}
		seen[name] = true
		if tool.GetDescription() == "" {
			t.Errorf("tool %q has no description", name)
		}
		if err := compiles(tool.GetInputSchema(), true); err != nil {
			t.Errorf("tool %q: input schema: %v", name, err)
		}
		if len(tool.GetOutputSchema()) > 0 {
			agents := tool.GetVisibility() != pluginv1.Visibility_VISIBILITY_INTERNAL // MCP wants objects
			if err := compiles(tool.GetOutputSchema(), agents); err != nil {
				t.Errorf("tool %q: output schema: %v", name, err)
			}
		}
	}
}

// compiles checks a schema; object says that its root must describe one.
func compiles(raw []byte, object bool) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	root, ok := doc.(map[string]any)
	if object && (!ok || root["type"] != "object") {
		return errors.New(`the root is not of "type": "object"`)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		return err
	}
	_, err = c.Compile("schema.json")
	return err
}

func unknownTool(t TB, s *Session) {
	s.Call("no_such_tool_here", `{}`).WantError("tool_not_found", "no_such_tool_here")
}

func badArguments(t TB, s *Session) {
	for _, name := range s.ToolNames() {
		for _, args := range []string{`[]`, `"text"`, `{"unclosed":`, `7`} {
			if r := s.Call(name, args); r.Code != "invalid_arguments" {
				t.Errorf("tool %q with arguments %s gives %q: %s", name, args, r.Code, r.Message)
			}
		}
	}
}

func healthAnswers(t TB, s *Session) {
	ctx, cancel := s.context()
	defer cancel()
	h, err := s.client.Health(ctx, &pluginv1.HealthRequest{})
	if err != nil || h.GetStatus() == pluginv1.HealthResponse_STATUS_UNSPECIFIED {
		t.Errorf("Health: %v, %v", h, err)
	}
}

func cancelUnknown(t TB, s *Session) {
	ctx, cancel := s.context()
	defer cancel()
	resp, err := s.client.Cancel(ctx, &pluginv1.CancelRequest{CallId: "nobody", Reason: "caller"})
	if err != nil || resp.GetFound() {
		t.Errorf("Cancel of a call that isn't running: found %v, %v", resp.GetFound(), err)
	}
}

func deadlineKept(t TB, s *Session) {
	// Whoever's clock is first ends it: this side's by status, the plugin's by result.
	r, err := s.invoke(s.opts.slow, s.opts.args, Within(300*time.Millisecond))
	if status.Code(err) != codes.DeadlineExceeded && (err != nil || r.Code != "timeout") {
		t.Fatalf("the call does not end by its deadline of 300 ms: %+v, %v", r, err)
	}
	// The process still serves, and the call that was left behind holds up nothing.
	s.Call("no_such_tool_here", `{}`).WantError("tool_not_found", "")
}

func cancelEnds(t TB, s *Session) {
	const id = "to-be-cancelled"
	done := make(chan error, 1)
	go func() {
		r, err := s.invoke(s.opts.slow, s.opts.args, CallID(id))
		if err == nil && r.Code != "interrupted" {
			err = fmt.Errorf("the cancelled call gives %q: %s", r.Code, r.Message)
		}
		done <- err
	}()
	ctx, cancel := s.context()
	defer cancel()
	for found := false; !found; time.Sleep(5 * time.Millisecond) {
		resp, err := s.client.Cancel(ctx, &pluginv1.CancelRequest{CallId: id, Reason: "caller"})
		if err != nil {
			t.Fatalf("Cancel: %v", err)
		}
		found = resp.GetFound()
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-ctx.Done():
		t.Fatal("the handler does not return after its context was cancelled")
	}
}

func drains(t TB, s *Session) {
	if events, _ := s.Drain(5 * time.Second); events != "quiesced drained" {
		t.Errorf("Drain gives %q", events)
	}
}

// Drain runs a drain to its end and gives its events, "quiesced drained" when all
// went well, and how many calls were cut.
func (s *Session) Drain(deadline time.Duration) (string, uint32) {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	stream, err := s.client.Drain(ctx, &pluginv1.DrainRequest{DeadlineMs: deadline.Milliseconds(), Reason: "stop"})
	if err != nil {
		s.t.Fatalf("Drain: %v", err)
	}
	events, cut := "", uint32(0)
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return events, cut
		}
		if err != nil {
			s.t.Fatalf("Drain: %v", err)
		}
		switch x := e.GetEvent().(type) {
		case *pluginv1.DrainEvent_Quiesced:
			events += "quiesced"
		case *pluginv1.DrainEvent_Drained:
			events += " drained"
			cut = x.Drained.GetCallsCut()
		}
	}
}

func drainCuts(t TB, s *Session) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.invoke(s.opts.slow, s.opts.args, CallID("outlasting"), Until(ctx)) // how it ends is not the point here
	}()
	for deadline := time.Now().Add(limit); s.Host.running() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the slow call does not start")
		}
	}
	// The call has left this side; a moment later it is in the plugin. Drains that
	// come too early for it find nothing to cut and are repeated on a new call.
	events, cut := s.Drain(500 * time.Millisecond)
	if events != "quiesced drained" || cut > 1 {
		t.Errorf("Drain gives %q and cuts %d calls", events, cut)
	}
	select {
	case <-done:
	case <-time.After(limit):
		t.Error("the call goes on after the drain")
	}
	r, err := s.invoke("no_such_tool_here", `{}`)
	if err != nil || r.Code != "unavailable" || !r.Retryable {
		t.Errorf("a call after the drain gives %+v, %v; unavailable and retryable is due", r, err)
	}
}

func (h *FakeHost) running() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.calls)
}
