// Package keeper runs the tasks: it knows which is due next, writes down what is
// owed before it is delivered and what became of it afterwards, and answers what is
// asked about them.
//
// Of each task there is one record, one lock and one immutable snapshot. Whoever
// changes a task holds its lock while the record is written and publishes the new
// snapshot then; whoever only looks takes the snapshot and waits for nothing.
package keeper
