package question

import (
	"context"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// waiter is a caller that holds on. next gets exactly one value when the call may
// go on with this caller as its taker, or fails.
type waiter struct{ next chan outcome }

type outcome struct {
	input map[string]*pluginv1.Answer
	err   error
}

// Parked is a frozen call as its caller sees it.
type Parked struct {
	Frozen    store.FrozenCall
	Questions []store.Question
	desk      *Desk
	waiter    *waiter
}

func (d *Desk) wait(frozen store.FrozenCall, questions []store.Question) *Parked {
	w := &waiter{next: make(chan outcome, 1)}
	d.waiters[frozen.ID] = w
	return &Parked{Frozen: frozen, Questions: questions, desk: d, waiter: w}
}

// Wait holds on for at most hold. It returns the answers when the caller is the
// one to go on. ErrStillOpen says the questions are still open; the caller has
// then left, and the call goes on without it.
func (p *Parked) Wait(ctx context.Context, hold time.Duration) (map[string]*pluginv1.Answer, error) {
	timer := time.NewTimer(hold)
	defer timer.Stop()
	select {
	case o := <-p.waiter.next:
		return o.input, o.err
	case <-timer.C:
	case <-ctx.Done():
	}
	d := p.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case o := <-p.waiter.next: // answered at the last moment: this caller is the taker
		return o.input, o.err
	default:
	}
	if d.waiters[p.Frozen.ID] == p.waiter {
		delete(d.waiters, p.Frozen.ID)
	}
	if ctx.Err() != nil {
		mark, end := context.WithTimeout(d.ctx, 5*time.Second)
		defer end()
		if err := d.Store.MarkCallerGone(mark, p.Frozen.ID); err != nil {
			d.Log.Warn("a caller left and this could not be recorded", "call", p.Frozen.ID, "error", err)
		}
		return nil, context.Cause(ctx)
	}
	return nil, ErrStillOpen
}

// ErrStillOpen says a caller's patience ended before its questions did.
var ErrStillOpen error = fault.New(fault.WaitingForPerson, "the questions are still open")

// Found is what a repeated call meets.
type Found struct {
	Parked *Parked // its questions are still open: wait again
	// Permit is the frozen call, taken by this caller: an approval was given. Input
	// holds its answers.
	Permit *store.FrozenCall
	Input  map[string]*pluginv1.Answer
	// Result is what the host got for it meanwhile.
	Result *pluginv1.Result
}

// Match finds the frozen call that a call repeats: same agent, session, tool and
// arguments. Exactly one repeat wins a permit or a result.
func (d *Desk) Match(ctx context.Context, agent, session, tool string, arguments []byte) (*Found, error) {
	for {
		found, done, err := d.meet(ctx, agent, session, tool, Hash(arguments))
		if done == nil {
			return found, err
		}
		select { // the host runs it: its result comes
		case <-done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// meet looks once. The lock is held over the look-up and what follows from it, as
// over every change of a call's state, so that none is missed in between. A
// channel says to look again when it is closed.
func (d *Desk) meet(ctx context.Context, agent, session, tool, hash string) (*Found, chan bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	same, err := d.Store.FindFrozen(ctx, agent, session, tool, hash)
	if err != nil || len(same) == 0 {
		return nil, nil, err
	}
	frozen := same[0]
	switch frozen.Status {
	case store.Waiting:
		if d.waiters[frozen.ID] != nil {
			return nil, nil, nil // another caller holds on to that one: this is a call of its own
		}
		questions, err := d.Store.ListQuestions(ctx, store.QuestionFilter{CallID: frozen.ID})
		if err != nil {
			return nil, nil, err
		}
		return &Found{Parked: d.wait(frozen, questions)}, nil, nil
	case store.Permitted:
		if won, err := d.Store.UpdateFrozen(ctx, frozen.ID, store.Permitted, store.Closed, store.FrozenChange{}); err != nil || !won {
			return nil, nil, err
		}
		input, err := d.input(ctx, frozen.ID)
		return &Found{Permit: &frozen, Input: input}, nil, err
	case store.Running:
		return nil, d.running[frozen.ID], nil // nil: left by a host that died
	case store.Done:
		if won, err := d.Store.UpdateFrozen(ctx, frozen.ID, store.Done, store.Closed, store.FrozenChange{}); err != nil || !won {
			return nil, nil, err
		}
		d.told(ctx, frozen.Session, frozen.ID)
		result, err := decodeResult(frozen.Result)
		return &Found{Result: result}, nil, err
	}
	return nil, nil, nil
}

// input is the answers of a frozen call by request id.
func (d *Desk) input(ctx context.Context, callID string) (map[string]*pluginv1.Answer, error) {
	questions, err := d.Store.ListQuestions(ctx, store.QuestionFilter{CallID: callID})
	if err != nil {
		return nil, err
	}
	input := make(map[string]*pluginv1.Answer, len(questions))
	for _, q := range questions {
		input[q.RequestID] = answer(q)
	}
	return input, nil
}
