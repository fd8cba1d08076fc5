// Package fault is the one table of everything known to go wrong, and the error
// type that carries a row of it. A fault says what happened, to whom, what to do
// next and whether trying again can help; callers decide by its class and its
// reference, never by its text.
package fault
