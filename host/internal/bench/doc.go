// Command bench measures what the host costs, beside what the same work costs
// without it, in interleaved rounds on one machine. It prints a table for people
// and, for machines, one line a figure: bench NAME VALUE BUDGET ok|over.
//
// Ratios are what to look at; absolute figures say as much about the machine.
package main
