package supervise

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// swap brings a new generation up beside the old one and replaces it. When the
// new one can't be brought up the old one goes on, and the status says so.
func (u *unit) swap(ctx context.Context, spec Plugin) error {
	served := u.cur.Load()
	err := u.replace(ctx, spec)
	if err != nil && served != nil && u.cur.Load() == served {
		u.noteKept(err)
	}
	return err
}

// noteKept keeps why what serves is not what was asked for; nil when it is.
func (u *unit) noteKept(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kept, u.keptAt = nil, time.Time{}
	if err != nil {
		u.kept, u.keptAt = fault.From(err), time.Now()
	}
}

func (u *unit) replace(ctx context.Context, spec Plugin) error {
	old := u.cur.Load()
	if old == nil {
		u.mu.Lock()
		u.spec = spec
		u.mu.Unlock()
		u.exits, u.attempts = nil, 0
		u.next.Stop()
		return u.try(ctx)
	}
	g, err := u.bring(ctx, spec)
	if err != nil {
		return err
	}
	if err := u.successor(old, g); err != nil {
		g.proc.Kill()
		g.end()
		u.mu.Lock()
		u.desc = old.desc
		u.mu.Unlock()
		return err
	}
	if g.desc.GetSwap() == pluginv1.Swap_SWAP_HANDOVER {
		return u.handover(ctx, old, g)
	}
	// Nothing depends on the old one's end, so it serves until the new one can.
	if err := g.activate(ctx); err != nil {
		u.discard(g)
		u.mu.Lock()
		u.desc = old.desc
		u.mu.Unlock()
		return err
	}
	u.promote(g) // new calls go to the new one from here on
	old.retire()
	old.drain(ctx, "swap")
	g.fence()
	u.lingers.Go(func() { u.linger(old) })
	u.ready()
	return nil
}

// discard ends a generation that is not going to serve.
func (u *unit) discard(g *generation) {
	u.noteTail(g.proc.Tail())
	g.proc.Kill()
	g.end()
}

// successor refuses another plugin's binary in this one's place: a slip at the copy
// would take its tools away from whoever uses them. Where the config changed too,
// or the binary did not, it was meant.
func (u *unit) successor(old, g *generation) error {
	if old.desc == g.desc || launchDiffers(old.spec, g.spec) || !bytes.Equal(old.config, g.config) {
		return nil
	}
	if was, is := old.desc.GetName(), g.desc.GetName(); was != is {
		return fault.New(fault.OtherPlugin, "the binary in plugin %q's place calls itself %q, the one before was %q", u.name, is, was)
	}
	u.mu.Lock()
	had, has, pending := old.latest.GetTools(), g.latest.GetTools(), g.latest.GetPending()
	u.mu.Unlock()
	if len(had) == 0 || pending || slices.ContainsFunc(had, func(t *pluginv1.Tool) bool {
		return slices.ContainsFunc(has, func(n *pluginv1.Tool) bool { return n.GetName() == t.GetName() })
	}) {
		return nil
	}
	return fault.New(fault.OtherPlugin, "the binary in plugin %q's place offers none of the %d tools that the one before has", u.name, len(had))
}

// handover gives the exclusive state of the old generation to the new one: calls
// wait, the old one's background work stops, or it is killed; then the new one is
// activated and takes the calls.
func (u *unit) handover(ctx context.Context, old, g *generation) error {
	u.mu.Lock()
	u.holding = true
	u.mu.Unlock()
	u.retire(old)
	u.set(Draining, "handover")
	if !old.drain(ctx, "handover") {
		u.log.Error("the old generation did not release its state and is killed", "generation", old.number)
		old.proc.Kill()
	}
	u.lingers.Go(func() { u.linger(old) })
	g.fence()
	if err := g.activate(ctx); err != nil {
		u.discard(g)
		u.goBack(ctx, old, g, err)
		return err
	}
	u.promote(g)
	u.ready()
	return nil
}

// goBack follows a handover whose new generation failed when the old one had let
// go already. What is as it was is started again at once: the same binary as it was
// configured before. Where the binary itself was replaced there is no other, and it
// is tried again like any that failed.
func (u *unit) goBack(ctx context.Context, old, g *generation, err error) {
	defer func() {
		u.mu.Lock()
		u.holding = false
		u.mu.Unlock()
	}()
	u.mu.Lock()
	u.desc = old.desc
	u.mu.Unlock()
	if ctx.Err() != nil || !launchDiffers(old.spec, g.spec) && bytes.Equal(old.config, g.config) {
		u.unplanned(err)
		return
	}
	if u.try(ctx) == nil {
		u.noteKept(err)
	}
}

// linger lets a replaced generation finish its calls, then ends it.
func (u *unit) linger(old *generation) {
	timer := time.NewTimer(u.s.opts.Linger)
	defer timer.Stop()
	select {
	case <-old.idle:
	case <-old.proc.Done():
	case <-timer.C:
	case <-u.life.Done():
		u.mu.Lock()
		ctx := u.closing
		u.mu.Unlock()
		select {
		case <-old.idle:
		case <-old.proc.Done():
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	old.proc.Stop(ctx)
	old.end()
}

// update takes a changed config: a swap where the launch changes, else the
// running plugin decides.
func (u *unit) update(ctx context.Context, spec Plugin) error {
	g := u.cur.Load()
	if g == nil || launchDiffers(g.spec, spec) {
		return u.swap(ctx, spec)
	}
	err := u.reconfigure(ctx, g, spec)
	if u.cur.Load() == g {
		u.noteKept(err)
	}
	return err
}

func (u *unit) reconfigure(ctx context.Context, g *generation, spec Plugin) error {
	config, _, err := configOf(spec, g.desc)
	if err != nil {
		return err
	}
	cctx, cancel := context.WithTimeout(ctx, u.s.opts.ConfigTimeout)
	defer cancel()
	valid, err := g.proc.Client().Validate(cctx, &pluginv1.ValidateRequest{ConfigJson: config})
	if err != nil {
		return g.failed("Validate", err)
	}
	if err := refusal(u.name, valid.GetDiagnostics()); err != nil {
		return err
	}
	done, err := g.proc.Client().Configure(cctx, &pluginv1.ConfigureRequest{ConfigJson: config, Host: g.facts()})
	if err != nil {
		return g.failed("Configure", err)
	}
	if err := refusal(u.name, done.GetDiagnostics()); err != nil {
		return err
	}
	switch done.GetOutcome() {
	case pluginv1.ConfigureResponse_OUTCOME_CONFIGURED, pluginv1.ConfigureResponse_OUTCOME_RECONFIGURED:
		u.mu.Lock()
		u.spec = spec
		g.spec, g.config = spec, config
		u.mu.Unlock()
		return nil
	case pluginv1.ConfigureResponse_OUTCOME_RESTART_NEEDED:
		return u.swap(ctx, spec)
	}
	return fault.New(fault.PluginProtocol, "plugin %q gave no outcome to Configure", u.name)
}

// launchDiffers tells whether a change acts on launch.
func launchDiffers(a, b Plugin) bool {
	return a.Binary != b.Binary || a.SHA256 != b.SHA256 || a.Configured != b.Configured ||
		a.Limits != b.Limits || !maps.Equal(a.Env, b.Env) || !slices.Equal(a.Grants, b.Grants) ||
		a.Sandbox.Profile != b.Sandbox.Profile || a.Sandbox.Network != b.Sandbox.Network ||
		!slices.Equal(a.Sandbox.Read, b.Sandbox.Read) || !slices.Equal(a.Sandbox.Write, b.Sandbox.Write) || !slices.Equal(a.Sandbox.Exec, b.Sandbox.Exec)
}
