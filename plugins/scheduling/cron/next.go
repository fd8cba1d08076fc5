package cron

import (
	"time"

	gocron "github.com/netresearch/go-cron"
)

// reach is more than any zone's clock was ever moved at once.
const reach = 27 * time.Hour

// Next is the first time after a moment at which the expression is due by the
// clocks of a zone; zero when there is none in sixty years.
func (e *Expression) Next(after time.Time, zone *time.Location) time.Time {
	after = after.Truncate(time.Second)
	from := wall(after, zone)
	changes := changesAround(after, zone)
	if changes {
		from = from.Add(-reach)
	}
	var second time.Time // the earliest repeat, in an hour that comes twice
	for c := e.walk.Next(from); !c.IsZero(); c = e.walk.Next(c) {
		first, again := instants(c, zone)
		if e.repeats && !again.IsZero() && again.After(after) && (second.IsZero() || again.Before(second)) {
			second = again
		}
		if first.After(after) {
			if !second.IsZero() && second.Before(first) {
				return second
			}
			return first
		}
	}
	return second
}

// wall is what clocks of the zone show, as a time in UTC.
func wall(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// changesAround says whether the zone's clocks are moved near a moment.
func changesAround(t time.Time, zone *time.Location) bool {
	start, end := t.In(zone).ZoneBounds()
	return !start.IsZero() && t.Sub(start) < reach || !end.IsZero() && end.Sub(t) < reach
}

// instants are the moments at which clocks of the zone show w: one, or two when
// they are turned back over it. When they are turned on past it, it is the moment
// of that.
func instants(w time.Time, zone *time.Location) (first, again time.Time) {
	// Offsets in force around: those at the ends of a window and of each change in it.
	var gap time.Time
	at := w.Add(-reach)
	for range 8 {
		local := at.In(zone)
		_, offset := local.Zone()
		_, end := local.ZoneBounds()
		got := w.Add(-time.Duration(offset) * time.Second)
		if _, o := got.In(zone).Zone(); o == offset {
			switch {
			case first.IsZero():
				first = got
			case !got.Equal(first) && again.IsZero():
				again = got
			}
		}
		if end.IsZero() || end.After(w.Add(reach)) {
			break
		}
		if before := wall(end.Add(-time.Second), zone); before.Before(w) && wall(end, zone).After(w) {
			gap = end
		}
		at = end
	}
	if first.IsZero() {
		first = gap
	}
	if again.IsZero() {
		return first.In(zone), again
	}
	if again.Before(first) {
		first, again = again, first
	}
	return first.In(zone), again.In(zone)
}

// weekdayBeforeEnd narrows a walk to one day a month: the weekday nearest to the
// one that comes so many days before the last (L-nW), which go-cron lacks.
type weekdayBeforeEnd struct {
	walk   gocron.Schedule
	before int
}

func (w weekdayBeforeEnd) Next(t time.Time) time.Time {
	limit := t.AddDate(years, 0, 0)
	for c := w.walk.Next(t); !c.IsZero() && c.Before(limit); {
		year, month, day := c.Date()
		if day == w.day(year, month) {
			return c
		}
		c = w.walk.Next(time.Date(year, month, day+1, 0, 0, -1, 0, time.UTC))
	}
	return time.Time{}
}

// day is the day of a month, 0 where the month is too short.
func (w weekdayBeforeEnd) day(year int, month time.Month) int {
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	day := last - w.before
	if day < 1 {
		return 0
	}
	switch time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday() {
	case time.Saturday:
		if day == 1 {
			return 3
		}
		return day - 1
	case time.Sunday:
		if day == last {
			return day - 2
		}
		return day + 1
	}
	return day
}
