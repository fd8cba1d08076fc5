// Package task is what a scheduled task is: when it is due, what it does, what was
// missed and what is owed now. It is all arithmetic on values; clocks, storage and
// deliveries are elsewhere.
package task
