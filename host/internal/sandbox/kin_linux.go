package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Outside checks that the process behind a pidfd is none that this host runs:
// not below it in the process tree, and not in a PID namespace below its own,
// where every plugin's processes are when namespaces can be had.
func Outside(pidfd int) error {
	self, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("who it is can't be told without /proc: %w", err)
	}
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return fmt.Errorf("who it is can't be told: %w", err)
	}
	// Both list the ids of a process from the namespace of /proc on inwards.
	own, peer := spids(self), spids(info)
	switch {
	case len(own) == 0 || len(peer) == 0:
		return errors.New("it has ended, or this kernel has no PID namespaces to tell it by")
	case peer[0] <= 0:
		return errors.New("it has ended")
	case len(peer) != len(own):
		return errors.New("it lives in another PID namespace, as plugins do")
	case peer[0] == own[0]:
		return nil
	}
	if below(peer[0], own[0]) {
		return errors.New("this host started it, or a process that did")
	}
	return nil
}

// spids reads the NSpid line of a status or fdinfo file.
func spids(text []byte) (ids []int) {
	for line := range bytes.Lines(text) {
		rest, ok := strings.CutPrefix(string(line), "NSpid:")
		if !ok {
			continue
		}
		for _, f := range strings.Fields(rest) {
			id, err := strconv.Atoi(f)
			if err != nil {
				return nil
			}
			ids = append(ids, id)
		}
		return ids
	}
	return nil
}

// below reports whether pid descends from ancestor. The tree may change under the
// walk: a parent that is gone has handed its children on, so the walk begins
// anew. One that can't be read but is there is another user's, hidden by the mount
// of /proc, and no plugin's: what plugins run stays the host's own user. What
// can't be told counts as below.
func below(pid, ancestor int) bool {
	for try := range 20 {
		p, err := pid, error(nil)
		for p > 1 && p != ancestor {
			var parent int
			if parent, err = parentOf(p); err != nil {
				break
			}
			p = parent
		}
		switch {
		case err == nil:
			return p == ancestor
		case unix.Kill(p, 0) == unix.EPERM:
			return false
		}
		time.Sleep(time.Duration(try) * time.Millisecond)
	}
	return true
}
