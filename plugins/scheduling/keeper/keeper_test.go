package keeper

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/book"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/clock"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
)

// memory is a state that stands in for the host's; fail makes writes fail.
type memory struct {
	mu     sync.Mutex
	values map[string][]byte
	counts map[string]uint64
	fail   func(key string) error
	late   bool // the next write arrives, and its answer does not
}

func newMemory() *memory { return &memory{values: map[string][]byte{}, counts: map[string]uint64{}} }

func (m *memory) Get(_ context.Context, key string) ([]byte, uint64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	return v, m.counts[key], ok, nil
}

func (m *memory) Put(_ context.Context, key string, value []byte, _ bool) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = value
	m.counts[key]++
	return m.counts[key], nil
}

func (m *memory) Delete(_ context.Context, key string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.values[key]
	delete(m.values, key)
	delete(m.counts, key)
	return ok, nil
}

func (m *memory) CompareAndSet(ctx context.Context, key string, expected uint64, value []byte, _ bool) (bool, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(key); err != nil {
			return false, 0, err
		}
	}
	if m.counts[key] != expected {
		return false, m.counts[key], nil
	}
	m.values[key] = value
	m.counts[key]++
	if m.late {
		m.late = false
		return false, 0, context.DeadlineExceeded
	}
	return true, m.counts[key], nil
}

func (m *memory) keys(_ context.Context, prefix, _ string) (keys []string, next string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.values {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys, "", nil
}

// rig is a keeper on a fake clock whose work is called by the test.
type rig struct {
	*Keeper
	t     *testing.T
	state *memory
	clock *clock.Fake

	mu    sync.Mutex
	fires []string                 // task and time due, as they were delivered
	hold  map[string]chan struct{} // deliveries of a task wait for it
	again []string                 // those that may have run before
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newRig(t *testing.T, state *memory, c *clock.Fake) *rig {
	r := &rig{t: t, state: state, clock: c, hold: map[string]chan struct{}{}}
	b := book.New(func() book.State { return state }, state.keys)
	r.Keeper = New(Options{Book: b, Clock: c, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Zone: time.UTC, Grace: time.Minute,
		PerOwner: 20_000, Total: 20_000, Deliveries: 64, Deliver: r.deliver})
	r.background, r.stopAlarm = context.WithCancel(t.Context())
	r.deliveries, r.cutAll = context.WithCancel(context.Background())
	t.Cleanup(r.crash)
	kept, faults, err := b.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.adopt(kept, faults)
	close(r.ready)
	return r
}

// crash ends the keeper as a kill would: nothing more is written.
func (r *rig) crash() {
	r.stopAlarm()
	r.cutAll()
	r.running.Wait()
}

func (r *rig) deliver(ctx context.Context, t *task.Task, f task.Fire) (task.Run, bool) {
	r.mu.Lock()
	r.fires = append(r.fires, t.Name+" "+f.Due.UTC().Format(time.RFC3339))
	if f.Again > 0 {
		r.again = append(r.again, f.ID)
	}
	hold := r.hold[t.Name]
	r.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return task.Run{}, false
		}
	}
	return task.Run{ID: f.ID, Due: f.Due, Begun: f.Begun, Ended: r.clock.Now(), Outcome: task.OK, Again: f.Again > 0, Manual: f.Manual}, true
}

func (r *rig) holding(name string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := make(chan struct{})
	r.hold[name] = c
	return c
}

// taken gives what was delivered since it was asked last.
func (r *rig) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.fires
	r.fires = nil
	return out
}

// until lets time pass to a moment, stopping wherever the keeper wants to work.
func (r *rig) until(to time.Time) {
	for {
		next := r.work(r.clock.Now())
		if len(r.hold) == 0 {
			r.running.Wait()
		}
		if next.IsZero() || next.After(to) {
			break
		}
		if next.After(r.clock.Now()) {
			r.clock.Set(next)
		}
	}
	r.clock.Set(to)
	r.work(to)
	if len(r.hold) == 0 {
		r.running.Wait()
	}
}

func (r *rig) schedule(s task.Spec) View {
	r.t.Helper()
	if s.Description == "" {
		s.Description = "d"
	}
	if s.Action.Kind == "" {
		s.Action.Kind = task.Prompt
	}
	if s.Missed == "" {
		s.Missed = task.Skip
	}
	if s.Overlap == "" {
		s.Overlap = task.OverlapSkip
	}
	v, _, err := r.Schedule(r.t.Context(), "ann", "main", "h", s)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *rig) want(what string, want ...string) {
	r.t.Helper()
	if got := r.taken(); !slices.Equal(got, want) {
		r.t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (r *rig) history(name string) (out []string) {
	r.t.Helper()
	v, found, err := r.Get(r.t.Context(), "ann", name)
	if err != nil || !found {
		r.t.Fatalf("%s: %t %v", name, found, err)
	}
	for _, run := range v.Runs {
		out = append(out, fmt.Sprintf("%s x%d", run.Outcome, max(run.Count, 1)))
	}
	return out
}
