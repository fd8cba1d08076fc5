package cron

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// part is a field's text and, apart from it, what it means.
type part struct {
	text    string
	fits    func(int) bool
	repeats bool
}

// randomPart makes a field; nothing of the parser is used.
func randomPart(r *rand.Rand, low, high int) part {
	n := func() int { return low + r.IntN(high-low+1) }
	switch r.IntN(6) {
	case 0:
		return part{"*", func(int) bool { return true }, true}
	case 1:
		step := 1 + r.IntN(high)
		return part{fmt.Sprintf("*/%d", step), func(v int) bool { return (v-low)%step == 0 }, true}
	case 2:
		a, b := n(), n()
		return part{fmt.Sprintf("%d-%d", a, b), func(v int) bool {
			if a <= b {
				return a <= v && v <= b
			}
			return v >= a || v <= b
		}, true}
	case 3:
		a, b := n(), n()
		return part{fmt.Sprintf("%d,%d", a, b), func(v int) bool { return v == a || v == b }, false}
	case 4:
		a, step := n(), 1+r.IntN(high)
		return part{fmt.Sprintf("%d/%d", a, step), func(v int) bool { return v >= a && (v-a)%step == 0 }, true}
	}
	a := n()
	return part{fmt.Sprint(a), func(v int) bool { return v == a }, false}
}

var anything = part{"*", func(int) bool { return true }, true}

// randomExpression has few day fields, so that it is due within the walk.
func randomExpression(r *rand.Rand) (text string, fits func(time.Time) bool, repeats, withSeconds bool) {
	sec, min, hour := part{"0", func(v int) bool { return v == 0 }, false}, randomPart(r, 0, 59), randomPart(r, 0, 23)
	day, month, dow := anything, anything, anything
	switch r.IntN(4) {
	case 0:
		day = randomPart(r, 1, 31)
	case 1:
		dow = randomPart(r, 0, 6)
	case 2:
		month = randomPart(r, 1, 12)
	}
	texts := []string{min.text, hour.text, day.text, month.text, dow.text}
	if withSeconds = r.IntN(4) == 0; withSeconds {
		sec = randomPart(r, 0, 59)
		texts = append([]string{sec.text}, texts...)
	}
	return strings.Join(texts, " "), func(w time.Time) bool {
		return sec.fits(w.Second()) && min.fits(w.Minute()) && hour.fits(w.Hour()) && day.fits(w.Day()) && month.fits(int(w.Month())) && dow.fits(int(w.Weekday()))
	}, sec.repeats && withSeconds || min.repeats || hour.repeats, withSeconds
}

// The next time is strictly after, fits the fields as clocks show them there, and
// nothing between fits: a walk over every second or minute says so, which knows of
// zones only what clocks show.
func TestNextAgainstWalk(t *testing.T) {
	zones := []string{"UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Santiago", "Africa/Casablanca", "Pacific/Apia"}
	seed := time.Now().UnixNano()
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	found, cases := 0, 400
	for i := range cases {
		zone, err := time.LoadLocation(zones[i%len(zones)])
		if err != nil {
			t.Fatal(err)
		}
		text, fits, repeats, withSeconds := randomExpression(r)
		start := time.Date(2000+r.IntN(40), 1, 1, 0, 0, r.IntN(366*86400), 0, time.UTC)
		if r.IntN(2) == 0 { // just before clocks are moved
			if _, end := start.In(zone).ZoneBounds(); !end.IsZero() {
				start = end.Add(-time.Duration(r.IntN(4*3600)) * time.Second)
			}
		}
		e, err := Parse(text)
		if err != nil {
			if fitsNever(err) {
				continue
			}
			t.Fatal(err)
		}
		got := e.Next(start, zone)
		step, steps := time.Minute, 60_000
		if withSeconds {
			step, steps = time.Second, 100_000
		}
		want, ok := walkOn(start, zone, step, steps, fits, repeats)
		switch {
		case ok && !got.Equal(want):
			t.Errorf("seed %d: %q in %s after %s: %s, a walk finds %s", seed, text, zone, start.In(zone), got, want)
		case !ok && !got.IsZero() && !got.After(start.Add(time.Duration(steps-1)*step)):
			t.Errorf("seed %d: %q in %s after %s: %s, a walk finds nothing", seed, text, zone, start.In(zone), got)
		case ok:
			found++
		}
	}
	if found < cases/2 {
		t.Errorf("only %d of %d cases were decided by the walk", found, cases)
	}
}

func fitsNever(err error) bool { return strings.Contains(err.Error(), "never due") }

func walkOn(start time.Time, zone *time.Location, step time.Duration, steps int, fits func(time.Time) bool, repeats bool) (time.Time, bool) {
	clock := func(t time.Time) time.Time {
		t = t.In(zone)
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
	}
	at := start.Add(-48 * time.Hour).Truncate(step)
	var top time.Time // the latest that clocks have shown
	last := clock(at.Add(-step))
	for end := start.Add(time.Duration(steps) * step); at.Before(end); at = at.Add(step) {
		shows := clock(at)
		again := !shows.After(top)
		due := fits(shows) && (!again || repeats)
		for w := last.Add(step); !due && w.Before(shows); w = w.Add(step) {
			due = fits(w) // skipped
		}
		if shows.After(top) {
			top = shows
		}
		last = shows
		if due && at.After(start) {
			return at, true
		}
	}
	return time.Time{}, false
}

func TestRefusalsPoint(t *testing.T) {
	for text, want := range map[string]string{
		"0 25 * * *":         `cron "0 25 * * *", column 3 (hour): "25" is not a number from 0 to 23; an example for this field: 9-17`,
		"* * * FOO *":        `cron "* * * FOO *", column 7 (month): "FOO" is not a number from 1 to 12 or a name from JAN to DEC; an example for this field: 1-6 or JAN`,
		"0  9 *":             `cron "0  9 *", column 1: it has 3 fields; 5 are wanted (minute, hour, day of month, month, day of week), or 6 with seconds before them; ` + example,
		"0 9 31 2 *":         `cron "0 9 31 2 *", column 5 (days): it is never due: no day fits day of month, month and day of week together; ` + example,
		"*/0 * * * *":        `cron "*/0 * * * *", column 1 (minute): the step "0" is not a number from 1 to 59; an example for this field: */15`,
		"@fortnightly":       `cron "@fortnightly", column 1: there is no "@fortnightly"; there are @yearly, @monthly, @weekly, @daily, @hourly, @every_minute and @every 1h30m`,
		"0 9 * * ÄÖÜ":        `cron "0 9 * * ÄÖÜ", column 9 (day of week): "ÄÖÜ" is not a number from 0 to 7 or a name from SUN to SAT; an example for this field: MON-FRI or 1-5`,
		"":                   `cron "", column 1: it has 0 fields; 5 are wanted (minute, hour, day of month, month, day of week), or 6 with seconds before them; ` + example,
		"0 0 9 * * 1-5 2030": `cron "0 0 9 * * 1-5 2030", column 15: it has 7 fields; 5 are wanted (minute, hour, day of month, month, day of week), or 6 with seconds before them; ` + example,
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q:\n%v, want\n%s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"* * * * *", "0 0 9 L-2W * FRI#L", "*/5 22-2/2 * JAN-MAR ?", "@daily", "é * * * *"} {
		f.Add(s)
	}
	after := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			return
		}
		if next := e.Next(after, time.UTC); !next.After(after) && !next.IsZero() {
			t.Errorf("%q is next due %s", s, next)
		}
		if again, err := Parse(e.String()); err != nil || !again.Next(after, time.UTC).Equal(e.Next(after, time.UTC)) {
			t.Errorf("%q is not %q", s, e)
		}
	})
}
