package cron

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// field is one of an expression's places.
type field struct {
	name     string
	min, max int
	names    []string // of values from min on
	example  string
}

var (
	seconds = field{"second", 0, 59, nil, "0"}
	minutes = field{"minute", 0, 59, nil, "*/15"}
	hours   = field{"hour", 0, 23, nil, "9-17"}
	days    = field{"day of month", 1, 31, nil, "1,15 or L"}
	months  = field{"month", 1, 12, []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}, "1-6 or JAN"}
	dows    = field{"day of week", 0, 7, []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}, "MON-FRI or 1-5"}
)

var (
	lastDay  = regexp.MustCompile(`^L(-\d{1,2})?$`)
	nearest  = regexp.MustCompile(`^(\d{1,2}|L)W$`)
	nearEnd  = regexp.MustCompile(`^L-(\d{1,2})W$`)
	nthDay   = regexp.MustCompile(`^([A-Z]{3}|\d)#([1-5])$`)
	lastWeek = regexp.MustCompile(`^([A-Z]{3}|\d)L$`)
)

// read turns a field's text into what go-cron takes: a list of numbers, * or the
// forms with L, W and #. repeats says that it is no single list of values.
func (f field) read(text string) (out string, repeats bool, err error) {
	upper := strings.ToUpper(text)
	if upper == "*" || upper == "?" {
		return "*", true, nil
	}
	items := strings.Split(upper, ",")
	var parts []string
	for _, item := range items {
		special, ok, err := f.special(item)
		if err != nil {
			return "", false, err
		}
		if ok {
			if len(items) > 1 {
				return "", false, fmt.Errorf("%q stands alone, not in a list", item)
			}
			return special, false, nil
		}
		values, ranged, err := f.values(item)
		if err != nil {
			return "", false, err
		}
		repeats = repeats || ranged
		for _, v := range values {
			parts = append(parts, strconv.Itoa(v))
		}
	}
	return strings.Join(parts, ","), repeats, nil
}

// special reads the forms that depend on the month.
func (f field) special(item string) (string, bool, error) {
	switch f.name {
	case days.name:
		if m := lastDay.FindStringSubmatch(item); m != nil {
			if n, _ := strconv.Atoi(strings.TrimPrefix(m[1], "-")); n > 30 {
				return "", false, fmt.Errorf("%q: a month has no day so far before its last; at most L-30", item)
			}
			return item, true, nil
		}
		if m := nearEnd.FindStringSubmatch(item); m != nil {
			if n, _ := strconv.Atoi(m[1]); n < 1 || n > 30 {
				return "", false, fmt.Errorf("%q: a month has no such day; L-1W to L-30W", item)
			}
			return item, true, nil
		}
		if m := nearest.FindStringSubmatch(item); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil && (n < f.min || n > f.max) {
				return "", false, fmt.Errorf("%q: a day of month is 1 to 31", item)
			}
			return item, true, nil
		}
	case dows.name:
		if m := nthDay.FindStringSubmatch(item); m != nil {
			n, err := f.value(m[1])
			return fmt.Sprintf("%d#%s", n%7, m[2]), err == nil, err
		}
		if m := lastWeek.FindStringSubmatch(item); m != nil {
			n, err := f.value(m[1])
			return fmt.Sprintf("%d#L", n%7), err == nil, err
		}
	}
	return "", false, nil
}

// values reads a, a-b, */n, a/n and a-b/n. A range may wrap round.
func (f field) values(item string) (out []int, ranged bool, err error) {
	body, stepText, stepped := strings.Cut(item, "/")
	span := f.max - f.min + 1
	top := f.max
	if f.name == dows.name { // 7 is another name of 0
		span, top = 7, 6
	}
	step := 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || !digits(stepText) || step < 1 || step > f.max {
			return nil, false, fmt.Errorf("the step %q is not a number from 1 to %d", stepText, f.max)
		}
	}
	low, high := f.min, top
	from, to, hyphen := strings.Cut(body, "-")
	switch {
	case body == "*":
	case hyphen:
		if low, err = f.value(from); err != nil {
			return nil, false, err
		}
		if high, err = f.value(to); err != nil {
			return nil, false, err
		}
	default:
		if low, err = f.value(body); err != nil {
			return nil, false, err
		}
		if !stepped {
			high = low
		} else if low > high {
			high = low
		}
	}
	if low > high { // wraps
		high += span
	}
	for v := low; v <= high; v += step {
		n := v
		if n > f.max {
			n -= span
		}
		if f.name == dows.name {
			n %= 7
		}
		out = append(out, n)
	}
	return out, hyphen || stepped || body == "*", nil
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if text == name {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || !digits(text) || n < f.min || n > f.max {
		want := fmt.Sprintf("a number from %d to %d", f.min, f.max)
		if f.names != nil {
			want += fmt.Sprintf(" or a name from %s to %s", f.names[0], f.names[len(f.names)-1])
		}
		return 0, fmt.Errorf("%q is not %s", text, want)
	}
	return n, nil
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
