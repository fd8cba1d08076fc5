package cli

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// timerSlack is how late the timers of the host and of what it starts may fire.
const timerSlack = 1_000_000 // ns

// slacken starts the program again, as the same process, with timers that may be
// late by timerSlack; it returns where that is done or can't be. While a Go program
// works its runtime looks after it every 20 µs, and each look wakes a thread: in a
// host that sleeps between two messages, and in its plugins, that was a fifth of
// what a call costs. The slack belongs to a thread and is handed on to those it
// starts; the runtime's own thread is older than main, so only a new start reaches it.
func slacken() {
	now, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || now >= timerSlack {
		return
	}
	self, err := os.Executable()
	if err != nil || unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0) != nil {
		return
	}
	_ = syscall.Exec(self, os.Args, os.Environ()) // refused: it goes on as it is
}
