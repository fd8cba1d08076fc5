//go:build !unix

package host

import "os"

// own: other systems have no folder that everybody writes to here.
func own(string) error { return nil }

// lockOwner makes the file; other systems have no advisory lock here, so nothing is
// ever taken for left.
func lockOwner(path string, create bool) (*os.File, error) {
	if !create {
		return nil, os.ErrPermission
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
