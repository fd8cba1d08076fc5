package keeper

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/book"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// View is a task as it stands, for whoever asks.
type View struct {
	*task.Task
	Next    time.Time // zero = never, or paused
	Overdue bool      // it should have fired already
	Zone    *time.Location
	plan    *task.Plan
}

// Upcoming lists the next times a task is due, at most n.
func (v View) Upcoming(n int) (at []time.Time) {
	if v.Next.IsZero() {
		return nil
	}
	for next := v.plan.Next(v.Last); !next.IsZero() && len(at) < n; next = v.plan.Next(next) {
		at = append(at, next)
		if v.Single() {
			break
		}
	}
	return at
}

func (k *Keeper) view(s *state) View {
	return View{Task: s.Task, Next: s.next, Zone: s.plan.In(), plan: s.plan,
		Overdue: !s.next.IsZero() && s.next.Before(k.Clock.Now().Add(-2*time.Second))}
}

// begin admits a change, until the keeper stops; end must be called then.
func (k *Keeper) begin(ctx context.Context) (end func(), err error) {
	if err := k.Ready(ctx); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, sdk.Errorf(sdk.Unavailable, "the scheduler is being replaced; try again").After(time.Second)
	}
	k.running.Add(1)
	return k.running.Done, nil
}

// Schedule makes a task, or replaces the owner's one of that name.
func (k *Keeper) Schedule(ctx context.Context, owner, profile, session string, spec task.Spec) (v View, replaced bool, err error) {
	end, err := k.begin(ctx)
	if err != nil {
		return View{}, false, err
	}
	defer end()
	now := k.Clock.Now()
	t := &task.Task{ID: "t_" + strings.ToLower(rand.Text()[:12]), Owner: owner, Profile: profile, Session: session, Spec: spec, Created: now, Last: now}
	plan, err := task.NewPlan(t, k.Zone)
	if err != nil {
		return View{}, false, sdk.Errorf(sdk.InvalidArguments, "%w", err)
	}
	if plan.Next(now).IsZero() {
		return View{}, false, sdk.Errorf(sdk.InvalidArguments, "the task would never fire: nothing of it is due after now, %s%s", now.In(plan.In()).Format(time.RFC3339), until(spec))
	}
	e, err := k.placeLocked(owner, spec.Name)
	if err != nil {
		return View{}, false, err
	}
	defer e.mu.Unlock()
	if s := e.now.Load(); s != nil {
		old := s.Clone()
		t.ID, t.Fired = old.ID, old.Fired
		for _, f := range old.Owed { // what has begun ends by itself
			if !f.Begun.IsZero() {
				t.Owed = append(t.Owed, f)
			}
		}
		t.Runs = old.Runs
		replaced = true
		if plan, err = task.NewPlan(t, k.Zone); err != nil {
			return View{}, false, err
		}
	}
	if err := k.store(ctx, e, t, plan, "finished"); err != nil {
		if !replaced {
			k.drop(e, owner, spec.Name)
		}
		return View{}, false, err
	}
	e.looked = true
	k.mu.Lock()
	k.byID[t.ID] = e
	k.mu.Unlock()
	return k.view(e.now.Load()), replaced, nil
}

func until(s task.Spec) string {
	if s.Until.IsZero() {
		return ""
	}
	return " and before " + s.Until.Format(time.RFC3339)
}

// placeLocked is place with the entry's lock held, and the entry still in its place.
func (k *Keeper) placeLocked(owner, name string) (*entry, error) {
	for {
		e, err := k.place(owner, name)
		if err != nil {
			return nil, err
		}
		e.mu.Lock()
		k.mu.Lock()
		still := k.byName[nameKey(owner, name)] == e
		k.mu.Unlock()
		if still {
			return e, nil
		}
		e.mu.Unlock() // the task ended while we waited
	}
}

// place finds the entry of a name, or makes room for one.
func (k *Keeper) place(owner, name string) (*entry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := nameKey(owner, name)
	if e := k.byName[key]; e != nil {
		return e, nil
	}
	switch {
	case k.count[owner] >= k.PerOwner:
		return nil, sdk.Errorf(sdk.TooLarge, "agent %q has %d tasks, the most it may have (max_tasks_per_agent of plugin \"scheduling\"); cancel some", owner, k.count[owner])
	case len(k.byID) >= k.Total:
		return nil, sdk.Errorf(sdk.TooLarge, "there are %d tasks, the most there may be (max_tasks of plugin \"scheduling\")", len(k.byID))
	}
	e := &entry{index: -1, running: map[string]bool{}}
	k.byName[key] = e
	k.count[owner]++
	return e, nil
}

// drop takes back what place made.
func (k *Keeper) drop(e *entry, owner, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := nameKey(owner, name); k.byName[key] == e {
		delete(k.byName, key)
		if k.count[owner]--; k.count[owner] <= 0 {
			delete(k.count, owner)
		}
	}
}

// change changes the owner's task of a name; found is false when there is none.
func (k *Keeper) change(ctx context.Context, owner, name string, do func(e *entry, t *task.Task, s *state, now time.Time) (why string, err error)) (v View, found bool, err error) {
	end, err := k.begin(ctx)
	if err != nil {
		return View{}, false, err
	}
	defer end()
	k.mu.Lock()
	e := k.byName[nameKey(owner, name)]
	k.mu.Unlock()
	if e == nil {
		return View{}, false, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.now.Load()
	if s == nil {
		return View{}, false, nil
	}
	t := s.Clone()
	why, err := do(e, t, s, k.Clock.Now())
	if err != nil {
		return k.view(s), true, err
	}
	v = k.view(&state{Task: t, plan: s.plan, next: t.NextFire(s.plan)})
	return v, true, k.store(ctx, e, t, s.plan, why)
}

// Cancel removes a task. What has begun ends by itself and is not noted any more.
func (k *Keeper) Cancel(ctx context.Context, owner, name string) (View, bool, error) {
	return k.change(ctx, owner, name, func(*entry, *task.Task, *state, time.Time) (string, error) { return "cancelled", nil })
}

// Pause stops a task from firing until Resume.
func (k *Keeper) Pause(ctx context.Context, owner, name, why string) (View, bool, error) {
	return k.change(ctx, owner, name, func(_ *entry, t *task.Task, _ *state, _ time.Time) (string, error) {
		t.Paused = why
		return "finished", nil
	})
}

// Resume lets a task go on. What fell due meanwhile is not caught up.
func (k *Keeper) Resume(ctx context.Context, owner, name string) (View, bool, error) {
	return k.change(ctx, owner, name, func(_ *entry, t *task.Task, s *state, now time.Time) (string, error) {
		if t.Paused == "" {
			return "finished", nil
		}
		if s.plan.Next(now).IsZero() || t.Spent {
			return "", sdk.Errorf(sdk.ExecutionFailed, "task %q has no time left: what it was for has passed while it was paused; run_scheduled_task runs it now, schedule_task gives it a new time", t.Name)
		}
		t.Paused, t.Last = "", now
		return "finished", nil
	})
}

// Run fires a task now, whatever its times; its next time stays as it is.
func (k *Keeper) Run(ctx context.Context, owner, name string) (v View, f task.Fire, found bool, err error) {
	v, found, err = k.change(ctx, owner, name, func(_ *entry, t *task.Task, _ *state, now time.Time) (string, error) {
		if f, err = t.Owe(now); err != nil {
			return "", sdk.Errorf(sdk.ExecutionFailed, "%w", err)
		}
		return "finished", nil
	})
	return v, f, found, err
}

// Get finds the owner's task of a name.
func (k *Keeper) Get(ctx context.Context, owner, name string) (v View, found bool, err error) {
	if err := k.Ready(ctx); err != nil {
		return View{}, false, err
	}
	k.mu.Lock()
	e := k.byName[nameKey(owner, name)]
	k.mu.Unlock()
	if e == nil {
		return View{}, false, nil
	}
	s := e.now.Load()
	if s == nil {
		return View{}, false, nil
	}
	return k.view(s), true, nil
}

// List gives an owner's tasks, or all with an empty owner, by owner and name.
func (k *Keeper) List(ctx context.Context, owner string) ([]View, error) {
	if err := k.Ready(ctx); err != nil {
		return nil, err
	}
	k.mu.Lock()
	entries := make([]*entry, 0, len(k.byID))
	for _, e := range k.byID {
		entries = append(entries, e)
	}
	k.mu.Unlock()
	var out []View
	for _, e := range entries {
		if s := e.now.Load(); s != nil && (owner == "" || s.Owner == owner) {
			out = append(out, k.view(s))
		}
	}
	slices.SortFunc(out, func(a, b View) int {
		if c := strings.Compare(a.Owner, b.Owner); c != 0 {
			return c
		}
		return strings.Compare(task.Key(a.Name), task.Key(b.Name))
	})
	return out, nil
}

// Past lists what is over of an owner's tasks.
func (k *Keeper) Past(ctx context.Context, owner string) ([]book.Past, error) {
	return k.Book.Past(ctx, owner)
}

// Aside says in words what the keeper could not take up, empty when all is well.
func (k *Keeper) Aside() string {
	if f := k.Faults(); len(f) > 0 {
		return fmt.Sprintf("%d stored tasks could not be taken up: %s", len(f), strings.Join(f, "; "))
	}
	return ""
}
