package launch

import (
	"syscall"

	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
)

// killTree kills a process group and every descendant that left it.
func killTree(pid int) {
	tree := sandbox.Descendants(pid)
	syscall.Kill(-pid, syscall.SIGKILL)
	for _, kid := range tree {
		syscall.Kill(kid, syscall.SIGKILL)
	}
}
