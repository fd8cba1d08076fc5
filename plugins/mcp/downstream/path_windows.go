package downstream

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// candidates are the names a program may have: as written when that has an
// extension, else with each of PATHEXT, so that npx finds npx.cmd.
func candidates(path string) []string {
	if filepath.Ext(path) != "" {
		return []string{path}
	}
	exts := os.Getenv("PATHEXT")
	if exts == "" {
		exts = ".com;.exe;.bat;.cmd"
	}
	var out []string
	for _, e := range strings.Split(exts, ";") {
		if e != "" {
			out = append(out, path+strings.ToLower(e))
		}
	}
	return out
}
