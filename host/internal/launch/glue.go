package launch

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// maxKnocks bounds what a plugin may tell the broker: every message costs the
// host memory for good. One is all an honest plugin sends.
const maxKnocks = 16

// maxHostStreams bounds the calls one plugin may have open at its host.
const maxHostStreams = 256

// link is what go-plugin dispenses: the connection and the broker.
type link struct {
	conn   *grpc.ClientConn
	broker *goplugin.GRPCBroker
}

// glue is the host's half of the plugin set.
type glue struct {
	goplugin.NetRPCUnsupportedPlugin
}

// GRPCClient hands out connection and broker.
func (glue) GRPCClient(_ context.Context, b *goplugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return &link{c, b}, nil
}

// GRPCServer is the plugin's half.
func (glue) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return fmt.Errorf("the host serves no plugins")
}

var dialOptions = []grpc.DialOption{
	grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage)),
	grpc.WithStreamInterceptor(narrow),
	grpc.WithDisableServiceConfig(),
	grpc.WithDisableRetry(),
	grpc.WithIdleTimeout(0), // a plugin that rests keeps its connection
	grpc.WithStaticStreamWindowSize(wire.StreamWindow), grpc.WithStaticConnWindowSize(wire.ConnWindow),
}

// narrow bounds what the broker's stream may say. go-plugin's stdio stream stays
// open: it ends in the bounded log.
func narrow(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err == nil && strings.HasPrefix(method, "/plugin.GRPCBroker/") {
		return &knocks{ClientStream: s}, nil
	}
	return s, err
}

type knocks struct {
	grpc.ClientStream
	n int // only the broker's one reader counts
}

func (k *knocks) RecvMsg(m any) error {
	if k.n++; k.n > maxKnocks {
		return status.Error(codes.ResourceExhausted, "the plugin knocks too often")
	}
	return k.ClientStream.RecvMsg(m)
}

// hostServer serves the host service to one process.
func hostServer(svc pluginv1.HostServiceServer, log hclog.Logger, opts []grpc.ServerOption) *grpc.Server {
	rescue := func(method string, err *error) {
		if r := recover(); r != nil {
			log.Error("a host service call panicked", "method", method, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			*err = status.Error(codes.Internal, "the host failed at this call; its log says why")
		}
	}
	opts = append(opts,
		grpc.MaxRecvMsgSize(wire.MaxMessage), grpc.MaxSendMsgSize(wire.MaxMessage),
		grpc.StaticStreamWindowSize(wire.StreamWindow), grpc.StaticConnWindowSize(wire.ConnWindow),
		grpc.MaxConcurrentStreams(maxHostStreams),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
			defer rescue(info.FullMethod, &err)
			return next(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
			defer rescue(info.FullMethod, &err)
			return next(srv, ss)
		}),
	)
	s := grpc.NewServer(opts...)
	pluginv1.RegisterHostServiceServer(s, svc)
	return s
}
