//go:build !unix

package httpapi

// OpenFiles is how many files the process may have open; there is no limit here.
func OpenFiles() uint64 { return 1 << 20 }
