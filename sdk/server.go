package sdk

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// server is the protocol's side of one Plugin.
type server struct {
	pluginv1.UnimplementedPluginServiceServer
	p     *Plugin
	calls *calls

	configured atomic.Bool
	mu         sync.Mutex // held while Configure or Activate runs
	active     bool
	background context.Context // lives until the drain; hooks run on it
	quiesce    context.CancelFunc
}

func newServer(p *Plugin) *server {
	s := &server{p: p, calls: newCalls()}
	s.background, s.quiesce = context.WithCancel(context.Background())
	return s
}

func (s *server) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	p := s.p
	resp := &pluginv1.DescribeResponse{
		Name: p.Name, Version: utf8(p.Version), SdkVersion: sdkVersion(),
		ConfigSchema: &pluginv1.ConfigBody{}, Grants: p.Grants,
		Sandbox: &pluginv1.SandboxNeeds{
			Profile: p.Sandbox.Profile, Network: p.Sandbox.Network,
			Read: p.Sandbox.Read, Write: p.Sandbox.Write, Exec: p.Sandbox.Exec,
		},
		Swap:     pluginv1.Swap_SWAP_OVERLAP,
		Services: []string{pluginv1.PluginService_ServiceDesc.ServiceName},
	}
	if p.Settings != nil {
		resp.ConfigSchema = p.Settings.body()
	}
	if p.Swap == Handover {
		resp.Swap = pluginv1.Swap_SWAP_HANDOVER
	}
	return resp, nil
}

func (s *server) Validate(ctx context.Context, req *pluginv1.ValidateRequest) (*pluginv1.ValidateResponse, error) {
	return &pluginv1.ValidateResponse{Diagnostics: s.settings().validate(ctx, req.GetConfigJson()).proto()}, nil
}

func (s *server) settings() Settings {
	if s.p.Settings == nil {
		return noSettings
	}
	return s.p.Settings
}

// noSettings refuses every key for a plugin that has no config.
var noSettings = NewConfig(struct{}{})

func (s *server) Configure(ctx context.Context, req *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.configured.Load()
	if !again {
		printing()
	}
	if h := req.GetHost(); h != nil && !again {
		s.p.facts.Store(&Facts{
			Instance: h.GetInstance(), Generation: h.GetGeneration(), DataDir: h.GetDataDir(),
			SharedDir: h.GetSharedDir(), TempDir: h.GetTempDir(), Granted: h.GetGranted(), HostVersion: h.GetHostVersion(),
		})
	}
	s.p.log.setLevel(req.GetHost().GetLogLevel())
	outcome, diags, err := s.configure(ctx, req.GetConfigJson(), again)
	if err != nil {
		diags.Errorf(Path{}, "plugin %q can't be configured: %v", s.p.Name, err)
	}
	resp := &pluginv1.ConfigureResponse{Diagnostics: diags.proto()}
	switch {
	case diags.HasErrors():
	case !again:
		s.configured.Store(true)
		resp.Outcome = pluginv1.ConfigureResponse_OUTCOME_CONFIGURED
	case outcome == taken:
		resp.Outcome = pluginv1.ConfigureResponse_OUTCOME_RECONFIGURED
	default:
		resp.Outcome = pluginv1.ConfigureResponse_OUTCOME_RESTART_NEEDED
	}
	return resp, nil
}

func (s *server) configure(ctx context.Context, raw []byte, again bool) (configured, Diagnostics, error) {
	if s.p.Settings != nil {
		return s.p.Settings.configure(ctx, raw, again)
	}
	return taken, noSettings.validate(ctx, raw), nil
}

func (s *server) Activate(context.Context, *pluginv1.ActivateRequest) (*pluginv1.ActivateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.configured.Load() {
		return nil, status.Errorf(codes.FailedPrecondition, "plugin %q is not configured", s.p.Name)
	}
	if s.active || s.p.Activate == nil {
		s.active = true
		return &pluginv1.ActivateResponse{}, nil
	}
	if err := s.p.Activate(s.background); err != nil {
		return nil, status.Errorf(codes.Internal, "plugin %q can't start its work: %v", s.p.Name, err)
	}
	s.active = true
	return &pluginv1.ActivateResponse{}, nil
}

func (s *server) Health(ctx context.Context, _ *pluginv1.HealthRequest) (*pluginv1.HealthResponse, error) {
	resp := &pluginv1.HealthResponse{Status: pluginv1.HealthResponse_STATUS_OK}
	if s.p.Health != nil {
		h := s.p.Health(ctx)
		resp.Detail = utf8(h.Detail)
		if h.Degraded {
			resp.Status = pluginv1.HealthResponse_STATUS_DEGRADED
		}
	}
	return resp, nil
}

// Drain ends background work, says so, then waits for the calls in flight and
// cuts those that outlast the deadline.
func (s *server) Drain(req *pluginv1.DrainRequest, stream pluginv1.PluginService_DrainServer) error {
	s.quiesce()
	if s.p.Drain != nil {
		ctx, cancel := context.WithTimeout(stream.Context(), quiesceTime)
		err := s.drainHook(ctx, req.GetReason())
		cancel()
		if err != nil {
			s.p.log.Error("background work did not end well", "error", err)
		}
	}
	if err := stream.Send(&pluginv1.DrainEvent{Event: &pluginv1.DrainEvent_Quiesced{Quiesced: &pluginv1.Quiesced{}}}); err != nil {
		return err
	}
	ctx := stream.Context()
	if ms := req.GetDeadlineMs(); ms > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, millis(ms))
		defer cancel()
	}
	cut := s.calls.drain(ctx)
	return stream.Send(&pluginv1.DrainEvent{Event: &pluginv1.DrainEvent_Drained{Drained: &pluginv1.Drained{CallsCut: uint32(cut)}}})
}

func (s *server) drainHook(ctx context.Context, reason string) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- fmt.Errorf("panic: %v", v)
			}
		}()
		done <- s.p.Drain(ctx, reason)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
