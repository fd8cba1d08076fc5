package task

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var days = regexp.MustCompile(`^(\d{1,6})(d|w)`)

// units are the words for units, of which the first letter counts.
var units = regexp.MustCompile(`(\d)(?:(w)eeks?|(d)ays?|(h)(?:ou)?rs?|(m)in(?:ute)?s?|(s)ec(?:ond)?s?)(?:and)?`)

// Duration reads "90m", "1h30m", "2d", "1w12h", also in words: "in 2 hours and 5 minutes".
func Duration(text string) (time.Duration, error) {
	rest := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(text), " ", ""))
	rest = units.ReplaceAllString(strings.TrimPrefix(rest, "in"), "$1$2$3$4$5$6")
	var total time.Duration
	for {
		m := days.FindStringSubmatch(rest)
		if m == nil {
			break
		}
		n, _ := strconv.Atoi(m[1]) // six digits by the pattern
		unit := 24 * time.Hour
		if m[2] == "w" {
			unit *= 7
		}
		if n > int(math.MaxInt64/unit/2) {
			return 0, fmt.Errorf("%q is too long", text)
		}
		total += time.Duration(n) * unit
		rest = rest[len(m[0]):]
		if rest == "" {
			return total, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || total+d < 0 {
		return 0, fmt.Errorf(`%.60q is not a time such as "90s", "1h30m" or "2d"`, text)
	}
	return total + d, nil
}

var layouts = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"}

// Moment reads a point in time: with an offset ("2026-05-01T09:00:00+02:00"), by
// the clocks of a zone ("2026-05-01 09:00"), or from now ("2h", "in 3 d").
func Moment(text string, now time.Time, zone *time.Location) (time.Time, error) {
	text = strings.TrimSpace(text)
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Truncate(time.Second), nil
	}
	for _, layout := range layouts {
		at, err := time.ParseInLocation(layout, text, zone)
		if err != nil {
			continue
		}
		if at.Format(layout) != text {
			return time.Time{}, fmt.Errorf("%q does not exist in %s: clocks skip it; say another time, or one with an offset", text, zone)
		}
		return at, nil
	}
	d, err := Duration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf(`%.60q is no point in time; examples: "2h", "2026-05-01T09:00" (in the task's time zone), "2026-05-01T09:00:00+02:00"`, text)
	}
	at := now.Add(d)
	if whole := at.Truncate(time.Second); whole.Before(at) {
		at = whole.Add(time.Second) // never earlier than was asked for
	}
	return at, nil
}
