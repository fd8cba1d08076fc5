//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

func main() {
	if mode := os.Getenv("TESTPLUGIN_CHILD"); mode != "" {
		child(mode)
		return
	}
	if mode := os.Getenv("TESTPLUGIN_START"); mode != "" {
		misstart(mode)
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: wire.Handshake,
		Plugins:         goplugin.PluginSet{wire.PluginSet: &glue{}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(wire.MaxMessage))...)
		},
	})
}

type glue struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (*glue) GRPCServer(b *goplugin.GRPCBroker, s *grpc.Server) error {
	srv := &server{broker: b, running: map[string]context.CancelFunc{}, host: make(chan pluginv1.HostServiceClient, 1), changed: make(chan struct{}, 1)}
	pluginv1.RegisterPluginServiceServer(s, srv)
	go func() {
		if conn, err := b.Dial(wire.HostServiceID); err == nil {
			srv.host <- pluginv1.NewHostServiceClient(conn)
		}
	}()
	return nil
}

func (*glue) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, os.ErrInvalid
}

type server struct {
	pluginv1.UnimplementedPluginServiceServer
	broker  *goplugin.GRPCBroker
	host    chan pluginv1.HostServiceClient
	changed chan struct{}
	active  atomic.Bool

	mu       sync.Mutex
	life     []string
	running  map[string]context.CancelFunc
	degraded string
	facts    *pluginv1.HostFacts
	revision uint64
}

func (s *server) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life = append(s.life, what)
}

func (s *server) Describe(_ context.Context, _ *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	if os.Getenv("TESTPLUGIN_HANG") == "describe" {
		select {}
	}
	d := &pluginv1.DescribeResponse{Name: "testplugin", Version: "1.0.0", Swap: pluginv1.Swap_SWAP_OVERLAP, Grants: []string{"tool:echo"}}
	return d, nil
}

func (s *server) Validate(_ context.Context, r *pluginv1.ValidateRequest) (*pluginv1.ValidateResponse, error) {
	if string(r.GetConfigJson()) == `{"refuse":true}` {
		return &pluginv1.ValidateResponse{Diagnostics: []*pluginv1.Diagnostic{{
			Severity: pluginv1.Severity_SEVERITY_ERROR, Summary: "refuse is set",
			Path: []*pluginv1.PathStep{{Step: &pluginv1.PathStep_Attribute{Attribute: "refuse"}}},
		}}}, nil
	}
	return &pluginv1.ValidateResponse{}, nil
}

func (s *server) Configure(_ context.Context, r *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	if os.Getenv("TESTPLUGIN_HANG") == "configure" {
		select {}
	}
	s.note("configure")
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.facts != nil
	s.facts = r.GetHost()
	switch {
	case again && string(r.GetConfigJson()) == `{"restart":true}`:
		return &pluginv1.ConfigureResponse{Outcome: pluginv1.ConfigureResponse_OUTCOME_RESTART_NEEDED}, nil
	case again:
		return &pluginv1.ConfigureResponse{Outcome: pluginv1.ConfigureResponse_OUTCOME_RECONFIGURED}, nil
	}
	return &pluginv1.ConfigureResponse{Outcome: pluginv1.ConfigureResponse_OUTCOME_CONFIGURED}, nil
}

func (s *server) WatchOffers(_ *pluginv1.WatchOffersRequest, out grpc.ServerStreamingServer[pluginv1.OfferSnapshot]) error {
	if os.Getenv("TESTPLUGIN_HANG") == "offers" {
		<-out.Context().Done()
		return nil
	}
	for {
		s.mu.Lock()
		s.revision++
		rev := s.revision
		s.mu.Unlock()
		// In two parts, as a large snapshot comes.
		if err := out.Send(&pluginv1.OfferSnapshot{Revision: rev, More: true, Tools: []*pluginv1.Tool{{Name: "echo", InputSchema: []byte(`{"type":"object"}`)}}}); err != nil {
			return err
		}
		for os.Getenv("TESTPLUGIN_HANG") == "offerflood" {
			if err := out.Send(&pluginv1.OfferSnapshot{Revision: rev, More: true, Tools: make64Tools()}); err != nil {
				return err
			}
		}
		if err := out.Send(&pluginv1.OfferSnapshot{Revision: rev, Tools: []*pluginv1.Tool{{Name: "sleep", InputSchema: []byte(`{"type":"object"}`)}}}); err != nil {
			return err
		}
		select {
		case <-s.changed:
		case <-out.Context().Done():
			return nil
		}
	}
}

func make64Tools() []*pluginv1.Tool {
	tools := make([]*pluginv1.Tool, 64)
	for i := range tools {
		tools[i] = &pluginv1.Tool{Name: "filler", Description: string(make([]byte, 1024))}
	}
	return tools
}

func (s *server) Activate(context.Context, *pluginv1.ActivateRequest) (*pluginv1.ActivateResponse, error) {
	s.mu.Lock()
	flag := filepath.Join(s.facts.GetDataDir(), "fail-activate")
	s.mu.Unlock()
	time.Sleep(100 * time.Millisecond) // the work it has to do
	if _, err := os.Stat(flag); err == nil || os.Getenv("TESTPLUGIN_ACTIVATE") == "fail" {
		return nil, status.Error(codes.Internal, "it can't start its work")
	}
	s.note("activate")
	s.active.Store(true)
	return &pluginv1.ActivateResponse{}, nil
}

func (s *server) Health(ctx context.Context, _ *pluginv1.HealthRequest) (*pluginv1.HealthResponse, error) {
	s.mu.Lock()
	detail := s.degraded
	s.mu.Unlock()
	switch detail {
	case "":
		return &pluginv1.HealthResponse{Status: pluginv1.HealthResponse_STATUS_OK}, nil
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &pluginv1.HealthResponse{Status: pluginv1.HealthResponse_STATUS_DEGRADED, Detail: detail}, nil
}

func (s *server) Drain(_ *pluginv1.DrainRequest, out grpc.ServerStreamingServer[pluginv1.DrainEvent]) error {
	s.note("drain")
	if os.Getenv("TESTPLUGIN_HANG") == "drain" {
		<-out.Context().Done()
		return nil
	}
	if err := out.Send(&pluginv1.DrainEvent{Event: &pluginv1.DrainEvent_Quiesced{Quiesced: &pluginv1.Quiesced{}}}); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		n := len(s.running)
		s.mu.Unlock()
		if n == 0 {
			return out.Send(&pluginv1.DrainEvent{Event: &pluginv1.DrainEvent_Drained{Drained: &pluginv1.Drained{}}})
		}
		select {
		case <-out.Context().Done():
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *server) Cancel(_ context.Context, r *pluginv1.CancelRequest) (*pluginv1.CancelResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cancel, ok := s.running[r.GetCallId()]
	if ok {
		cancel()
	}
	return &pluginv1.CancelResponse{Found: ok}, nil
}

func (s *server) Invoke(r *pluginv1.InvokeRequest, out grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
	if !s.active.Load() {
		s.note("early call")
	}
	ctx, cancel := context.WithCancel(out.Context())
	defer cancel()
	s.mu.Lock()
	s.running[r.GetCallId()] = cancel
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.running, r.GetCallId())
		s.mu.Unlock()
	}()
	return s.tool(ctx, r, out)
}
