package supervise

import (
	"context"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// Supervisor runs all plugins.
type Supervisor struct {
	opts  Options
	units atomic.Pointer[map[string]*unit] // replaced, never changed

	mu     sync.Mutex // guards the replacing, and closed
	closed bool

	runs  atomic.Uint64 // numbers run dirs
	descs describer
}

// New makes a Supervisor without plugins.
func New(opts Options) *Supervisor {
	s := &Supervisor{opts: opts.normal()}
	s.units.Store(&map[string]*unit{})
	s.descs.init(s)
	return s
}

// Add takes a plugin and starts it beside all others. It returns at once; a
// plugin that can't be started is shown by Status and tried again.
func (s *Supervisor) Add(p Plugin) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.New(fault.HostStopping, "the host is stopping; plugin %q is not started", p.Name)
	}
	old := *s.units.Load()
	if _, twice := old[p.Name]; twice {
		return fault.New(fault.NameTaken, "there are two plugins named %q", p.Name)
	}
	u := newUnit(s, p.normal())
	units := maps.Clone(old)
	units[p.Name] = u
	s.units.Store(&units)
	go u.live()
	return nil
}

// Remove stops a plugin for good and withdraws its offers.
func (s *Supervisor) Remove(ctx context.Context, name string) error {
	u, err := s.unit(name)
	if err != nil {
		return err
	}
	u.close(ctx)
	s.mu.Lock()
	units := maps.Clone(*s.units.Load())
	delete(units, name)
	s.units.Store(&units)
	s.mu.Unlock()
	s.opts.Offers.Withdraw(name)
	return nil
}

func (s *Supervisor) unit(name string) (*unit, error) {
	if u := (*s.units.Load())[name]; u != nil {
		return u, nil
	}
	return nil, fault.New(fault.UnknownPlugin, "no plugin is named %q", name)
}

// sorted lists the units by name.
func (s *Supervisor) sorted() []*unit {
	units := *s.units.Load()
	var list []*unit
	for _, name := range slices.Sorted(maps.Keys(units)) {
		list = append(list, units[name])
	}
	return list
}

// Settled waits until every plugin has been ready or has failed once.
func (s *Supervisor) Settled(ctx context.Context) error {
	return s.settled(ctx, func(Plugin) bool { return true })
}

// ConfiguredSettled is Settled for the plugins the config names: a stray one in
// the folder holds nobody up.
func (s *Supervisor) ConfiguredSettled(ctx context.Context) error {
	return s.settled(ctx, func(p Plugin) bool { return p.Configured })
}

func (s *Supervisor) settled(ctx context.Context, among func(Plugin) bool) error {
	for _, u := range s.sorted() {
		if !among(u.plugin()) {
			continue
		}
		select {
		case <-u.settled:
			continue // also when ctx has ended: between two ready cases chance would choose
		default:
		}
		select {
		case <-u.settled:
		case <-ctx.Done():
			return fault.From(ctx.Err())
		}
	}
	return nil
}

// Restart replaces a plugin's process by a new one and clears its quarantine.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	return s.command(ctx, name, func(ctx context.Context, u *unit) error { return u.restartNow(ctx) })
}

// Stop drains a plugin and leaves it stopped.
func (s *Supervisor) Stop(ctx context.Context, name string) error {
	if u := (*s.units.Load())[name]; u != nil {
		u.giveUpStart()
	}
	return s.command(ctx, name, func(ctx context.Context, u *unit) error { return u.stop(ctx) })
}

// Start starts a plugin that was stopped or quarantined.
func (s *Supervisor) Start(ctx context.Context, name string) error {
	return s.command(ctx, name, func(ctx context.Context, u *unit) error { return u.resume(ctx) })
}

// Swap brings p up beside its running generation and replaces it, as the plugin
// described: overlap or handover. When p can't be started the old one goes on.
func (s *Supervisor) Swap(ctx context.Context, p Plugin) error {
	return s.command(ctx, p.Name, func(ctx context.Context, u *unit) error { return u.swap(ctx, p.normal()) })
}

// Update takes a changed config: what acts on launch means a swap, the rest is
// given to the running plugin, which takes it or asks for a swap.
func (s *Supervisor) Update(ctx context.Context, p Plugin) error {
	return s.command(ctx, p.Name, func(ctx context.Context, u *unit) error { return u.update(ctx, p.normal()) })
}

func (s *Supervisor) command(ctx context.Context, name string, do func(context.Context, *unit) error) error {
	u, err := s.unit(name)
	if err != nil {
		return err
	}
	return u.do(ctx, do)
}

// Status lists all plugins by name.
func (s *Supervisor) Status() []Status {
	var list []Status
	for _, u := range s.sorted() {
		list = append(list, u.status())
	}
	return list
}

// Close drains and stops all plugins side by side; when ctx ends, what is left
// is killed. New calls are refused from the start.
func (s *Supervisor) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var wait sync.WaitGroup
	for _, u := range s.sorted() {
		wait.Go(func() { u.close(ctx) })
	}
	wait.Wait()
	return nil
}

// RunDirName is how folders for one process each are named in Options.RunDir.
var RunDirName = regexp.MustCompile(`^p[0-9a-z]{1,13}$`)

// runDir is a fresh short folder for one process.
func (s *Supervisor) runDir() string {
	return filepath.Join(s.opts.RunDir, "p"+strconv.FormatUint(s.runs.Add(1), 36))
}
