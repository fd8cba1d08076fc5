package task

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1w2d3h": 9*24*time.Hour + 3*time.Hour, "in 2 h": 2 * time.Hour, "In 3 D": 72 * time.Hour,
		"in 2 hours": 2 * time.Hour, "1 hour and 30 minutes": 90 * time.Minute, "90 mins": 90 * time.Minute, "2 weeks 1 day": 15 * 24 * time.Hour, "45 seconds": 45 * time.Second, "3 hrs": 3 * time.Hour,
		"2 months": -1, "hours": -1, "2 hours ago": -1, "1 dayish": -1, "5 and 2h": -1,
		"": -1, "-1h": -1, "2 fortnights": -1, "999999w": -1, "1h-2h": -1, "d": -1, "inin 2h": -1, "9999999999h": -1,
	} {
		got, err := Duration(text)
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %s %v, want %s", text, got, err, want)
		}
	}
}

func TestMoment(t *testing.T) {
	zone, err := Zone("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 5, time.UTC)
	for text, want := range map[string]string{
		"2h": "2026-01-01T14:00:01Z", "in 1d": "2026-01-02T12:00:01Z", "2026-07-01T09:00": "2026-07-01T07:00:00Z", "2026-07-01 09:00:30": "2026-07-01T07:00:30Z",
		"2026-07-01T09:00:00-04:00": "2026-07-01T13:00:00Z", "2026-07-01T09:00:00Z": "2026-07-01T09:00:00Z",
		"2026-03-29T02:30": "", "2026-02-30T09:00": "", "tomorrow": "", "": "",
	} {
		got, err := Moment(text, now, zone)
		if want == "" && err == nil || want != "" && (err != nil || got.UTC().Format(time.RFC3339) != want) {
			t.Errorf("%q: %s %v, want %s", text, got, err, want)
		}
	}
}

func TestSlug(t *testing.T) {
	for name, want := range map[string]string{"Daily Report": "daily-report", " a/b..c_d ": "a-b..c_d", "日本語": "", "über uns!": "ber-uns"} {
		if got := Slug(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
