package sdktest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// connection is a served plugin and the client to it.
type connection struct {
	client pluginv1.PluginServiceClient
	close  func()
}

// hostGlue is the host's half of the plugin set: it serves the host service to
// the plugin as soon as it is connected.
type hostGlue struct {
	plugin.NetRPCUnsupportedPlugin
	host     *FakeHost
	arrivals *arrivals
}

// arrivals tells when the plugin has connected to the host service.
type arrivals struct {
	once  sync.Once
	first chan struct{}
}

func (a *arrivals) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (a *arrivals) HandleRPC(context.Context, stats.RPCStats)                         {}
func (a *arrivals) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (a *arrivals) HandleConn(context.Context, stats.ConnStats)                       { a.once.Do(func() { close(a.first) }) }

func (g *hostGlue) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("sdktest is the host's side")
}

func (g *hostGlue) GRPCClient(_ context.Context, broker *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	go broker.AcceptAndServe(wire.HostServiceID, func(opts []grpc.ServerOption) *grpc.Server {
		server := grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(wire.MaxMessage), grpc.StatsHandler(g.arrivals))...)
		pluginv1.RegisterHostServiceServer(server, g.host)
		return server
	})
	return pluginv1.NewPluginServiceClient(conn), nil
}

// serve runs p in this process behind go-plugin's own server and socket.
func serve(t TB, p *sdk.Plugin, host *FakeHost) *connection {
	t.Helper()
	conf, err := sdk.ServeConfig(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	attach := make(chan *plugin.ReattachConfig, 1)
	closed := make(chan struct{})
	conf.Logger = hclog.NewNullLogger()
	conf.Test = &plugin.ServeTestConfig{Context: ctx, ReattachConfigCh: attach, CloseCh: closed}
	go plugin.Serve(conf)
	var at *plugin.ReattachConfig
	select {
	case at = <-attach:
	case <-time.After(limit):
		stop()
		t.Fatal("the plugin does not serve")
	}
	return dial(t, &plugin.ClientConfig{Reattach: at}, host, func() {
		defer p.Close()
		defer stop()
		select {
		case <-closed: // closing the connection has stopped the server
		case <-time.After(limit):
			t.Error("the plugin does not stop serving")
		}
	})
}

// launch starts a binary with the environment a host would give it.
func launch(t TB, path string, s *Session) *connection {
	t.Helper()
	cmd := exec.Command(path)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.DataDir, "TMPDIR=" + s.TempDir,
		wire.EnvShared + "=" + s.SharedDir, wire.EnvSharedLegacy + "=" + s.SharedDir,
	}, s.opts.env...)
	logs := &lockedBuffer{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the plugin wrote:\n%s", logs.String())
		}
	})
	return dial(t, &plugin.ClientConfig{
		Cmd: cmd, SkipHostEnv: true, AutoMTLS: true, StartTimeout: limit, Stderr: logs,
	}, s.Host, func() {})
}

func dial(t TB, conf *plugin.ClientConfig, host *FakeHost, after func()) *connection {
	t.Helper()
	conf.HandshakeConfig = wire.Handshake
	glue := &hostGlue{host: host, arrivals: &arrivals{first: make(chan struct{})}}
	conf.Plugins = plugin.PluginSet{wire.PluginSet: glue}
	conf.AllowedProtocols = []plugin.Protocol{plugin.ProtocolGRPC}
	conf.Logger = hclog.NewNullLogger()
	client := plugin.NewClient(conf)
	done := func() {
		client.Kill()
		after()
	}
	rpc, err := client.Client()
	if err != nil {
		done()
		t.Fatalf("the plugin does not start: %v", err)
	}
	if conf.Reattach != nil {
		// Kill leaves a plugin of this very process alone, and the connection too.
		kill := done
		done = func() {
			_ = rpc.Close() // what it can't close ends with the server
			kill()
		}
	}
	raw, err := rpc.Dispense(wire.PluginSet)
	if err != nil {
		done()
		t.Fatalf("the plugin does not serve the protocol: %v", err)
	}
	if conf.Reattach != nil {
		// An end before the plugin has its connection would leave it dialling.
		select {
		case <-glue.arrivals.first:
		case <-time.After(limit):
			done()
			t.Fatal("the plugin does not connect to the host service")
		}
	}
	c := &connection{client: raw.(pluginv1.PluginServiceClient), close: sync.OnceFunc(done)}
	t.Cleanup(c.close)
	return c
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
