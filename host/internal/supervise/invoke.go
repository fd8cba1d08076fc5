package supervise

import (
	"context"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// Bounds of one call's stream.
const (
	nestedWait  = 2 * time.Second
	eventBurst  = 200 // progress and log events at once
	eventRate   = 100 // and a second; what is more is dropped
	maxPartial  = 64 << 20
	endGrace    = 100 * time.Millisecond // from result to end of stream
	maxTrailing = 100                    // events after the result
	deathNotice = time.Second            // from a broken stream to the process's end
)

var invokeStream = &grpc.StreamDesc{StreamName: "Invoke", ServerStreams: true}

type onDispatch struct{}

// OnDispatch makes Invoke tell, right before it sends the call, to which generation.
// A call that goes to another one after all is told again.
func OnDispatch(ctx context.Context, tell func(generation uint64)) context.Context {
	return context.WithValue(ctx, onDispatch{}, tell)
}

// Invoke sends one call to a plugin and hands its events to on, in order, from
// this goroutine. The ctx carries deadline and cancel. A call to a plugin that is
// just restarting waits shortly for it. The result is what the plugin sent,
// checked; an error is a *fault.Error. Nothing is ever sent twice: Dispatch says
// whether a repetition would be safe.
func (s *Supervisor) Invoke(ctx context.Context, plugin string, nested bool, req *pluginv1.InvokeRequest, on func(*pluginv1.InvokeEvent)) (*pluginv1.Result, Dispatch, error) {
	u, err := s.unit(plugin)
	if err != nil {
		return nil, Dispatch{}, err
	}
	begun := time.Now()
	var spent *generation // one that turned out to be dead before anything was sent
	for {
		g, err := u.await(ctx, begun, spent)
		if err != nil {
			return nil, Dispatch{}, err
		}
		if err := u.slots.take(ctx, nested, nestedWait); err != nil {
			g.exit()
			return nil, Dispatch{}, err
		}
		if g.closed() { // replaced while this call stood in the queue
			u.slots.give(nested)
			g.exit()
			continue
		}
		if tell, ok := ctx.Value(onDispatch{}).(func(uint64)); ok {
			tell(g.number)
		}
		c := call{u: u, g: g, nested: nested, req: req, on: on, tokens: eventBurst}
		result, err := c.run(ctx)
		d := Dispatch{Sent: c.sent, Generation: g.number}
		if err == nil && result.GetError().GetRef() == string(fault.PluginStopped) && g.closed() && ctx.Err() == nil {
			spent = g // it had drained before this call reached it, and never began it
			continue
		}
		if err != nil && !c.sent && ctx.Err() == nil && status.Code(err) == codes.Unavailable {
			spent = g // its process is gone: the next generation may take the call
			continue
		}
		if err != nil {
			return nil, d, c.explain(ctx, err)
		}
		return result, d, nil
	}
}

// await returns the serving generation with this call counted in.
func (u *unit) await(ctx context.Context, begun time.Time, spent *generation) (*generation, error) {
	if g := u.cur.Load(); g != nil && g != spent && g.enter() {
		return g, nil
	}
	if err := u.wait(+1); err != nil {
		return nil, err
	}
	defer u.wait(-1)
	for {
		u.mu.Lock()
		changed, state, at, holding, last := u.changed, u.state, u.at, u.holding, u.lastErr
		u.mu.Unlock()
		if g := u.cur.Load(); g != nil && g != spent && g.enter() {
			return g, nil
		}
		next := max(0, time.Until(at))
		switch {
		case u.life.Err() != nil:
			return nil, fault.New(fault.HostStopping, "the host is stopping; plugin %q takes no more calls", u.name)
		case state == Quarantined:
			why := "failed too often"
			if hopeless(last) {
				why = "can't start until somebody mends that"
			}
			return nil, fault.New(fault.PluginQuarantined, "plugin %q %s and is quarantined (%s); next attempt in %s, or `bulkhead plugin restart %s`", u.name, why, text(last), next.Round(time.Second), u.name).After(next)
		case state == Stopped, state == Draining && !holding:
			return nil, fault.New(fault.PluginStopped, "plugin %q is %s", u.name, state)
		}
		limit := u.s.opts.RestartWait
		if holding {
			limit = u.s.opts.HandoverWait
		}
		left := limit - time.Since(begun)
		if left <= 0 {
			if next == 0 {
				next = time.Second
			}
			return nil, fault.New(fault.PluginRestarting, "plugin %q is %s; try again in %s", u.name, state, next.Round(time.Millisecond)).After(next)
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fault.From(ctx.Err())
		}
		timer.Stop()
	}
}

// wait counts calls that wait for a generation; there are bounds to it.
func (u *unit) wait(n int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n > 0 && u.waiting >= u.spec.Limits.Calls+u.spec.Limits.Queue {
		return fault.New(fault.PluginBusy, "plugin %q is %s and %d calls wait for it already", u.name, u.state, u.waiting)
	}
	u.waiting += n
	return nil
}

func text(f *fault.Error) string {
	if f == nil {
		return "no reason recorded"
	}
	return f.Message
}

// call is one call on one generation.
type call struct {
	u      *unit
	g      *generation
	nested bool
	req    *pluginv1.InvokeRequest
	on     func(*pluginv1.InvokeEvent)
	sent   bool

	tokens  float64
	last    time.Time
	partial int
}

// run sends the call and reads its stream. The slot is given back when the
// plugin's handler has returned, which may be after run has.
func (c *call) run(ctx context.Context) (*pluginv1.Result, error) {
	rctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result, ended, err := c.stream(rctx, cancel)
	if ended {
		c.free()
	} else {
		go c.outlast()
	}
	return result, err
}

func (c *call) free() {
	c.u.slots.give(c.nested)
	c.g.exit()
}

// stream reports the result, and whether the handler is known to have returned.
func (c *call) stream(ctx context.Context, cancel context.CancelFunc) (*pluginv1.Result, bool, error) {
	stream, err := c.g.proc.Conn.NewStream(ctx, invokeStream, pluginv1.PluginService_Invoke_FullMethodName, grpc.StaticMethod())
	if err != nil {
		return nil, true, err // never reached the plugin
	}
	if err := stream.SendMsg(c.req); err != nil && err != io.EOF {
		return nil, !c.mark(err), err
	}
	c.sent = true
	if err := stream.CloseSend(); err != nil {
		return nil, false, err
	}
	for {
		ev := &pluginv1.InvokeEvent{}
		if err := stream.RecvMsg(ev); err != nil {
			return nil, ctx.Err() == nil, err
		}
		if result := ev.GetResult(); result != nil {
			ended := c.ending(ctx, stream, cancel)
			if err := c.check(result); err != nil {
				return nil, ended, err
			}
			return result, ended, nil
		}
		if err := c.event(ev); err != nil {
			return nil, false, err
		}
	}
}

// mark tells whether a request that failed to be sent may have been sent.
func (c *call) mark(err error) bool {
	c.sent = status.Code(err) != codes.ResourceExhausted // too large: refused on this side
	return c.sent
}

// ending reads what follows the result up to the end of the stream, which comes
// at once from an honest plugin. All of it is dropped.
func (c *call) ending(ctx context.Context, stream grpc.ClientStream, cancel context.CancelFunc) bool {
	timer := time.AfterFunc(endGrace, cancel)
	for range maxTrailing {
		if err := stream.RecvMsg(&pluginv1.InvokeEvent{}); err != nil {
			return timer.Stop() && ctx.Err() == nil
		}
	}
	timer.Stop()
	return false
}

// event passes an event on. Progress and log beyond the rate are dropped; partial
// results are bounded as a whole.
func (c *call) event(ev *pluginv1.InvokeEvent) error {
	if p := ev.GetPartial(); p != nil {
		c.partial += len(p.GetDelta())
		for _, b := range p.GetContent() {
			c.partial += len(b.GetText()) + len(b.GetRaw())
		}
		if c.partial > maxPartial {
			return fault.New(fault.PluginProtocol, "plugin %q sent more than %d bytes of partial results for %q", c.u.name, maxPartial, c.req.GetName())
		}
	} else {
		if ev.GetEvent() == nil {
			return nil // of a later protocol
		}
		now := time.Now()
		if !c.last.IsZero() {
			c.tokens = min(eventBurst, c.tokens+now.Sub(c.last).Seconds()*eventRate)
		}
		c.last = now
		if c.tokens < 1 {
			return nil
		}
		c.tokens--
	}
	if c.on != nil {
		c.on(ev)
	}
	return nil
}

// check refuses a result that breaks the protocol. Texts are valid UTF-8 already:
// the codec refuses others.
func (c *call) check(r *pluginv1.Result) error {
	bad := func(format string, args ...any) error {
		args = append([]any{c.u.name, c.req.GetName()}, args...)
		return fault.New(fault.PluginProtocol, "plugin %q answered %q with "+format, args...)
	}
	for _, raw := range [...][]byte{r.GetStructured(), r.GetMeta(), r.GetRaw()} {
		if err := content.Check(raw); len(raw) > 0 && err != nil {
			return bad("a result that is %v: %.40q", err, raw)
		}
	}
	for _, b := range r.GetContent() {
		if raw := b.GetRaw(); len(raw) > 0 {
			if err := content.Check(raw); err != nil {
				return bad("a content block that is %v", err)
			}
		}
		if !utf8.ValidString(b.GetText()) {
			return bad("a text that is not UTF-8")
		}
	}
	if ask := r.GetNeedsInput(); ask != nil {
		switch {
		case len(ask.GetState()) > wire.MaxState:
			return bad("a question whose state has %d bytes; %d are allowed", len(ask.GetState()), wire.MaxState)
		case len(ask.GetRequests()) == 0 || len(ask.GetRequests()) > 32:
			return bad("%d questions; 1 to 32 are allowed", len(ask.GetRequests()))
		}
	}
	return nil
}

// outlast holds the slot of a call whose caller has gone until its handler has
// returned, or has had its time and counts as abandoned.
func (c *call) outlast() {
	defer c.free()
	ctx, cancel := context.WithTimeout(c.g.ctx, c.u.s.opts.AbandonAfter)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		answer, err := c.g.proc.Client().Cancel(ctx, &pluginv1.CancelRequest{CallId: c.req.GetCallId(), Reason: "caller"})
		if ctx.Err() == nil && (err != nil || !answer.GetFound()) {
			return // returned; or the process is gone; or an SDK that can't tell
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			continue
		}
		break
	}
	if c.g.ctx.Err() != nil {
		return // the generation ended, and the handler with it
	}
	n := c.g.abandoned.Add(1)
	c.u.log.Warn("a handler has not returned after cancel", "tool", c.req.GetName(), "abandoned", n)
	if n >= maxAbandoned {
		select {
		case c.g.full <- struct{}{}:
		default:
		}
	}
}

// explain turns a broken stream into an error of the table.
func (c *call) explain(ctx context.Context, err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	if ctx.Err() != nil {
		return fault.From(context.Cause(ctx))
	}
	name, tool := c.u.name, c.req.GetName()
	if err == io.EOF {
		return fault.New(fault.PluginProtocol, "plugin %q ended the call of %q without a result", name, tool)
	}
	st := status.Convert(err)
	switch st.Code() {
	case codes.ResourceExhausted:
		if !c.sent {
			return fault.New(fault.ArgumentsTooBig, "the call of %q is larger than %d bytes", tool, wire.MaxMessage)
		}
		return fault.New(fault.PluginMessageSize, "plugin %q answered %q with a message over %d bytes; large data belongs into a file under /shared", name, tool, wire.MaxMessage)
	case codes.Unavailable, codes.Canceled:
		timer := time.NewTimer(deathNotice)
		defer timer.Stop()
		select {
		case <-c.g.proc.Done():
			return fault.New(fault.PluginDied, "plugin %q ended (%s) during the call of %q; it restarts by itself", name, c.g.proc.Exit(), tool)
		case <-c.g.ctx.Done():
			return fault.New(fault.PluginDied, "plugin %q was ended during the call of %q", name, tool)
		case <-timer.C:
		}
	case codes.DeadlineExceeded:
		return fault.New(fault.CallTimeout, "plugin %q gave up %q: %s", name, tool, st.Message())
	}
	return fault.New(fault.PluginProtocol, "plugin %q broke off the call of %q: %s: %s", name, tool, st.Code(), st.Message())
}
