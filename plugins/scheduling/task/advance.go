package task

import (
	"fmt"
	"time"
)

// SetBack is how far a clock may be behind what a task has dealt with before it
// counts as set back; by less, nothing fires a second time.
const SetBack = time.Hour

// Advance brings a task to a moment: fires due until then are owed, those that are
// over by more than grace are dealt with as the task says. It gives when to come
// again, zero for never. The task may be finished then; see Finished.
func (t *Task) Advance(p *Plan, now time.Time, grace time.Duration) (next time.Time) {
	if t.Paused != "" {
		return time.Time{}
	}
	if t.Last.After(now.Add(SetBack)) {
		t.Note(Run{ID: t.ID, Ended: now, Outcome: Skipped, Detail: fmt.Sprintf("the clock was set back from %s; the task goes on from here", t.Last.UTC().Format(time.RFC3339))})
		t.Last = now
	}
	cutoff := now.Add(-grace)
	if due := t.next(p); !due.IsZero() && p.FireAt(due).Before(cutoff) {
		t.miss(p, cutoff, now)
	}
	for {
		due := t.next(p)
		if due.IsZero() {
			return time.Time{}
		}
		if at := p.FireAt(due); at.After(now) {
			return at
		}
		t.owe(Fire{Due: due}, now)
		t.Last = due
	}
}

// next is when the task is due after all that was dealt with.
func (t *Task) next(p *Plan) time.Time {
	if t.Spent {
		return time.Time{}
	}
	return p.Next(t.Last)
}

// NextFire is when the task fires next; zero when it won't.
func (t *Task) NextFire(p *Plan) time.Time {
	due := t.next(p)
	if due.IsZero() || t.Paused != "" {
		return time.Time{}
	}
	return p.FireAt(due)
}

// miss deals with what should have fired before cutoff.
func (t *Task) miss(p *Plan, cutoff, now time.Time) {
	limit := 1
	if t.Missed == RunAll && !t.Single() {
		limit = max(t.MissedLimit, 1)
	}
	last, before := p.latest(t.Last, cutoff, limit+1)
	// The very last may fire after the cutoff still, by its jitter.
	if n := len(last); n > 0 && !p.FireAt(last[n-1]).Before(cutoff) {
		last = last[:n-1]
	}
	if len(last) > limit {
		before += len(last) - limit
		last = last[len(last)-limit:]
	}
	if len(last) == 0 {
		return
	}
	if t.Single() { // of a task that fires once, the first time counts
		last, before = []time.Time{p.Next(t.Last)}, 0
	}
	switch t.Missed {
	case RunOnce:
		t.owe(Fire{Due: last[0], Missed: before + 1}, now)
	case RunAll:
		if before > 0 {
			t.skip(last[0], before, now, fmt.Sprintf("missed, and over the limit of %d", limit))
		}
		for _, due := range last {
			t.owe(Fire{Due: due, Missed: 1}, now)
		}
	default:
		t.skip(last[len(last)-1], before+len(last), now, "missed: the scheduler or the machine was not running, and missed = skip")
		t.Spent = t.Spent || t.Single()
	}
	t.Last = last[len(last)-1]
}

func (t *Task) skip(due time.Time, count int, now time.Time, why string) {
	if count >= maxCount {
		why = "at least this many times " + why
	}
	t.Note(Run{ID: t.fireID(due), Due: due, Ended: now, Outcome: Skipped, Count: count, Detail: why})
}

// fireID is the same for the same due time, whenever it is made.
func (t *Task) fireID(due time.Time) string {
	return fmt.Sprintf("%s-%s", t.ID, due.UTC().Format("20060102T150405Z"))
}

// owe notes a fire, or that it is skipped since one still runs.
func (t *Task) owe(f Fire, now time.Time) {
	f.ID = t.fireID(f.Due)
	t.Spent = t.Spent || t.Single()
	switch {
	case t.Action.Kind == Prompt && len(t.Owed) < MaxMissed: // handing one over takes no time
		f.Begun = now
	case len(t.Owed) == 0 || t.Overlap == OverlapParallel && len(t.Owed) < MaxQueue:
		f.Begun = now
	case t.Overlap == OverlapQueue && len(t.Owed) < MaxQueue || t.Spent:
	default:
		why := "the run before is not over, and overlap = " + t.Overlap
		if t.Overlap != OverlapSkip {
			why = fmt.Sprintf("%d runs are not over, and no more are kept", len(t.Owed))
		}
		t.Note(Run{ID: f.ID, Due: f.Due, Ended: now, Outcome: Skipped, Detail: why})
		return
	}
	t.Owed = append(t.Owed, f)
	t.Fired++
}

// Owe notes a fire that was asked for by hand; it fails when too many are open.
func (t *Task) Owe(now time.Time) (Fire, error) {
	if len(t.Owed) >= MaxQueue {
		return Fire{}, fmt.Errorf("%d runs of this task are not over yet", len(t.Owed))
	}
	f := Fire{ID: fmt.Sprintf("%s-m%d", t.ID, now.UnixNano()), Due: now, Manual: true}
	if len(t.Owed) == 0 || t.Overlap == OverlapParallel || t.Action.Kind == Prompt {
		f.Begun = now
	}
	t.Owed = append(t.Owed, f)
	t.Fired++
	return f, nil
}

// Settle replaces a fire by what became of it, and begins the next that waits.
func (t *Task) Settle(r Run) (begun []Fire) {
	for i, f := range t.Owed {
		if f.ID == r.ID {
			t.Owed = append(t.Owed[:i:i], t.Owed[i+1:]...)
			break
		}
	}
	t.Note(r)
	running := 0
	for _, f := range t.Owed {
		if !f.Begun.IsZero() {
			running++
		}
	}
	if running == 0 && len(t.Owed) > 0 {
		t.Owed[0].Begun = r.Ended
		begun = append(begun, t.Owed[0])
	}
	return begun
}

// Wait makes a fire wait that was to begin and did not.
func (t *Task) Wait(id string) {
	for i := range t.Owed {
		if t.Owed[i].ID == id {
			t.Owed[i].Begun = time.Time{}
		}
	}
}

// TakeOver makes the fires that an earlier process left without an outcome begin
// again, and gives them.
func (t *Task) TakeOver(now time.Time) (begin []Fire) {
	for i := range t.Owed {
		f := &t.Owed[i]
		if !f.Begun.IsZero() {
			f.Again++
		} else if i > 0 && t.Overlap != OverlapParallel && t.Action.Kind != Prompt {
			continue
		}
		f.Begun = now
		begin = append(begin, *f)
	}
	return begin
}

// Finished reports whether nothing is owed and nothing will be.
func (t *Task) Finished(p *Plan) bool {
	return len(t.Owed) == 0 && t.Paused == "" && t.next(p).IsZero()
}
