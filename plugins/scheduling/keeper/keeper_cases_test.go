package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/clock"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Each policy for what was missed while nothing ran.
func TestMissed(t *testing.T) {
	state, c := newMemory(), clock.NewFake(start)
	r := newRig(t, state, c)
	for _, missed := range []string{task.Skip, task.RunOnce, task.RunAll} {
		r.schedule(task.Spec{Name: missed, Every: time.Hour, Missed: missed, MissedLimit: 3})
	}
	r.schedule(task.Spec{Name: "late", At: start.Add(90 * time.Minute), Missed: task.RunOnce})
	r.schedule(task.Spec{Name: "over", At: start.Add(90 * time.Minute), Missed: task.Skip})
	r.work(c.Now())
	r.crash()
	c.Set(start.Add(7*time.Hour + 30*time.Minute))
	r = newRig(t, state, c)
	r.work(c.Now())
	r.running.Wait()
	got := r.taken()
	slices.Sort(got)
	want := []string{"late 2026-01-01T01:30:00Z", "run_all 2026-01-01T05:00:00Z", "run_all 2026-01-01T06:00:00Z", "run_all 2026-01-01T07:00:00Z", "run_once 2026-01-01T07:00:00Z"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if h := r.history("skip"); !slices.Equal(h, []string{"skipped x7"}) {
		t.Errorf("skip: %q", h)
	}
	if h := r.history("run_all"); len(h) != 4 || h[0] != "skipped x4" {
		t.Errorf("run_all: %q", h)
	}
	past, err := r.Past(t.Context(), "ann")
	if err != nil || len(past) != 2 {
		t.Errorf("%+v %v", past, err)
	}
	for _, p := range past {
		if wants := map[string]string{"late": task.OK, "over": task.Skipped}[p.Name]; len(p.Runs) != 1 || p.Runs[0].Outcome != wants {
			t.Errorf("%+v", p)
		}
	}
	r.until(start.Add(8 * time.Hour))
	if n := len(r.taken()); n != 3 {
		t.Errorf("%d fires at the next hour", n)
	}
}

// What is due within the grace is late and not missed.
func TestGrace(t *testing.T) {
	state, c := newMemory(), clock.NewFake(start)
	r := newRig(t, state, c)
	r.schedule(task.Spec{Name: "tick", Every: 10 * time.Second})
	r.crash()
	c.Set(start.Add(45 * time.Second))
	r = newRig(t, state, c)
	r.work(c.Now())
	r.running.Wait()
	got := r.taken()
	slices.Sort(got)
	if len(got) != 4 || got[0] != "tick 2026-01-01T00:00:10Z" || len(r.history("tick")) != 4 {
		t.Errorf("%q", got)
	}
}

func TestOverlap(t *testing.T) {
	for overlap, want := range map[string]string{
		task.OverlapSkip:     "1 [skipped x1 skipped x1 ok x1]",
		task.OverlapQueue:    "3 [ok x1 ok x1 ok x1]",
		task.OverlapParallel: "3 [ok x1 ok x1 ok x1]",
	} {
		t.Run(overlap, func(t *testing.T) {
			c := clock.NewFake(start)
			r := newRig(t, newMemory(), c)
			hold := r.holding("job")
			r.schedule(task.Spec{Name: "job", Every: time.Hour, Overlap: overlap, Action: task.Action{Kind: task.Tool, Tool: "x"}})
			for n := 1; n <= 3; n++ {
				c.Set(start.Add(time.Duration(n) * time.Hour))
				r.work(c.Now())
			}
			await(t, "the deliveries to begin", func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return len(r.fires) == map[string]int{task.OverlapParallel: 3}[overlap]+map[string]int{task.OverlapSkip: 1, task.OverlapQueue: 1}[overlap]
			})
			close(hold)
			r.running.Wait()
			if got := fmt.Sprint(len(r.taken()), " ", r.history("job")); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// await waits for what other goroutines do.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A jitter makes a fire later, never by more than it says, never past the next one,
// and the same after a restart.
func TestJitter(t *testing.T) {
	state, c := newMemory(), clock.NewFake(start)
	r := newRig(t, state, c)
	v := r.schedule(task.Spec{Name: "spread", Every: 10 * time.Minute, Jitter: 24 * time.Hour})
	spread := map[time.Duration]bool{}
	for n := 1; n <= 50; n++ {
		due := start.Add(time.Duration(n) * 10 * time.Minute)
		at := v.plan.FireAt(due)
		if at.Before(due) || at.Sub(due) >= 10*time.Minute {
			t.Fatalf("due %s fires %s", due, at)
		}
		spread[at.Sub(due).Truncate(time.Minute)] = true
		again, err := task.NewPlan(v.Task, time.UTC)
		if err != nil || !again.FireAt(due).Equal(at) {
			t.Fatalf("another time after a restart: %v", err)
		}
	}
	if len(spread) < 5 {
		t.Errorf("50 fires are spread over %d minutes", len(spread))
	}
	r.until(start.Add(101 * time.Minute))
	if n := len(r.taken()); n != 9 && n != 10 {
		t.Errorf("%d fires in 101 minutes", n)
	}
}

// A clock that is set on makes times late or missed; one that is set back fires
// nothing twice, and by more than an hour does not silence tasks.
func TestClockIsSet(t *testing.T) {
	c := clock.NewFake(start)
	r := newRig(t, newMemory(), c)
	r.schedule(task.Spec{Name: "hourly", Cron: "0 * * * *"})
	r.until(start.Add(150 * time.Minute))
	r.want("two hours", "hourly 2026-01-01T01:00:00Z", "hourly 2026-01-01T02:00:00Z")
	r.until(start.Add(110 * time.Minute)) // 40 minutes back
	r.until(start.Add(170 * time.Minute))
	r.want("set back a little")
	r.until(start.Add(181 * time.Minute))
	r.want("goes on", "hourly 2026-01-01T03:00:00Z")
	r.until(start.AddDate(1, 0, 0).Add(30 * time.Second)) // a year on, and nothing in between
	r.taken()
	c.Set(start.Add(5*time.Hour + 10*time.Minute)) // and back
	r.until(start.Add(6*time.Hour + time.Minute))
	r.want("set back a year", "hourly 2026-01-01T06:00:00Z")
	v, _, err := r.Get(t.Context(), "ann", "hourly")
	if err != nil || !slices.ContainsFunc(v.Runs, func(run task.Run) bool { return strings.Contains(run.Detail, "set back") }) {
		t.Errorf("it is not told: %+v %v", v.Runs, err)
	}
}

// A crash between the writing down of a fire and of its outcome neither loses it nor
// runs it again in silence.
func TestCrashWhileDelivering(t *testing.T) {
	state, c := newMemory(), clock.NewFake(start)
	r := newRig(t, state, c)
	r.holding("once")
	r.schedule(task.Spec{Name: "once", At: start.Add(time.Hour), Missed: task.RunOnce, Action: task.Action{Kind: task.Tool, Tool: "x"}})
	c.Set(start.Add(time.Hour))
	r.work(c.Now())
	await(t, "the delivery", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.fires) == 1 })
	r.crash()
	r = newRig(t, state, c)
	r.work(c.Now())
	r.running.Wait()
	r.want("begun again", "once 2026-01-01T01:00:00Z")
	past, err := r.Past(t.Context(), "ann")
	if err != nil || len(past) != 1 || len(past[0].Runs) != 1 || !past[0].Runs[0].Again || len(r.again) != 1 {
		t.Errorf("%+v %v", past, err)
	}
	if list, err := r.List(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("left: %v %v", list, err)
	}
	r.crash()
	r = newRig(t, state, c)
	r.until(start.Add(48 * time.Hour))
	r.want("not a third time")
}

// A write that fails is tried again, and one whose answer is lost is not done twice.
func TestWritesThatFail(t *testing.T) {
	state, c := newMemory(), clock.NewFake(start)
	r := newRig(t, state, c)
	r.schedule(task.Spec{Name: "job", Every: time.Hour})
	fails := 3
	state.fail = func(string) error {
		if fails--; fails >= 0 {
			return errors.New("disk full")
		}
		return nil
	}
	r.until(start.Add(time.Hour + 10*time.Second))
	r.want("after three failures", "job 2026-01-01T01:00:00Z")
	state.mu.Lock()
	state.late = true
	state.mu.Unlock()
	r.until(start.Add(2*time.Hour + 10*time.Second))
	r.want("after a lost answer", "job 2026-01-01T02:00:00Z")
	r.until(start.Add(3*time.Hour + 10*time.Second))
	r.want("after it", "job 2026-01-01T03:00:00Z")
}

// A record that can't be read is put aside and told of; the others go on.
func TestUnreadableRecords(t *testing.T) {
	state, c := newMemory(), clock.NewFake(start)
	r := newRig(t, state, c)
	r.schedule(task.Spec{Name: "good", Every: time.Hour})
	bad := r.schedule(task.Spec{Name: "bad", Every: time.Hour})
	r.crash()
	half := state.values["task/"+bad.ID][:40]
	if _, err := state.Put(t.Context(), "task/"+bad.ID, half, false); err != nil {
		t.Fatal(err)
	}
	if _, err := state.Put(t.Context(), "task/t_other", []byte(`{"id":"t_else","owner":"ann"}`), false); err != nil {
		t.Fatal(err)
	}
	r = newRig(t, state, c)
	r.until(start.Add(time.Hour))
	r.want("the others", "good 2026-01-01T01:00:00Z")
	if kept := state.values["unreadable/"+bad.ID]; string(kept) != string(half) {
		t.Errorf("kept: %q", kept)
	}
	if said := r.Aside(); !strings.Contains(said, "2 stored tasks") || !strings.Contains(said, "unreadable/"+bad.ID) {
		t.Errorf("%q", said)
	}
}

// What is done to a task by name.
func TestSteering(t *testing.T) {
	c := clock.NewFake(start)
	r := newRig(t, newMemory(), c)
	ctx := t.Context()
	first := r.schedule(task.Spec{Name: "Job", Every: time.Hour})
	v, replaced, err := r.Schedule(ctx, "ann", "main", "h", task.Spec{Name: "JOB ", Description: "d", Every: 2 * time.Hour, Missed: task.Skip, Overlap: task.OverlapSkip, Action: task.Action{Kind: task.Prompt}})
	if err != nil || !replaced || v.ID != first.ID || v.Every != 2*time.Hour {
		t.Errorf("%+v %t %v", v, replaced, err)
	}
	if _, found, err := r.Cancel(ctx, "bob", "job"); found || err != nil {
		t.Errorf("bob cancels ann's: %t %v", found, err)
	}
	if v, found, err := r.Pause(ctx, "ann", "job", "by ann"); !found || err != nil || !v.Next.IsZero() {
		t.Errorf("pause: %t %v %v", found, err, v.Next)
	}
	r.until(start.Add(5 * time.Hour))
	r.want("paused")
	if _, f, found, err := r.Run(ctx, "ann", "job"); !found || err != nil || !f.Manual {
		t.Errorf("run: %t %v", found, err)
	}
	r.running.Wait()
	r.want("run by hand", "JOB  2026-01-01T05:00:00Z")
	if v, found, err := r.Resume(ctx, "ann", "job"); !found || err != nil || !v.Next.Equal(start.Add(6*time.Hour)) {
		t.Errorf("resume: %t %v %v", found, err, v.Next)
	}
	r.until(start.Add(7 * time.Hour))
	r.want("on", "JOB  2026-01-01T06:00:00Z")
	if _, found, err := r.Cancel(ctx, "ann", "jOb"); !found || err != nil {
		t.Errorf("cancel: %t %v", found, err)
	}
	r.until(start.Add(24 * time.Hour))
	r.want("cancelled")
	r.PerOwner = 1
	r.schedule(task.Spec{Name: "a", Every: time.Hour})
	if _, _, err := r.Schedule(ctx, "ann", "main", "h", task.Spec{Name: "b", Description: "d", Every: time.Hour}); err == nil || !strings.Contains(err.Error(), "max_tasks_per_agent") {
		t.Errorf("one too many: %v", err)
	}
}

// The alarm wakes when something is due, when poked, and at most twice a minute
// otherwise; it notices a suspended machine.
func TestAlarm(t *testing.T) {
	c := clock.NewFake(start)
	ctx, cancel := context.WithCancel(t.Context())
	worked, poked, done := make(chan time.Time), make(chan struct{}, 1), make(chan struct{})
	woke := 0
	go func() {
		defer close(done)
		clock.Alarm(ctx, c, poked, func() { woke++ }, func(now time.Time) time.Time {
			worked <- now
			return start.Add(time.Hour)
		})
	}()
	<-worked
	<-c.Armed()
	for n := range 4 {
		c.Run(30 * time.Second)
		if now := <-worked; !now.Equal(start.Add(time.Duration(n+1) * 30 * time.Second)) {
			t.Errorf("woke %s", now)
		}
		<-c.Armed()
	}
	c.Set(start.Add(3 * time.Hour)) // suspended
	c.Run(30 * time.Second)
	if now := <-worked; !now.Equal(start.Add(3*time.Hour + 30*time.Second)) {
		t.Errorf("after a suspend: %s", now)
	}
	poked <- struct{}{}
	cancelled := make(chan struct{})
	go func() {
		defer close(cancelled)
		for range worked { // it is due all the time now
		}
	}()
	cancel()
	<-done
	close(worked)
	<-cancelled
	if woke < 5 {
		t.Errorf("woke %d times", woke)
	}
}

// A keeper that stops lets what is being delivered end, for as long as it is given,
// admits no more, and leaves what it cut, and what waits behind it, to the next one.
func TestStop(t *testing.T) {
	state, c := newMemory(), clock.NewFake(start)
	r := newRig(t, state, c)
	r.holding("cut")
	ends := r.holding("ends")
	for _, name := range []string{"cut", "ends"} {
		r.schedule(task.Spec{Name: name, Every: time.Hour, Overlap: task.OverlapQueue, Action: task.Action{Kind: task.Tool, Tool: "x"}})
	}
	for n := 1; n <= 2; n++ {
		c.Set(start.Add(time.Duration(n) * time.Hour))
		r.work(c.Now())
	}
	await(t, "both deliveries", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.fires) == 2 })
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { r.Stop(ctx); close(stopped) }()
	await(t, "the end of changes", r.closing)
	if _, _, err := r.Pause(t.Context(), "ann", "cut", "x"); sdk.CodeOf(err) != sdk.Unavailable {
		t.Errorf("a change while it stops: %v", err)
	}
	close(ends)
	await(t, "the one that ends to be noted", func() bool { return len(r.history("ends")) == 1 })
	cancel()
	<-stopped
	r.taken()
	r = newRig(t, state, c)
	r.work(c.Now())
	r.running.Wait()
	got := r.taken()
	slices.Sort(got)
	want := []string{"cut 2026-01-01T01:00:00Z", "cut 2026-01-01T02:00:00Z", "ends 2026-01-01T02:00:00Z"}
	if !slices.Equal(got, want) || len(r.again) != 1 {
		t.Errorf("the next one begins %q, of which %q may have run before; want %q", got, r.again, want)
	}
}
