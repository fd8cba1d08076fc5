// Package testbin builds the binaries that tests start and counts what a test
// leaves behind: goroutines, file descriptors, processes.
package testbin
