//go:build unix

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// checkModes looks at the file and every folder from it up to root.
func checkModes(path string, info os.FileInfo, root string) error {
	if info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not executable", path)
	}
	if err := onlyOwner(path, info); err != nil {
		return err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if err := onlyOwner(dir, info); err != nil {
			return err
		}
		if dir == root || dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func onlyOwner(path string, info os.FileInfo) error {
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by others (%s); chmod go-w it", path, info.Mode().Perm())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, neither root nor the host's own", path, st.Uid)
	}
	return nil
}
