package host

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many links a path may lead through, as in the kernel.
const maxLinks = 40

// place is one entry of a folder.
type place struct{ dir, name string }

// places are the entries on which it depends what an absolute path leads to: the
// file or folder itself and the folder it stands in, and the same of every link on
// the way. Of a path that leads to nothing they end with the entry that is missing.
func places(path string) (out []place) {
	const sep = string(filepath.Separator)
	at, rest := sep, strings.Split(strings.Trim(filepath.Clean(path), sep), sep)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		here := filepath.Join(at, name)
		info, err := os.Lstat(here)
		link := err == nil && info.Mode()&os.ModeSymlink != 0
		if link || err != nil || len(rest) <= 1 {
			out = append(out, place{at, name})
		}
		if err != nil {
			return out
		}
		if !link {
			at = here
			continue
		}
		to, err := os.Readlink(here)
		if links++; err != nil || links > maxLinks {
			return out
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(at, to)
		}
		to = filepath.Join(to, filepath.Join(rest...))
		at, rest = sep, strings.Split(strings.Trim(to, sep), sep)
	}
	return out
}
