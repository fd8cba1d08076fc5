package sdk

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk/child"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Serve serves the plugin until the host ends it. It is all a main does; one that
// does something before calls child.Init first when it starts children. A mistake
// in the plugin's definition is printed and ends the process with 1.
func Serve(p *Plugin) {
	child.Init()
	conf, err := ServeConfig(p)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	served.Store(p.log)
	slog.SetDefault(p.log.Logger)
	go exitWithParent()
	printing = func() { os.Stdout, os.Stderr = stderr, stderr }
	// A plugin is one of several processes that a call passes through, and Go takes
	// its process for the only one: it gets half of the processors.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // most heaps are small; the host's limit on memory is told by GOMEMLIMIT
	}
	plugin.Serve(conf)
}

// printing puts what the plugin prints, on stdout too, into the host's log. While
// serving, go-plugin has pipes in their place that this host does not read: a
// plugin that prints a lot would stand still.
var printing = func() {}

// streamWorkers is how many goroutines stand ready for calls; one that is reused
// has its stack already. More calls than that get goroutines of their own.
const streamWorkers = 4

// ServeConfig is what Serve gives to go-plugin; for test kits and for programs
// that serve in their own way.
func ServeConfig(p *Plugin) (*plugin.ServeConfig, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return &plugin.ServeConfig{
		HandshakeConfig: wire.Handshake,
		Plugins:         plugin.PluginSet{wire.PluginSet: &glue{p: p}},
		Logger:          hclog.New(&hclog.LoggerOptions{Output: stderr, JSONFormat: true, Level: hclog.Warn, Name: p.Name}),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts,
				grpc.MaxRecvMsgSize(wire.MaxMessage),
				grpc.StaticStreamWindowSize(wire.StreamWindow), grpc.StaticConnWindowSize(wire.ConnWindow),
				grpc.NumStreamWorkers(streamWorkers),
				grpc.ChainUnaryInterceptor(p.recoverUnary),
				grpc.ChainStreamInterceptor(p.recoverStream),
			)...)
		},
	}, nil
}

// glue registers the service with go-plugin; its client half is the host's.
type glue struct {
	plugin.NetRPCUnsupportedPlugin
	p *Plugin
}

func (g *glue) GRPCServer(broker *plugin.GRPCBroker, s *grpc.Server) error {
	pluginv1.RegisterPluginServiceServer(s, newServer(g.p))
	g.p.host.connect(broker)
	return nil
}

func (g *glue) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, status.Error(codes.Unimplemented, "the sdk serves plugins, it does not host them")
}

func (p *Plugin) recoverUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer p.recovered(info.FullMethod, &err)
	return next(ctx, req)
}

func (p *Plugin) recoverStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer p.recovered(info.FullMethod, &err)
	return next(srv, stream)
}

func (p *Plugin) recovered(method string, err *error) {
	if v := recover(); v != nil {
		p.log.Error("panic", "method", method, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "plugin %q panicked in %s: %v", p.Name, method, v)
	}
}

// exitWithParent ends the process when its host is gone: where the kernel sends
// no signal then, the parent's id changes.
func exitWithParent() {
	parent := os.Getppid()
	for os.Getppid() == parent {
		time.Sleep(time.Second)
	}
	io.WriteString(stderr, "the host is gone\n")
	os.Exit(0)
}
