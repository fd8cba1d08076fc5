package downstream

import (
	"fmt"
	"os"
)

// executable reports whether a file is there that Windows can run; what it is
// run by is its extension's matter.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("%s: no such file", path)
	case info.IsDir():
		return fmt.Errorf("%s: not a program", path)
	}
	return nil
}

// candidates are the names a program may have.
func candidates(path string) []string { return withExtensions(path, os.Getenv("PATHEXT")) }
