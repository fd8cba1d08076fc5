package task

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	_ "time/tzdata" // zones are known without the machine's database

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/cron"
)

// Plan tells when a task is due. It is made once of its spec.
type Plan struct {
	id     string
	expr   *cron.Expression
	every  time.Duration
	anchor time.Time
	at     time.Time
	until  time.Time
	jitter time.Duration
	zone   *time.Location
}

// NewPlan reads a task's times; local is the zone of tasks that name none.
func NewPlan(t *Task, local *time.Location) (*Plan, error) {
	p := &Plan{id: t.ID, every: t.Every, anchor: t.Created, at: t.At, until: t.Until, jitter: t.Jitter, zone: local}
	if t.Zone != "" {
		zone, err := Zone(t.Zone)
		if err != nil {
			return nil, err
		}
		p.zone = zone
	}
	if t.Cron == "" {
		return p, nil
	}
	if every, ok, err := cutEvery(t.Cron); ok || err != nil {
		p.every = every
		return p, err
	}
	expr, err := cron.Parse(t.Cron)
	p.expr = expr
	return p, err
}

// cutEvery reads "@every 1h30m", an interval in a cron's place.
func cutEvery(text string) (time.Duration, bool, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if !strings.EqualFold(word, "@every") {
		return 0, false, nil
	}
	d, err := Duration(rest)
	if err == nil && d < MinEvery {
		err = fmt.Errorf("@every %s is too often; at least %s", d, MinEvery)
	}
	return d, true, err
}

// Zone finds a time zone by its IANA name.
func Zone(name string) (*time.Location, error) {
	if strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("%q names no time zone; leave time_zone out for this machine's own", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil || len(name) > 64 {
		return nil, fmt.Errorf(`%.64q is no time zone; examples: "Europe/Vienna", "America/New_York", "UTC"`, name)
	}
	return zone, nil
}

// In is the zone the plan goes by.
func (p *Plan) In() *time.Location { return p.zone }

// Next is the first time after a moment at which the task is due, jitter apart;
// zero when there is none.
func (p *Plan) Next(after time.Time) (next time.Time) {
	switch {
	case p.expr != nil:
		next = p.expr.Next(after, p.zone)
	case p.every > 0:
		n := after.Sub(p.anchor) / p.every
		if after.Before(p.anchor) {
			n = -1
		}
		next = p.anchor.Add((n + 1) * p.every)
	case p.at.After(after):
		next = p.at
	}
	if !p.until.IsZero() && next.After(p.until) {
		return time.Time{}
	}
	return next
}

// FireAt is when a fire that is due is begun: later by the task's jitter, which is
// the same each time it is asked and never reaches the next one.
func (p *Plan) FireAt(due time.Time) time.Time {
	if p.jitter <= 0 {
		return due
	}
	most := p.jitter
	if next := p.Next(due); !next.IsZero() {
		most = min(most, next.Sub(due))
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", p.id, due.Unix())
	return due.Add(time.Duration(h.Sum64() % uint64(most)))
}

// latest lists the last n times in (from, to], and counts those before them up to
// maxCount.
func (p *Plan) latest(from, to time.Time, n int) (last []time.Time, before int) {
	// Times are dense or sparse, so the window grows until it holds enough.
	start := from
	for width := time.Minute; to.Add(-width).After(from); width *= 2 {
		start = to.Add(-width)
		if last = p.within(start, to, n); len(last) >= n {
			break
		}
		start = from
	}
	last = p.within(start, to, n)
	if len(last) == 0 {
		return nil, 0
	}
	for at := p.Next(from); !at.IsZero() && at.Before(last[0]) && before < maxCount; at = p.Next(at) {
		before++
	}
	return last, before
}

// maxCount is how far times that were missed are counted.
const maxCount = 1000

// within lists the last n times in (from, to].
func (p *Plan) within(from, to time.Time, n int) (last []time.Time) {
	for at := p.Next(from); !at.IsZero() && !at.After(to); at = p.Next(at) {
		if len(last) == n {
			last = append(last[:0], last[1:]...)
		}
		last = append(last, at)
	}
	return last
}
