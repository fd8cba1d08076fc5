package supervise

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/launch"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// maxAbandoned handlers that do not return recycle the plugin.
const maxAbandoned = 3

// generation is one start of a plugin.
type generation struct {
	u         *unit
	number    uint64
	spec      Plugin
	desc      *pluginv1.DescribeResponse
	proc      *launch.Process
	tempDir   string
	config    []byte
	startedAt time.Time

	ctx    context.Context // ends with the generation
	cancel context.CancelFunc
	ending sync.Once

	refs     atomic.Int64 // calls in flight, and the closed bit
	idle     chan struct{}
	idleOnce sync.Once

	sick      chan error    // what the probes found
	full      chan struct{} // too many abandoned handlers
	abandoned atomic.Int32

	offers *offers
	latest *pluginv1.OfferSnapshot // guarded by u.mu
}

// closedBit marks refs of a generation that takes no more calls.
const closedBit = 1 << 62

// enter counts a call in; false when the generation takes none.
func (g *generation) enter() bool {
	if g.refs.Add(1)&closedBit == 0 {
		return true
	}
	g.exit()
	return false
}

// exit counts a call out.
func (g *generation) exit() {
	if g.refs.Add(-1) == closedBit {
		g.idleOnce.Do(func() { close(g.idle) })
	}
}

// retire refuses calls from now on; idle is closed when the last has ended.
func (g *generation) retire() {
	if g.refs.Or(closedBit) == 0 {
		g.idleOnce.Do(func() { close(g.idle) })
	}
}

// closed reports whether the generation was retired.
func (g *generation) closed() bool { return g.refs.Load()&closedBit != 0 }

// end frees what belongs to a generation whose process has ended.
func (g *generation) end() {
	g.ending.Do(func() {
		g.retire()
		g.cancel()
		if hs := g.u.s.opts.HostServices; hs != nil {
			hs.Revoke(g.u.name, g.number)
		}
		os.RemoveAll(g.tempDir)
	})
}

// count is the number of the next generation. u.mu is held.
func (u *unit) count() (uint64, error) {
	if counter := u.s.opts.Generations; counter != nil {
		n, err := counter.Next(u.name)
		if err != nil {
			return 0, err
		}
		u.number = max(n, u.number+1)
		return u.number, nil
	}
	u.number++
	return u.number, nil
}

// bring starts a generation up to its first offers. Nobody sees it yet; on error
// nothing of it is left.
func (u *unit) bring(ctx context.Context, spec Plugin) (_ *generation, err error) {
	opts := &u.s.opts
	desc, err := u.s.descs.describe(ctx, spec)
	if err != nil {
		return nil, err
	}
	config, paths, err := configOf(spec, desc)
	if err != nil {
		return nil, err
	}
	profile, err := profileOf(spec, desc, paths)
	if err != nil {
		return nil, err
	}
	profile.NoNamespaces, profile.Hide = opts.NoNamespaces, opts.Hide

	u.mu.Lock()
	number, err := u.count()
	if err != nil {
		u.mu.Unlock()
		return nil, err
	}
	u.desc = desc
	u.mu.Unlock()

	g := &generation{
		u: u, number: number, spec: spec, desc: desc, config: config, startedAt: time.Now(),
		tempDir: filepath.Join(opts.DataDir, "tmp", fmt.Sprintf("%s-%d", spec.Name, number)),
		idle:    make(chan struct{}),
		sick:    make(chan error, 1),
		full:    make(chan struct{}, 1),
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	ls := u.s.spec(spec)
	ls.Generation, ls.TempDir, ls.Sandbox = number, g.tempDir, profile
	ls.SharedDir = u.s.sharedDir(spec)
	if opts.HostServices != nil {
		ls.HostService = opts.HostServices.For(spec.Name, number)
	}
	g.proc, err = launch.Start(ctx, ls)
	if err != nil {
		g.end()
		return nil, err
	}
	defer func() {
		if err != nil {
			u.noteTail(g.proc.Tail())
			g.proc.Kill()
			g.end()
		}
	}()
	if lacks := g.proc.Sandbox().Missing; len(lacks) > 0 {
		u.log.Warn("the sandbox is weaker than the default asks for", "missing", strings.Join(lacks, "; "))
	}
	if err := g.configure(ctx); err != nil {
		return nil, err
	}
	if err := g.firstOffers(ctx); err != nil {
		return nil, err
	}
	return g, nil
}

// configure validates and configures.
func (g *generation) configure(ctx context.Context) error {
	opts := &g.u.s.opts
	vctx, cancel := context.WithTimeout(ctx, opts.ConfigTimeout)
	defer cancel()
	valid, err := g.proc.Client().Validate(vctx, &pluginv1.ValidateRequest{ConfigJson: g.config})
	if err != nil {
		return g.failed("Validate", err)
	}
	if err := refusal(g.u.name, valid.GetDiagnostics()); err != nil {
		return err
	}
	cctx, cancel := context.WithTimeout(ctx, opts.ConfigTimeout)
	defer cancel()
	done, err := g.proc.Client().Configure(cctx, &pluginv1.ConfigureRequest{ConfigJson: g.config, Host: g.facts()})
	if err != nil {
		return g.failed("Configure", err)
	}
	if err := refusal(g.u.name, done.GetDiagnostics()); err != nil {
		return err
	}
	if o := done.GetOutcome(); o != pluginv1.ConfigureResponse_OUTCOME_CONFIGURED {
		return fault.New(fault.PluginProtocol, "plugin %q answered %s to its first Configure", g.u.name, o)
	}
	return nil
}

func (g *generation) facts() *pluginv1.HostFacts {
	s := g.u.s
	return &pluginv1.HostFacts{
		Instance: g.u.name, Generation: g.number,
		DataDir: s.dataDir(g.u.name), SharedDir: s.sharedDir(g.spec), TempDir: g.tempDir,
		Granted: g.spec.Grants, MaxMessageBytes: wire.MaxMessage,
		LogLevel: levelName(s.opts.Log), HostVersion: s.opts.HostVersion,
	}
}

// refusal makes an error of the first diagnostic that is one.
func refusal(plugin string, diags []*pluginv1.Diagnostic) error {
	for _, d := range diags {
		if d.GetSeverity() == pluginv1.Severity_SEVERITY_WARNING {
			continue
		}
		text := d.GetSummary()
		if d.GetDetail() != "" {
			text += "; " + d.GetDetail()
		}
		return fault.New(fault.PluginConfig, "plugin %q refuses its config: %s", plugin, text)
	}
	return nil
}

// failed explains why a step of the start failed.
func (g *generation) failed(step string, err error) error {
	select {
	case <-g.proc.Done():
		return fault.New(fault.PluginStart, "plugin %q ended (%s) during %s", g.u.name, g.proc.Exit(), step)
	case <-time.After(100 * time.Millisecond):
	}
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return fault.New(fault.PluginStart, "plugin %q did not answer %s in time", g.u.name, step)
	case codes.Canceled:
		return fault.New(fault.PluginStart, "the start of plugin %q was given up during %s", g.u.name, step)
	case codes.ResourceExhausted:
		return fault.New(fault.PluginMessageSize, "plugin %q answered %s with more than %d bytes", g.u.name, step, wire.MaxMessage)
	}
	return fault.New(fault.PluginStart, "plugin %q failed at %s: %s", g.u.name, step, status.Convert(err).Message())
}

// serve makes g the serving generation of a unit that has none.
func (u *unit) serve(ctx context.Context, g *generation) error {
	g.fence()
	if err := g.activate(ctx); err != nil {
		u.discard(g)
		return err
	}
	u.promote(g)
	u.ready()
	return nil
}

// promote publishes g's offers and lets calls in.
func (u *unit) promote(g *generation) {
	u.mu.Lock()
	u.holding = false
	u.spec = g.spec
	u.desc = g.desc
	u.cur.Store(g)
	u.s.opts.Offers.Publish(u.name, g.number, g.latest)
	close(u.changed)
	u.changed = make(chan struct{})
	u.mu.Unlock()
	u.slots.resize(g.spec.Limits)
	go g.watch()
	go g.probe()
}

// ready marks the unit so.
func (u *unit) ready() {
	u.next.Stop()
	u.healthy.Reset(u.s.opts.HealthyReset)
	u.mu.Lock()
	u.at = time.Time{}
	u.mu.Unlock()
	u.noteKept(nil)
	u.set(Ready, "")
	u.settle.Do(func() { close(u.settled) })
}

// fence refuses what generations before this one still write.
func (g *generation) fence() {
	if hs := g.u.s.opts.HostServices; hs != nil {
		hs.Serving(g.u.name, g.number)
	}
}

// activate starts the plugin's own work. No call reaches it before.
func (g *generation) activate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.u.s.opts.ConfigTimeout)
	defer cancel()
	if _, err := g.proc.Client().Activate(ctx, &pluginv1.ActivateRequest{}); err != nil {
		return g.failed("Activate", err)
	}
	return nil
}

// drain asks for the end of background work and waits for it, for a bounded time.
// It reports whether the plugin said that it is quiet.
func (g *generation) drain(ctx context.Context, reason string) bool {
	limit := g.u.s.opts.QuiesceTimeout
	dctx, cancel := context.WithCancel(g.ctx) // the stream lives on until the generation ends
	defer context.AfterFunc(ctx, cancel)()
	timer := time.AfterFunc(limit, cancel)
	defer timer.Stop()
	stream, err := g.proc.Client().Drain(dctx, &pluginv1.DrainRequest{DeadlineMs: limit.Milliseconds(), Reason: reason})
	for err == nil {
		var ev *pluginv1.DrainEvent
		if ev, err = stream.Recv(); err == nil && (ev.GetQuiesced() != nil || ev.GetDrained() != nil) {
			return true
		}
	}
	cancel()
	select {
	case <-g.proc.Done():
		return true // nothing of it works any more
	default:
	}
	return status.Code(err) == codes.Unimplemented
}

// configOf evaluates the config block.
func configOf(spec Plugin, desc *pluginv1.DescribeResponse) ([]byte, []sandbox.Path, error) {
	if spec.Config == nil {
		return []byte("{}"), nil, nil
	}
	json, paths, err := spec.Config(desc.GetConfigSchema())
	if err != nil {
		return nil, nil, fault.New(fault.PluginConfig, "plugin %q: %w", spec.Name, err)
	}
	return json, paths, nil
}
