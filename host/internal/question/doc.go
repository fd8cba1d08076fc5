// Package question keeps calls that wait for an answer, and the questions they
// wait for.
//
// A call that asks is frozen in the store: who made it, the very arguments, the
// plugin's own state. It then costs no slot and no clock, and survives a crash of
// the plugin or the host. When its last question is answered, exactly one taker
// goes on with it: the caller, if it still waits; else the host itself, which
// leaves the result for whoever repeats the call and in the session's inbox. An
// approval is different in one way: with no caller waiting it only permits, once,
// and the repeated call runs.
package question
