package keeper

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/book"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/clock"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Options of a keeper.
type Options struct {
	Book  *book.Book
	Clock clock.Clock
	Log   *slog.Logger
	Zone  *time.Location // of tasks that name none
	Grace time.Duration  // how late a fire may be without counting as missed

	PerOwner, Total int // most tasks
	Deliveries      int // at once

	// Deliver does what a fire is for; done is false when ctx ended first.
	Deliver func(ctx context.Context, t *task.Task, f task.Fire) (r task.Run, done bool)
}

// Keeper keeps the tasks of all owners.
type Keeper struct {
	Options
	ready  chan struct{} // closed when all is read
	poked  chan struct{}
	slots  chan struct{}
	wakes  atomic.Int64
	faults atomic.Pointer[[]string]

	mu     sync.Mutex
	byID   map[string]*entry
	byName map[string]*entry // owner, zero byte, key of the name
	count  map[string]int    // by owner
	due    dueHeap
	seen   time.Time // the last time that was looked at
	closed bool      // nothing is changed any more

	background context.Context // of the alarm
	deliveries context.Context // of deliveries, which end later
	stopAlarm  context.CancelFunc
	cutAll     context.CancelFunc
	alarm      sync.WaitGroup
	running    sync.WaitGroup
}

// entry is one task.
type entry struct {
	mu      sync.Mutex // of those that change it
	now     atomic.Pointer[state]
	version uint64
	running map[string]bool // fires being delivered
	looked  bool            // it has been looked at since it was read

	at    time.Time // in the heap; guarded by Keeper.mu, as is index
	index int       // -1 = not in it
}

// state is a task as it stands; it never changes.
type state struct {
	*task.Task
	plan *task.Plan
	next time.Time
}

// New makes a keeper that does nothing until Start.
func New(o Options) *Keeper {
	k := &Keeper{Options: o, ready: make(chan struct{}), poked: make(chan struct{}, 1), slots: make(chan struct{}, max(o.Deliveries, 1)),
		byID: map[string]*entry{}, byName: map[string]*entry{}, count: map[string]int{}}
	return k
}

// Start reads the tasks and begins to fire them, in the background. It ends with
// ctx or Stop.
func (k *Keeper) Start(ctx context.Context) {
	k.background, k.stopAlarm = context.WithCancel(ctx)
	k.deliveries, k.cutAll = context.WithCancel(context.WithoutCancel(ctx))
	k.alarm.Go(func() {
		if !k.load(k.background) {
			return
		}
		close(k.ready)
		clock.Alarm(k.background, k.Clock, k.poked, func() { k.wakes.Add(1) }, k.work)
	})
}

// Stop ends the alarm, lets deliveries go on for as long as ctx does, and cuts
// those that are left: they are begun again by whoever takes over.
func (k *Keeper) Stop(ctx context.Context) {
	if k.stopAlarm == nil {
		return
	}
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.stopAlarm()
	k.alarm.Wait()
	over := make(chan struct{})
	go func() { k.running.Wait(); close(over) }()
	select {
	case <-over:
	case <-ctx.Done():
	}
	k.cutAll()
	<-over
}

// load reads the book until it succeeds or ctx ends.
func (k *Keeper) load(ctx context.Context) bool {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		kept, faults, err := k.Book.Load(ctx)
		if err == nil {
			k.adopt(kept, faults)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		k.Log.Warn("the tasks can't be read yet", "error", err)
		if !sleep(ctx, pause) {
			return false
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// adopt takes over what was read; all of it is looked at by the first work.
func (k *Keeper) adopt(kept []book.Kept, faults []string) {
	now := k.Clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, it := range kept {
		plan, err := task.NewPlan(it.Task, k.Zone)
		if err != nil { // a zone that this machine has no more
			faults = append(faults, "task "+it.Task.Name+" can't be timed: "+err.Error())
			continue
		}
		e := &entry{version: it.Version, index: -1, running: map[string]bool{}}
		e.now.Store(&state{Task: it.Task, plan: plan, next: it.Task.NextFire(plan)})
		k.byID[it.Task.ID] = e
		k.count[it.Task.Owner]++
		name := nameKey(it.Task.Owner, it.Task.Name)
		if other := k.byName[name]; other == nil || other.now.Load().Created.Before(it.Task.Created) {
			k.byName[name] = e
		}
		if len(it.Task.Owed) > 0 || it.Task.Paused == "" {
			k.push(e, now)
		}
	}
	for _, f := range faults {
		k.Log.Error(f)
	}
	k.faults.Store(&faults)
}

func nameKey(owner, name string) string { return owner + "\x00" + task.Key(name) }

// Ready waits until the tasks are read.
func (k *Keeper) Ready(ctx context.Context) error {
	wait := time.NewTimer(10 * time.Second)
	defer wait.Stop()
	select {
	case <-k.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return sdk.Errorf(sdk.Unavailable, "the tasks are not read yet; try again").After(time.Second)
	}
}

// Faults are what was wrong with the stored tasks, in words.
func (k *Keeper) Faults() []string {
	if f := k.faults.Load(); f != nil {
		return *f
	}
	return nil
}

// Wakes is how often the alarm has woken up.
func (k *Keeper) Wakes() int64 { return k.wakes.Load() }

func (k *Keeper) poke() {
	select {
	case k.poked <- struct{}{}:
	default:
	}
}

// dueHeap has the entry that is due first at its top.
type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.index = -1
	return e
}

// push sets when an entry is looked at next; zero = not at all. k.mu is held.
func (k *Keeper) push(e *entry, at time.Time) {
	switch {
	case at.IsZero() && e.index >= 0:
		heap.Remove(&k.due, e.index)
	case at.IsZero():
	case e.index >= 0:
		e.at = at
		heap.Fix(&k.due, e.index)
	default:
		e.at = at
		heap.Push(&k.due, e)
	}
}

func fenced(err error) bool { return sdk.CodeOf(err) == sdk.Fenced }

func gone(err error) bool { return errors.Is(err, context.Canceled) }
