package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	gocron "github.com/netresearch/go-cron"
)

const (
	// MaxLength of an expression, in bytes.
	MaxLength = 256
	// years the walk looks ahead: 29 February on a given weekday comes at least once
	// in 40 years, and the calendar around 2100 adds 8.
	years = 60
)

// Expression is a parsed one. Its zero value is of no use; see Parse.
type Expression struct {
	text    string
	walk    gocron.Schedule // over wall clocks, as if they were UTC
	repeats bool
}

// A SyntaxError says what is wrong with an expression and where.
type SyntaxError struct {
	Expression string
	Column     int // in runes, from 1
	Field      string
	Problem    string
	Example    string
}

func (e *SyntaxError) Error() string {
	where := fmt.Sprintf("cron %q, column %d", e.Expression, e.Column)
	if e.Field != "" {
		where += " (" + e.Field + ")"
	}
	return where + ": " + e.Problem + "; " + e.Example
}

// macros are whole expressions by name.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	"@every_minute": "* * * * *", "@every_second": "* * * * * *",
}

var parser = gocron.MustNewParser(gocron.Second | gocron.Minute | gocron.Hour | gocron.Dom | gocron.Month | gocron.Dow | gocron.Extended).WithMaxSearchYears(years)

const example = `examples: "0 9 * * 1-5" (9:00 on weekdays), "*/15 * * * *" (every 15 minutes), "0 0 9 L * *" (with seconds: 9:00:00 on the last day of each month)`

// Parse reads five fields (minute, hour, day of month, month, day of week), six
// (second before them), or a name such as @daily. A day has to fit both its fields.
// Expressions that are never due are refused. The error is a *SyntaxError.
func Parse(text string) (*Expression, error) {
	fail := func(at int, field, problem, hint string) error {
		return &SyntaxError{Expression: text, Column: utf8.RuneCountInString(text[:at]) + 1, Field: field, Problem: problem, Example: hint}
	}
	if len(text) > MaxLength || !utf8.ValidString(text) {
		return nil, &SyntaxError{Expression: strings.ToValidUTF8(text[:min(len(text), 40)], "") + "…", Column: 1,
			Problem: fmt.Sprintf("an expression is text of at most %d bytes", MaxLength), Example: example}
	}
	fields, starts := split(text)
	if len(fields) == 1 && strings.HasPrefix(fields[0], "@") {
		whole, ok := macros[strings.ToLower(fields[0])]
		if !ok {
			return nil, fail(starts[0], "", fmt.Sprintf("there is no %q", fields[0]), "there are @yearly, @monthly, @weekly, @daily, @hourly, @every_minute and @every 1h30m")
		}
		e, err := Parse(whole)
		if err != nil {
			return nil, err
		}
		e.text = fields[0]
		return e, nil
	}
	kinds := []field{seconds, minutes, hours, days, months, dows}
	switch len(fields) {
	case 6:
	case 5:
		kinds = kinds[1:]
	default:
		at := 0
		if len(fields) > 6 {
			at = starts[6]
		}
		return nil, fail(at, "", fmt.Sprintf("it has %d fields; 5 are wanted (minute, hour, day of month, month, day of week), or 6 with seconds before them", len(fields)), example)
	}
	e := &Expression{text: strings.Join(fields, " ")}
	parts := make([]string, len(fields))
	for i, f := range kinds {
		part, repeats, err := f.read(fields[i])
		if err != nil {
			return nil, fail(starts[i], f.name, err.Error(), "an example for this field: "+f.example)
		}
		parts[i] = part
		if slices.Contains([]string{seconds.name, minutes.name, hours.name}, f.name) {
			e.repeats = e.repeats || repeats
		}
	}
	if len(parts) == 5 {
		parts = append([]string{"0"}, parts...)
	}
	end := nearEnd.FindStringSubmatch(parts[3])
	if end != nil {
		parts[3] = "*"
	}
	walk, err := parser.Parse(strings.Join(parts, " "))
	if err != nil {
		return nil, fail(0, "", err.Error(), example)
	}
	e.walk = walk
	if end != nil {
		n, _ := strconv.Atoi(end[1]) // two digits by the pattern
		e.walk = weekdayBeforeEnd{walk, n}
	}
	if e.walk.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fail(starts[len(starts)-3], "days", "it is never due: no day fits day of month, month and day of week together", example)
	}
	return e, nil
}

// split gives the fields and where each begins.
func split(text string) (fields []string, starts []int) {
	at := 0
	for at < len(text) {
		if text[at] == ' ' || text[at] == '\t' {
			at++
			continue
		}
		end := at
		for end < len(text) && text[end] != ' ' && text[end] != '\t' {
			end++
		}
		fields, starts = append(fields, text[at:end]), append(starts, at)
		at = end
	}
	return fields, starts
}

// String is the expression as it was written, single-spaced.
func (e *Expression) String() string { return e.text }
