package supervise

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/launch"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// unit is one configured plugin. Its goroutine, live, makes every decision about
// its life; callers only read.
type unit struct {
	s     *Supervisor
	name  string
	log   hclog.Logger
	slots *slots
	cur   atomic.Pointer[generation] // the serving generation

	settled  chan struct{} // closed when it was ready or failed once
	settle   sync.Once
	commands chan command
	life     context.Context // ends with close
	die      context.CancelFunc
	quitOnce sync.Once
	ended    chan struct{} // closed when live has ended
	lingers  sync.WaitGroup

	// Only live and what it calls use these.
	exits    []time.Time
	attempts int
	next     *time.Timer // the next attempt
	healthy  *time.Timer // ready for long enough

	mu      sync.Mutex
	spec    Plugin
	state   State
	since   time.Time
	detail  string
	number  uint64 // of the last generation
	desc    *pluginv1.DescribeResponse
	restart int // unplanned exits
	waiting int // calls that wait for a generation
	lastErr *fault.Error
	lastAt  time.Time    // of lastErr
	kept    *fault.Error // why an older generation, or config, goes on
	keptAt  time.Time
	tail    []string
	at      time.Time     // of the next attempt
	holding bool          // calls wait for a handover
	changed chan struct{} // closed at every change
	abort   context.CancelFunc
	closing context.Context // of close; nil before
}

type command struct {
	ctx  context.Context
	do   func(context.Context, *unit) error
	done chan error
}

func newUnit(s *Supervisor, p Plugin) *unit {
	u := &unit{
		s: s, name: p.Name, spec: p,
		log:   s.opts.Log.Named(p.Name),
		slots: newSlots(p.Name, p.Limits),

		settled:  make(chan struct{}),
		commands: make(chan command),
		ended:    make(chan struct{}),
		changed:  make(chan struct{}),
		state:    Starting,
		since:    time.Now(),
		next:     time.NewTimer(0),
		healthy:  time.NewTimer(time.Hour),
	}
	u.healthy.Stop()
	u.life, u.die = context.WithCancel(context.Background())
	return u
}

// live is the unit's life.
func (u *unit) live() {
	defer close(u.ended)
	defer u.next.Stop()
	defer u.healthy.Stop()
	for {
		var died <-chan struct{}
		var sick <-chan error
		var full <-chan struct{}
		g := u.cur.Load()
		if g != nil {
			died, sick, full = g.proc.Done(), g.sick, g.full
		}
		select {
		case <-u.life.Done():
			u.shutdown()
			return
		case c := <-u.commands:
			ctx, cancel := context.WithCancel(c.ctx)
			stop := context.AfterFunc(u.life, cancel)
			c.done <- c.do(ctx, u)
			stop()
			cancel()
		case <-u.next.C:
			u.try(u.context())
		case <-died:
			u.lost(g, fault.New(fault.PluginDied, "plugin %q ended: %s", u.name, g.proc.Exit()))
		case err := <-sick:
			g.proc.Kill()
			u.lost(g, fault.From(err))
		case <-full:
			u.log.Warn("recycling the plugin: its handlers do not return after cancel")
			if err := u.swap(u.context(), u.plugin()); err != nil && u.cur.Load() == g {
				g.proc.Kill()
				u.lost(g, fault.New(fault.PluginDied, "plugin %q was killed: its handlers do not return after cancel", u.name))
			}
		case <-u.healthy.C:
			u.exits, u.attempts = nil, 0
		}
	}
}

// context ends with the unit, or when abort is called.
func (u *unit) context() context.Context {
	ctx, cancel := context.WithCancel(u.life)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.abort != nil {
		u.abort()
	}
	u.abort = cancel
	return ctx
}

// giveUpStart ends a start that is under way.
func (u *unit) giveUpStart() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.abort != nil {
		u.abort()
	}
}

func (u *unit) plugin() Plugin {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.spec
}

// do runs a command in the unit's goroutine.
func (u *unit) do(ctx context.Context, do func(context.Context, *unit) error) error {
	c := command{ctx, do, make(chan error, 1)}
	select {
	case u.commands <- c:
	case <-u.ended:
		return fault.New(fault.HostStopping, "plugin %q is being stopped", u.name)
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
	return <-c.done // every command ends with its ctx
}

// try starts a generation and serves it.
func (u *unit) try(ctx context.Context) error {
	if u.cur.Load() != nil {
		return nil
	}
	u.mu.Lock()
	state := Starting
	if u.number > 0 {
		state = Restarting
	}
	spec := u.spec
	u.mu.Unlock()
	u.set(state, "")
	g, err := u.bring(ctx, spec)
	if err == nil {
		err = u.serve(ctx, g)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		u.set(Restarting, "")
		return err // stopped meanwhile; who did it decides what is next
	}
	u.unplanned(err)
	return err
}

// lost records the end of the serving generation and plans the next.
func (u *unit) lost(g *generation, err *fault.Error) {
	u.cur.CompareAndSwap(g, nil)
	u.noteTail(g.proc.Tail())
	g.end()
	u.unplanned(err)
}

// unplanned counts a failure and sets the time of the next attempt.
func (u *unit) unplanned(err error) {
	f := fault.From(err)
	var start *launch.StartError
	if errors.As(err, &start) {
		u.noteTail(start.Tail)
	}
	spec, now := u.plugin(), time.Now()
	u.exits = append(u.exits, now)
	for len(u.exits) > 0 && now.Sub(u.exits[0]) > spec.Budget.Window {
		u.exits = u.exits[1:]
	}
	u.healthy.Stop()
	opts := &u.s.opts
	wait := min(opts.BackoffMax, opts.BackoffBase<<min(u.attempts, 20))
	wait = time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
	state := Restarting
	u.attempts++
	if hopeless(f) || len(u.exits) >= spec.Budget.Exits {
		state, wait = Quarantined, opts.QuarantineProbe
		u.exits = u.exits[max(0, len(u.exits)-spec.Budget.Exits+1):] // the probe has one try
	}
	u.mu.Lock()
	u.restart++
	u.lastErr, u.lastAt, u.at = f, now, now.Add(wait)
	u.mu.Unlock()
	u.next.Reset(wait)
	u.set(state, f.Message)
	u.log.Warn("plugin failed", "error", f.Message, "ref", f.Ref, "state", state, "next_attempt_in", wait.Round(time.Millisecond))
	u.settle.Do(func() { close(u.settled) })
}

// hopeless says that only a person can mend what went wrong: it is not tried again
// and again.
func hopeless(f *fault.Error) bool {
	return f != nil && (f.Ref == fault.PluginBinary || f.Ref == fault.PluginConfig || f.Ref == fault.PluginSandbox)
}

func (u *unit) noteTail(tail []string) {
	if len(tail) > 0 {
		u.mu.Lock()
		u.tail = tail
		u.mu.Unlock()
	}
}

// set changes the state, wakes who waits for it and tells the event bus.
func (u *unit) set(state State, detail string) {
	u.mu.Lock()
	if u.state != state {
		u.since = time.Now()
	}
	u.state, u.detail = state, detail
	number := u.number
	close(u.changed)
	u.changed = make(chan struct{})
	u.mu.Unlock()
	u.s.opts.OnEvent(Event{At: time.Now(), Plugin: u.name, State: state, Generation: number, Detail: detail})
}

// restartNow replaces the process. A running plugin is swapped, so that no call is
// lost; one that can't be swapped is killed and started anew.
func (u *unit) restartNow(ctx context.Context) error {
	u.exits, u.attempts = nil, 0
	g := u.cur.Load()
	if g == nil {
		u.next.Stop()
		return u.try(ctx)
	}
	err := u.swap(ctx, u.plugin())
	if err == nil || ctx.Err() != nil || u.cur.Load() != g {
		return err // where it was handed over already, the next attempt is planned
	}
	u.retire(g)
	g.proc.Stop(ctx)
	g.end()
	return u.try(ctx)
}

// stop drains the plugin and leaves it stopped.
func (u *unit) stop(ctx context.Context) error {
	u.next.Stop()
	u.healthy.Stop()
	u.exits, u.attempts = nil, 0
	u.leave(ctx)
	u.set(Stopped, "")
	u.settle.Do(func() { close(u.settled) })
	return nil
}

// resume starts what is not running.
func (u *unit) resume(ctx context.Context) error {
	if u.cur.Load() != nil {
		return nil
	}
	return u.restartNow(ctx)
}

// leave takes the serving generation out of service: no new calls, background
// work stopped, calls in flight ended within ctx, then the process.
func (u *unit) leave(ctx context.Context) {
	g := u.cur.Load()
	if g == nil {
		return
	}
	u.set(Draining, "")
	u.retire(g)
	g.drain(ctx, "stop")
	select {
	case <-g.idle:
	case <-g.proc.Done():
	case <-ctx.Done():
	}
	g.proc.Stop(ctx)
	g.end()
}

// retire closes a generation to new calls.
func (u *unit) retire(g *generation) {
	u.cur.CompareAndSwap(g, nil)
	g.retire()
}

// shutdown ends the unit, within the ctx of close.
func (u *unit) shutdown() {
	u.mu.Lock()
	ctx := u.closing
	u.mu.Unlock()
	u.leave(ctx)
	u.lingers.Wait()
	u.set(Stopped, "")
	u.settle.Do(func() { close(u.settled) })
}

// close ends the unit and waits for it.
func (u *unit) close(ctx context.Context) {
	u.quitOnce.Do(func() {
		u.mu.Lock()
		u.closing = ctx
		u.mu.Unlock()
		u.die()
	})
	<-u.ended
}

// status is the unit as it stands.
func (u *unit) status() Status {
	g := u.cur.Load()
	inFlight, queued := u.slots.count()
	u.mu.Lock()
	defer u.mu.Unlock()
	st := Status{
		Name: u.name, Binary: u.spec.Binary, Configured: u.spec.Configured,
		State: u.state, Since: u.since, Generation: u.number, Restarts: u.restart,
		InFlight: inFlight, Queued: queued, Tail: u.tail,
	}
	if u.state == Degraded || u.state == Quarantined {
		st.Detail = u.detail
	}
	if u.desc != nil {
		st.Version, st.SwapPreference = u.desc.GetVersion(), u.desc.GetSwap()
		st.MissingGrants = missing(u.desc.GetGrants(), u.spec.Grants)
	}
	if u.lastErr != nil {
		st.LastError, st.LastRef, st.LastErrorAt = u.lastErr.Message, string(u.lastErr.Ref), u.lastAt
	}
	if u.kept != nil {
		st.Kept, st.KeptRef, st.KeptSince = u.kept.Message, string(u.kept.Ref), u.keptAt
	}
	if u.state == Restarting || u.state == Quarantined {
		st.NextAttempt = u.at
	}
	if g != nil {
		report := g.proc.Sandbox()
		if !u.spec.Configured {
			report.InForce = append(slices.Clone(report.InForce), fmt.Sprintf("%d calls at once", u.spec.Limits.Calls))
		}
		st.PID, st.Sandbox, st.StartedAt = g.proc.PID(), &report, g.startedAt
		st.Abandoned = int(g.abandoned.Load())
	}
	return st
}
