package calendar

import (
	"strings"
	"time"

	ical "github.com/arran4/golang-ical"
)

// Event is one fire to come.
type Event struct {
	ID          string // of the fire, unique
	Name, Agent string
	Description string
	At          time.Time
}

// Write gives the calendar as text.
func Write(events []Event, now time.Time) string {
	cal := ical.NewCalendarFor("Bulkhead")
	cal.SetMethod(ical.MethodPublish)
	cal.SetXWRCalName("Scheduled tasks")
	for _, e := range events {
		v := cal.AddEvent(clean(e.ID) + "@bulkhead")
		v.SetDtStampTime(now)
		v.SetStartAt(e.At)
		v.SetEndAt(e.At.Add(time.Minute))
		v.SetSummary(clean(e.Name))
		v.SetDescription(clean(e.Description))
		v.SetTimeTransparency(ical.TransparencyTransparent)
		v.AddCategory(clean(e.Agent))
	}
	return cal.Serialize(ical.WithNewLineWindows)
}

// clean drops control characters, which have no place in a calendar.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
