//go:build !unix

package host

import "os"

// lock makes the file; other systems have no advisory lock here.
func lock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
