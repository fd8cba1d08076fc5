package host

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bulkhead-dev/bulkhead/host/internal/builtin"
	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/config"
	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/hostservice"
	"github.com/bulkhead-dev/bulkhead/host/internal/httpapi"
	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/mcpserver"
	"github.com/bulkhead-dev/bulkhead/host/internal/memory"
	"github.com/bulkhead-dev/bulkhead/host/internal/metrics"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
)

const (
	stopTime  = 30 * time.Second // all of a stop
	drainTime = 20 * time.Second // what calls in flight get of it
	keptTail  = 1000             // events
)

// Options are how a host is started.
type Options struct {
	Config  *config.Config
	Version string
	Log     hclog.Logger
	// Private hosts live for one command: they open the control socket only.
	Private bool
	// Tune changes the supervisor's times; tests use it.
	Tune func(*supervise.Options)
}

// Host is a running host.
type Host struct {
	API     *httpapi.API
	Plugins *supervise.Supervisor
	Doors   []string // where it listens, for people

	opts     Options
	current  atomic.Pointer[config.Config]
	log      hclog.Logger
	started  time.Time
	lock     *os.File
	short    *os.File // marks the short dir as in use; nil: there is none
	store    *store.Store
	memory   *memory.Memory
	desk     *question.Desk
	pipeline *call.Pipeline
	registry *registry.Registry
	rules    *policy.Policy
	events   *event.Bus
	control  string
	refused  atomic.Int64         // when a peer was last told of, in nanoseconds
	conns    *httpapi.Connections // of the TCP address

	changing sync.Mutex // one change of plugins at a time
	mu       sync.Mutex // guards what follows
	found    []Found
	placed   map[string]placed
	stale    *stale // nil: the config file is in force

	doors   sync.WaitGroup
	watcher sync.WaitGroup
	again   chan struct{} // there may be other things to follow
	closing context.CancelFunc
	ctx     context.Context
}

// Start brings a host up. It returns once its doors are open; plugins go on
// starting side by side.
func Start(ctx context.Context, o Options) (h *Host, err error) {
	h = &Host{opts: o, placed: map[string]placed{}, log: o.Log, started: time.Now().UTC(), events: event.New(keptTail), again: make(chan struct{}, 1)}
	h.current.Store(o.Config)
	h.ctx, h.closing = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
			defer cancel()
			_ = h.Close(end) // the error that stopped the start is the one to tell
		}
	}()
	if err := config.Err(checkTiers(o.Config)); err != nil {
		return h, err
	}
	data := o.Config.Host.DataDir
	if err := os.MkdirAll(filepath.Join(data, "run"), 0o700); err != nil {
		return h, fault.New(fault.DataDirUnusable, "the data dir %s can't be made: %w", data, err)
	}
	if h.lock, err = lock(filepath.Join(data, "run", "lock")); err != nil {
		return h, err
	}
	h.sweepShort(ctx)
	if err := h.takeShort(); err != nil {
		return h, err
	}
	h.sweepRuns()
	if err := sharedDirs(o.Config.Host.DataDir, o.Config.Host.SharedDir); err != nil {
		return h, err
	}
	if h.store, err = store.Open(ctx, store.Options{Dir: data}); err != nil {
		return h, err
	}
	for _, w := range h.store.Warnings() {
		h.log.Warn(w.Message, "code", string(w.Ref))
	}
	if err := h.wire(); err != nil {
		return h, err
	}
	h.auditRisks(o.Config)
	for _, d := range unenforced(o.Config) {
		h.log.Warn(d.Summary, "at", d.Subject.String(), "code", string(config.CodeOf(d)))
	}
	if err := h.desk.Start(ctx); err != nil {
		return h, err
	}
	if err := h.apply(ctx, o.Config); err != nil {
		return h, err
	}
	if err := h.open(); err != nil {
		return h, err
	}
	h.doors.Go(func() { h.sweep(h.ctx) })
	if !o.Private {
		h.watch()
	}
	return h, nil
}

// wire makes the core: everything between the doors and the plugins.
func (h *Host) wire() error {
	cfg, data := h.cfg(), h.cfg().Host.DataDir
	rules := policy.New(rulesOf(cfg))
	h.rules = rules
	h.registry = registry.New(rules)
	h.registry.Publish(registry.Host, 1, builtin.Offers())
	var err error
	h.memory, err = memory.New(memory.Options{Budget: cfg.Host.WorkingMemory, SpillDir: filepath.Join(data, "memory")})
	if err != nil {
		return err
	}
	sessions := session.New(h.store, rules, cfg.Session.ActivatedTools)
	h.desk = question.New(question.Options{Store: h.store, Events: h.events, Log: h.log.Named("questions")})
	meter := metrics.New()
	services := &hostservice.Services{Log: h.log.Named("hostservice"), Store: h.store, Memory: h.memory, Policy: rules, Sessions: sessions, Questions: h.desk,
		Listed: func(a *policy.Agent, s *session.Session) ([]string, int, int) {
			snap := h.registry.Snapshot()
			list := listing.List(snap, a, s.Active(), cfg.Session.ListBudget)
			names := make([]string, len(list))
			for i, t := range list {
				names[i] = t.Name
			}
			return names, len(listing.Callable(snap, a)), cfg.Session.ListBudget
		}}
	tune := supervise.Options{
		DataDir: data, RunDir: h.runDir(), SharedDir: cfg.Host.SharedDir, Hide: h.ownFiles(),
		Offers: h.registry, HostServices: services, DescribeCache: describes{h.store}, Generations: generations{h.store},
		Log: h.log, HostVersion: h.opts.Version, OnEvent: h.pluginEvent,
	}
	if h.opts.Tune != nil {
		h.opts.Tune(&tune)
	}
	h.Plugins = supervise.New(tune)
	h.pipeline = &call.Pipeline{
		Registry: h.registry, Policy: rules, Sessions: sessions, Questions: h.desk, Plugins: h.Plugins,
		Own:    &builtin.Tools{Registry: h.registry, Memory: h.memory, Store: h.store},
		Shaper: &call.Shaper{Memory: h.memory, Threshold: func(model string) int { return h.cfg().Results.For(model) }},
		Audit:  h.store.Audit, Observe: meter.Observe, Events: h.events, Log: h.log.Named("call"),
		PluginTimeout: func(name string) time.Duration {
			if p := h.cfg().Plugin(name); p != nil {
				return p.Limits.CallTimeout
			}
			return 0
		},
	}
	h.pipeline.Settled = h.Plugins.Settled
	services.Calls = h.pipeline
	h.desk.Resume = h.pipeline.Resume
	h.API = &httpapi.API{
		Pipeline: h.pipeline, Registry: h.registry, Policy: rules, Sessions: sessions, Questions: h.desk, Store: h.store,
		Events: h.events, Plugins: h.Plugins, Budget: cfg.Session.ListBudget, Hold: cfg.Policy.ApprovalReplyAfter, Shared: cfg.Host.SharedDir, Metrics: meter.Handler(), Status: h.Status, Ready: h.Ready, Reload: h.Reload, Log: h.log.Named("http"),
		MCP: &mcpserver.Core{Version: h.opts.Version, Pipeline: h.pipeline, Registry: h.registry, Sessions: sessions, Questions: h.desk, Store: h.store,
			Budget: cfg.Session.ListBudget, Hold: cfg.Policy.ApprovalReplyAfter, Log: h.log.Named("mcp")},
	}
	h.API.MCP.Media, h.API.MCP.File = h.API.Media, h.API.File
	h.store.OnInbox(func(session string) {
		h.API.MCP.InboxChanged(session)
		h.events.Publish(event.Event{Type: "inbox.changed", Session: session}, nil)
	})
	if cfg.HTTP != nil {
		name, _, err := net.SplitHostPort(cfg.HTTP.Address)
		h.API.Loopback = err == nil && config.Loopback(name)
		h.API.Hosts, h.API.Origins = cfg.HTTP.Hosts, cfg.HTTP.Origins
	}
	h.conns = httpapi.NewConnections(httpapi.ConnectionLimit(httpapi.OpenFiles()))
	h.API.Share = httpapi.RequestShare(h.conns.Counts().Limit)
	meter.Watch(h.pluginMetrics, h.doorMetrics)
	h.doors.Go(func() { h.API.MCP.Run(h.ctx) })
	return nil
}

// open opens the doors: the control socket always, TCP unless the host is private.
func (h *Host) open() error {
	h.control = ControlSocket(h.cfg().Host.DataDir)
	if err := os.MkdirAll(filepath.Dir(h.control), 0o700); err != nil {
		return err
	}
	if err := os.Remove(h.control); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", h.control)
	if err != nil {
		return fault.New(fault.AddressUnusable, "the control socket can't be opened: %w", err)
	}
	if err := os.Chmod(h.control, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	h.serve("control socket "+h.control, httpapi.SameUser{Listener: l, Refused: h.refusedPeer}, true)
	if h.opts.Private || h.cfg().HTTP == nil {
		return nil
	}
	t, err := net.Listen("tcp", h.cfg().HTTP.Address)
	if err != nil {
		return fault.New(fault.AddressUnusable, "the HTTP address %s can't be opened: %w", h.cfg().HTTP.Address, err)
	}
	h.log.Info("connections of the HTTP address are bounded", "connections", h.conns.Counts().Limit, "open_files", httpapi.OpenFiles())
	h.serve("http://"+t.Addr().String(), t, false)
	return nil
}

// refusedPeer tells of a process that tried the control socket and may not: a
// plugin that poses as the operator, most likely. The log is kept readable.
func (h *Host) refusedPeer(pid int, why string) {
	now := time.Now().UnixNano()
	if last := h.refused.Load(); now-last < int64(time.Second) || !h.refused.CompareAndSwap(last, now) {
		return
	}
	h.log.Warn("a process was refused at the control socket", "pid", pid, "reason", why)
}

func (h *Host) serve(name string, l net.Listener, control bool) {
	handler, conns := h.API.Public(), h.conns
	if control {
		handler, conns = h.API.Control(), nil
	}
	h.Doors = append(h.Doors, name)
	h.doors.Go(func() {
		if err := httpapi.Serve(h.ctx, l, handler, conns, time.Second, h.log.Named("http")); err != nil {
			h.log.Error("a door closed", "door", name, "error", err)
		}
	})
}

// cfg is the config in force.
func (h *Host) cfg() *config.Config { return h.current.Load() }

// Ready says whether every plugin of the config has been ready, or failed, once.
func (h *Host) Ready() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return h.Plugins.ConfiguredSettled(ctx) == nil
}

// Close stops the host within ctx, 30 s at most: no new calls, those in flight
// get 20 s, then plugins drain, and the store is closed last.
func (h *Host) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	var errs []error
	if h.pipeline != nil {
		drain, end := context.WithTimeout(ctx, drainTime)
		h.pipeline.Stop(drain)
		end()
	}
	h.closing()
	if h.API != nil {
		h.API.MCP.Close(ctx)
	}
	h.doors.Wait()
	h.watcher.Wait()
	if h.desk != nil {
		h.desk.Close()
	}
	if h.Plugins != nil {
		errs = append(errs, h.Plugins.Close(ctx))
	}
	if h.memory != nil {
		errs = append(errs, h.memory.Close())
	}
	if h.store != nil {
		errs = append(errs, h.store.Close())
	}
	if h.control != "" {
		if err := os.Remove(h.control); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if h.lock != nil {
		// Another host of this data dir makes it again, but not before the lock is free.
		h.releaseShort()
		errs = append(errs, h.lock.Close())
	}
	return errors.Join(errs...)
}
