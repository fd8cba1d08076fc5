package launch

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// stopGrace is how long a plugin may take to leave by itself.
const stopGrace = 2 * time.Second

// killWait is how long a kill is waited for.
const killWait = 5 * time.Second

// Process is one running plugin.
type Process struct {
	// Conn is the connection to the plugin.
	Conn *grpc.ClientConn
	// Described is what the plugin said of itself at this start.
	Described *pluginv1.DescribeResponse

	spec   Spec
	run    *run
	client *goplugin.Client
	plugin pluginv1.PluginServiceClient
	server atomic.Pointer[grpc.Server]
	done   chan struct{}
}

// Start starts one process of a plugin. Handshake and first answer have
// spec.StartTimeout together; on any failure nothing of the process is left, and
// the error is a *StartError that names the plugin, says what to do and carries
// the last lines of stderr.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	spec, err := spec.normal()
	if err != nil {
		return nil, err
	}
	path, err := spec.prepare()
	if err != nil {
		os.RemoveAll(spec.RunDir)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, spec.StartTimeout)
	defer cancel()

	p := &Process{spec: spec, done: make(chan struct{})}
	p.run = newRun(&p.spec, path)
	p.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: map[int]goplugin.PluginSet{int(wire.Handshake.ProtocolVersion): {wire.PluginSet: glue{}}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
			return p.run, p.run.use(cmd.Env, dir)
		},
		StartTimeout:    spec.StartTimeout,
		AutoMTLS:        true,
		SkipHostEnv:     true,
		Logger:          hclog.NewNullLogger(),
		GRPCDialOptions: dialOptions,
		// What a Go plugin prints by os.Stdout and os.Stderr comes over gRPC; not
		// to read it would block its next print for ever.
		SyncStdout:       &lines{to: p.run.stderr},
		SyncStderr:       &lines{to: p.run.stderr},
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: spec.RunDir},
	})

	connected := make(chan error, 1)
	var to *link
	go func() {
		var err error
		to, err = connect(p.client)
		connected <- err
	}()
	select {
	case err = <-connected:
	case <-ctx.Done():
		p.run.kill() // which ends connect
		<-connected
		err = ctx.Err()
	}
	p.tend()
	if err == nil {
		p.Conn, p.plugin = to.conn, pluginv1.NewPluginServiceClient(to.conn)
		p.serveHost(to.broker)
		p.Described, err = p.plugin.Describe(ctx, &pluginv1.DescribeRequest{HostVersion: spec.HostVersion})
	}
	if err != nil {
		ended := p.ended()
		p.Kill()
		return nil, p.explain(ctx, err, ended)
	}
	return p, nil
}

func connect(c *goplugin.Client) (*link, error) {
	protocol, err := c.Client()
	if err != nil {
		return nil, err
	}
	raw, err := protocol.Dispense(wire.PluginSet)
	if err != nil {
		return nil, err
	}
	return raw.(*link), nil
}

// serveHost offers the host service on its broker id until the process ends.
func (p *Process) serveHost(b *goplugin.GRPCBroker) {
	if p.spec.HostService == nil {
		return
	}
	go b.AcceptAndServe(wire.HostServiceID, func(opts []grpc.ServerOption) *grpc.Server {
		s := hostServer(p.spec.HostService, p.spec.Log, opts)
		p.server.Store(s)
		return s
	})
}

// tend cleans up once the process has ended, however it did.
func (p *Process) tend() {
	p.run.mu.Lock()
	started := p.run.started
	p.run.mu.Unlock()
	go func() {
		if started {
			<-p.run.done
		}
		p.client.Kill() // the process is gone: closes connection, broker and folder
		if s := p.server.Load(); s != nil {
			s.Stop()
		}
		if p.run.guard != nil {
			p.run.guard.Ended()
		}
		os.RemoveAll(p.spec.RunDir)
		close(p.done)
	}()
}

// ended reports whether the process ended by itself; it may be just doing so.
func (p *Process) ended() bool {
	select {
	case <-p.done:
		return true
	case <-time.After(50 * time.Millisecond):
		return false
	}
}

// explain turns the failure of a start into an error of the table.
func (p *Process) explain(ctx context.Context, err error, ended bool) error {
	var own *StartError
	if errors.As(err, &own) {
		if own.Tail == nil {
			own.Tail = p.Tail()
		}
		return own
	}
	tail, s := p.Tail(), &p.spec
	wrong, shaken := p.run.handshake.verdict()
	switch {
	case wrong != nil:
		return &StartError{Fault: wrong, Tail: tail}
	case errors.Is(context.Cause(ctx), context.Canceled):
		return s.failed(fault.PluginStart, tail, "the start was cancelled")
	case ctx.Err() != nil && !shaken:
		return s.failed(fault.PluginStart, tail, "it printed no handshake within %s", s.StartTimeout)
	case ctx.Err() != nil:
		return s.failed(fault.PluginStart, tail, "it answered nothing within %s of its start", s.StartTimeout)
	case ended && !shaken:
		return s.failed(fault.PluginStart, tail, "it ended (%s) before its handshake", p.Exit())
	case ended:
		return s.failed(fault.PluginStart, tail, "it ended (%s) while it was started", p.Exit())
	case status.Code(err) == codes.Unimplemented:
		return s.failed(fault.PluginHandshake, tail, "it does not serve the plugin protocol v1: rebuild it against a current sdk")
	case shaken:
		return s.failed(fault.PluginHandshake, tail, "it can't be reached after its handshake: %v", status.Convert(err).Message())
	}
	return s.failed(fault.PluginStart, tail, "%v", err)
}

// Client is the plugin's service.
func (p *Process) Client() pluginv1.PluginServiceClient { return p.plugin }

// PID is the process id as the host sees it: of the plugin, or of the init or
// keeper it runs under.
func (p *Process) PID() int {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	return p.run.pid
}

// Done is closed when the process has ended and all of it is cleaned up.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how the process ended: "exit status 2", "signal: killed".
func (p *Process) Exit() string { return p.run.exit() }

// Tail is the panic trace, when the process left one, else the last lines of stderr.
func (p *Process) Tail() []string { return p.run.stderr.last() }

// Sandbox says what is in force.
func (p *Process) Sandbox() sandbox.Report {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	return p.run.report
}

// Stop asks the plugin to leave, gives it two seconds (less when ctx ends
// sooner), kills what is left of its tree and waits for the end.
func (p *Process) Stop(ctx context.Context) {
	ask, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	// go-plugin's own Kill asks without a deadline; this is the same request
	// with one.
	if err := p.Conn.Invoke(ask, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{}); err == nil || status.Code(err) == codes.Unavailable {
		select {
		case <-p.done:
			return
		case <-ask.Done():
		}
	}
	p.Kill()
}

// Kill kills the process and all it started, and waits for the end; a process
// that the kernel holds is left behind after five seconds.
func (p *Process) Kill() {
	p.run.kill()
	select {
	case <-p.done:
	case <-time.After(killWait):
		p.spec.Log.Error("a killed plugin process has not ended", "pid", p.PID())
	}
}

// Describe asks a binary what it is, by a throw-away start under strict without
// network and without a host service.
func Describe(ctx context.Context, spec Spec) (*pluginv1.DescribeResponse, error) {
	spec.Sandbox = sandbox.Profile{Name: sandbox.Strict, Network: sandbox.NetworkNone, NoNamespaces: spec.Sandbox.NoNamespaces}
	spec.HostService, spec.SharedDir, spec.Env = nil, "", nil
	p, err := Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer p.Stop(ctx)
	return p.Described, nil
}
