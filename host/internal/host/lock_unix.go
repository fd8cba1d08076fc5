//go:build unix

package host

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// lock takes the data dir for this process. It ends with the process, however
// that ends.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fault.New(fault.DataDirUnusable, "the lock %s can't be opened: %w", path, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fault.New(fault.DataDirLocked, "another host holds %s", path)
	}
	return f, nil
}
