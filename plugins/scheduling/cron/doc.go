// Package cron reads cron expressions and tells when they are next due.
//
// Fields are read here, so that a refusal can point at the place; the walk over
// calendar days (last days, nearest weekdays, nth weekdays) is go-cron's. It walks
// wall-clock time without a zone, and this package maps wall clocks to instants:
// what falls into an hour that is skipped is due when that hour would have ended,
// and what falls into an hour that comes twice is due the first time only, unless
// the expression repeats within hours ("*", a range or a step in the seconds,
// minutes or hours), for then it goes on in both.
package cron
