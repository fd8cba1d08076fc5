//go:build unix

package httpapi

import "syscall"

// OpenFiles is how many files the process may have open.
func OpenFiles() uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 1024
	}
	return uint64(r.Cur)
}
