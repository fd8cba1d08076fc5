// Package clock is time that can be replaced, and the one alarm that wakes the
// scheduler.
//
// Wall-clock time decides when something is due, but timers count the time a
// machine runs: they know nothing of a clock that is set, and stand still in a
// suspended machine. So the alarm is never set for longer than Cap, and looks at
// the wall clock each time.
package clock
