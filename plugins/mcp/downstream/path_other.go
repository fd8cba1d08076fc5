//go:build !windows

package downstream

import (
	"fmt"
	"os"
)

// executable reports whether a file is there and may be run.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("%s: no such file", path)
	case info.IsDir() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s: not a program", path)
	}
	return nil
}

// candidates are the names a program may have.
func candidates(path string) []string { return []string{path} }
