package analyze

import (
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// copyLife is longer than any call lasts that shows a copy to a model.
const copyLife = time.Hour

// showing is the folder for copies of what a model is shown.
func showing(s *sdk.Shared) string { return strings.TrimSuffix(s.Folder(), "/") + "/.analyze" }

// sweep removes the copies of calls that a killed process could not end. Those of
// another process at work are younger.
func (l *looker) sweep() {
	dir, err := l.plugin.Shared().RealPath(showing(l.plugin.Shared()))
	if err != nil {
		return // there are none
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < copyLife {
			continue
		}
		if err := root.Remove(e.Name()); err != nil {
			l.plugin.Logger().Debug("an old copy is not removed", "name", e.Name(), "reason", err)
		}
	}
	if err != nil {
		l.plugin.Logger().Debug("old copies are not removed", "reason", err)
	}
}
