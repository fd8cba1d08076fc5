package local

import "golang.org/x/sys/unix"

func setProcesses(n uint64) error {
	return unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n})
}
