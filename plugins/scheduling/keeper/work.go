package keeper

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/book"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	writers   = 8 // tasks advanced at once
	again     = time.Second
	writeTime = 10 * time.Second
)

// work advances all that is due, and gives when to come again.
func (k *Keeper) work(now time.Time) time.Time {
	k.mu.Lock()
	if !k.seen.IsZero() && now.Before(k.seen.Add(-task.SetBack)) {
		k.Log.Warn("the clock was set back", "from", k.seen, "to", now)
		for _, e := range k.byID {
			k.push(e, now)
		}
	}
	k.seen = now
	var due []*entry
	for len(k.due) > 0 && !k.due[0].at.After(now) {
		due = append(due, heap.Pop(&k.due).(*entry))
	}
	k.mu.Unlock()

	todo := make(chan *entry)
	var wg sync.WaitGroup
	for range min(writers, len(due)) {
		wg.Go(func() {
			for e := range todo {
				k.advance(k.background, e, now)
			}
		})
	}
	for _, e := range due {
		todo <- e
	}
	close(todo)
	wg.Wait()

	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.due) == 0 {
		return time.Time{}
	}
	return k.due[0].at
}

// advance brings one task to now.
func (k *Keeper) advance(ctx context.Context, e *entry, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.now.Load()
	if s == nil {
		return
	}
	t := s.Clone()
	changed := !e.looked && len(t.TakeOver(now)) > 0 // what an earlier process left
	next := t.Advance(s.plan, now, k.Grace)
	changed = changed || !t.Last.Equal(s.Last) || len(t.Owed) != len(s.Owed)
	if !changed && !t.Finished(s.plan) {
		e.looked = true
		k.wakeAt(e, next)
		return
	}
	if err := k.store(ctx, e, t, s.plan, "finished"); err != nil {
		if !gone(err) && !fenced(err) {
			k.Log.Warn("a task could not be written; it is tried again", "task", t.ID, "error", err)
		}
		k.wakeAt(e, now.Add(again))
		return
	}
	e.looked = true
}

func (k *Keeper) wakeAt(e *entry, at time.Time) {
	k.mu.Lock()
	k.push(e, at)
	k.mu.Unlock()
}

// store writes a task, or retires it when it is finished, and starts what is owed.
// e.mu is held. On an error the task is as it was, or as the record says.
func (k *Keeper) store(ctx context.Context, e *entry, t *task.Task, plan *task.Plan, why string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if why != "finished" || t.Finished(plan) {
		if err := k.Book.Retire(ctx, t, why); err != nil {
			return k.judge(err)
		}
		k.forget(e, t)
		return nil
	}
	version, err := k.Book.Save(ctx, t, e.version)
	if err != nil {
		if errors.Is(err, book.ErrChanged) {
			k.reread(ctx, e)
			err = sdk.Errorf(sdk.Unavailable, "the record of task %q had changed meanwhile; try again", t.Name).After(0)
		}
		return k.judge(err)
	}
	e.version = version
	k.show(e, t, plan)
	return nil
}

func (k *Keeper) closing() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// judge ends the keeper when another process has taken over.
func (k *Keeper) judge(err error) error {
	if fenced(err) {
		k.mu.Lock()
		k.closed = true
		k.mu.Unlock()
	}
	return err
}

// show publishes a task's new state and starts what is owed. e.mu is held.
func (k *Keeper) show(e *entry, t *task.Task, plan *task.Plan) {
	next := t.NextFire(plan)
	e.now.Store(&state{Task: t, plan: plan, next: next})
	k.mu.Lock()
	k.push(e, next)
	first := e.index == 0
	k.mu.Unlock()
	if first {
		k.poke()
	}
	for _, f := range t.Owed {
		if !f.Begun.IsZero() && !e.running[f.ID] {
			e.running[f.ID] = true
			k.running.Add(1)
			go k.deliver(e, t, f)
		}
	}
}

// reread takes what the record says: a write of ours may have arrived whose answer
// did not.
func (k *Keeper) reread(ctx context.Context, e *entry) {
	s := e.now.Load()
	kept, err := k.Book.Read(ctx, s.ID)
	if err != nil || kept.Task == nil {
		return
	}
	plan, err := task.NewPlan(kept.Task, k.Zone)
	if err != nil {
		return
	}
	e.version = kept.Version
	k.show(e, kept.Task, plan)
}

// forget drops a task that is over. e.mu is held.
func (k *Keeper) forget(e *entry, t *task.Task) {
	e.now.Store(nil)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.push(e, time.Time{})
	delete(k.byID, t.ID)
	if name := nameKey(t.Owner, t.Name); k.byName[name] == e {
		delete(k.byName, name)
	}
	if k.count[t.Owner]--; k.count[t.Owner] <= 0 {
		delete(k.count, t.Owner)
	}
}

// deliver runs one fire and notes what became of it.
func (k *Keeper) deliver(e *entry, t *task.Task, f task.Fire) {
	defer k.running.Done()
	ctx := k.deliveries
	select {
	case k.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	run, done := k.Deliver(ctx, t, f)
	<-k.slots
	if !done {
		return
	}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := k.settle(ctx, e, run)
		if err == nil || fenced(err) || ctx.Err() != nil {
			return
		}
		k.Log.Warn("the outcome of a fire could not be written; it is tried again", "task", t.ID, "fire", f.ID, "error", err)
		if !sleep(ctx, pause) {
			return
		}
	}
}

// settle writes what became of a fire.
func (k *Keeper) settle(ctx context.Context, e *entry, run task.Run) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.now.Load()
	if s == nil { // cancelled meanwhile
		return nil
	}
	t := s.Clone()
	begun := t.Settle(run)
	if k.closing() { // whoever takes over begins what waits
		for _, f := range begun {
			t.Wait(f.ID)
		}
	}
	if err := k.store(ctx, e, t, s.plan, "finished"); err != nil {
		return err
	}
	delete(e.running, run.ID)
	return nil
}
