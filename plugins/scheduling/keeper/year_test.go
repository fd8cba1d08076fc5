package keeper

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/clock"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
)

// timed is a task as the oracle sees it: sets of values, and no expression.
type timed struct {
	name                          string
	minute, hour, day, month, dow uint64 // a bit a value
	repeats                       bool
	zone                          int
	every                         time.Duration
	at, until                     time.Time
	once, fired                   bool
}

func set(r *rand.Rand, low, high, n int) (bits uint64, text string) {
	var values []string
	for range n {
		v := low + r.IntN(high-low+1)
		if bits&(1<<v) == 0 {
			values = append(values, fmt.Sprint(v))
		}
		bits |= 1 << v
	}
	return bits, strings.Join(values, ",")
}

const all = ^uint64(0)

// mixed makes a task and what the oracle knows of it.
func mixed(r *rand.Rand, i int, zones []string) (task.Spec, *timed) {
	o := &timed{name: fmt.Sprintf("task-%04d", i), zone: r.IntN(len(zones)), minute: all, hour: all, day: all, month: all, dow: all}
	s := task.Spec{Name: o.name, Zone: zones[o.zone], Missed: []string{task.Skip, task.RunOnce, task.RunAll}[r.IntN(3)], MissedLimit: 10}
	text := []string{"*", "*", "*", "*", "*"}
	switch kind := r.IntN(10); {
	case kind < 6: // so often a day
		o.minute, text[0] = set(r, 0, 59, 1+r.IntN(2))
		o.hour, text[1] = set(r, 0, 23, 1+r.IntN(2))
		if kind == 5 { // hours 1 to 3, where clocks are moved
			o.hour, text[1] = 1<<1|1<<2|1<<3, "1-3"
			o.repeats = true
		}
		switch r.IntN(4) {
		case 0:
			o.dow, text[4] = set(r, 0, 6, 2)
		case 1:
			o.day, text[2] = set(r, 1, 31, 3)
		case 2:
			o.month, text[3] = set(r, 1, 12, 3)
		}
		s.Cron = strings.Join(text, " ")
		if o.once = r.IntN(8) == 0; o.once {
			s.Once = true
		}
	case kind < 7:
		o.minute, text[0] = set(r, 0, 59, 1)
		o.day, text[2] = set(r, 1, 31, 1)
		s.Cron, o.repeats = strings.Join(text, " "), true
	case kind < 9:
		o.every = time.Duration(200+r.IntN(2000)) * time.Minute * 7
		s.Every = o.every
	default:
		o.at = start.Add(time.Duration(1+r.IntN(365*24*60)) * time.Minute)
		s.At = o.at
	}
	if r.IntN(6) == 0 && s.At.IsZero() {
		o.until = start.Add(time.Duration(30+r.IntN(300)) * 24 * time.Hour)
		s.Until = o.until
	}
	return s, o
}

// A year of 1,000 tasks, minute by minute: what the keeper fires is what an oracle
// says that knows sets of values and what clocks show, and no more.
func TestYearAgainstOracle(t *testing.T) {
	zones := []string{"UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	rig := newRig(t, newMemory(), clock.NewFake(start))
	var tasks []*timed
	for i := range 1000 {
		s, o := mixed(r, i, zones)
		s.Description, s.Overlap, s.Action.Kind = "d", task.OverlapSkip, task.Prompt
		if _, _, err := rig.Schedule(t.Context(), "ann", "main", "h", s); err != nil && !strings.Contains(err.Error(), "never") {
			t.Fatal(err)
		}
		tasks = append(tasks, o) // of one that was refused the oracle finds no fire
	}
	end := start.AddDate(1, 0, 0)
	rig.until(end)
	got := rig.taken()
	want := oracle(tasks, zones, end)
	slices.Sort(got)
	slices.Sort(want)
	t.Logf("seed %d: %d tasks, %d fires", seed, len(tasks), len(want))
	if !slices.Equal(got, want) {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		t.Errorf("seed %d: %d fires, %d wanted; from the first difference on:\n%q\nwant\n%q", seed, len(got), len(want), got[i:min(i+3, len(got))], want[i:min(i+3, len(want))])
	}
	if len(want) < 50_000 {
		t.Errorf("only %d fires", len(want))
	}
}

// oracle walks all minutes of the year.
func oracle(tasks []*timed, zones []string, end time.Time) (fires []string) {
	type face struct {
		loc       *time.Location
		top, last time.Time
		skipped   []time.Time
		shows     time.Time
		again     bool
	}
	faces := make([]*face, len(zones))
	for i, z := range zones {
		loc, err := time.LoadLocation(z)
		if err != nil {
			panic(err)
		}
		faces[i] = &face{loc: loc}
	}
	fits := func(o *timed, w time.Time) bool {
		return o.minute>>w.Minute()&1 == 1 && o.hour>>w.Hour()&1 == 1 && o.day>>w.Day()&1 == 1 && o.month>>int(w.Month())&1 == 1 && o.dow>>int(w.Weekday())&1 == 1
	}
	for at := start.Add(-3 * time.Hour); !at.After(end); at = at.Add(time.Minute) {
		for _, f := range faces {
			local := at.In(f.loc)
			f.shows = time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
			f.again = !f.shows.After(f.top)
			f.skipped = f.skipped[:0]
			if !f.last.IsZero() {
				for w := f.last.Add(time.Minute); w.Before(f.shows); w = w.Add(time.Minute) {
					f.skipped = append(f.skipped, w)
				}
			}
			if !f.again {
				f.top = f.shows
			}
			f.last = f.shows
		}
		if !at.After(start) {
			continue
		}
		for _, o := range tasks {
			f := faces[o.zone]
			var due bool
			switch {
			case o.every > 0:
				due = at.Sub(start)%o.every == 0
			case !o.at.IsZero():
				due = at.Equal(o.at)
			default:
				due = fits(o, f.shows) && (!f.again || o.repeats)
				for _, w := range f.skipped {
					due = due || fits(o, w)
				}
			}
			if !due || o.once && o.fired || !o.until.IsZero() && at.After(o.until) {
				continue
			}
			o.fired = true
			fires = append(fires, o.name+" "+at.Format(time.RFC3339))
		}
	}
	return fires
}
