package host

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
)

// maxSocket is how long a socket's path may be, with room for names below it.
const maxSocket = 100

// ControlSocket is where a host with this data dir listens for its own command
// line: run/host.sock in it, or a short path beside when that would be too long.
func ControlSocket(dataDir string) string {
	path := filepath.Join(dataDir, "run", "host.sock")
	if len(path) <= maxSocket {
		return path
	}
	return filepath.Join(shortDir(dataDir), socketOf)
}

// runDir is where plugins' sockets go; their names below it are long.
func (h *Host) runDir() string {
	path := filepath.Join(h.cfg().Host.DataDir, "run")
	if len(path) <= 40 {
		return path
	}
	return shortDir(h.cfg().Host.DataDir)
}

// ownFiles is what of this host's files no plugin may see: state, keys and
// secrets, sockets, the plugins folder and the config. A part that a link leads
// out of the data dir is named too.
func (h *Host) ownFiles() []string {
	c := h.cfg()
	data := c.Host.DataDir
	all := []string{data, c.Host.SharedDir, c.Host.PluginDir, h.runDir(), filepath.Dir(ControlSocket(data))}
	if c.File != "" {
		all = append(all, filepath.Join(c.Dir, filepath.Base(c.File)))
	}
	for _, part := range []string{"plugins", "tmp", "run", "secrets", "memory", "bulkhead.db", "host.key"} {
		all = append(all, filepath.Join(data, part))
	}
	return slices.DeleteFunc(all, func(path string) bool { return path == "" })
}

// sweepRuns clears away what plugins of an earlier host left, which was killed: the
// folders of their sockets and their temporary files. The lock on the data dir is
// held, so nobody uses them any more.
func (h *Host) sweepRuns() {
	tmp := filepath.Join(h.cfg().Host.DataDir, "tmp")
	for dir, ours := range map[string]func(string) bool{
		h.runDir(): supervise.RunDirName.MatchString,
		tmp:        func(string) bool { return true },
	} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it is made when it is needed
		}
		for _, e := range entries {
			if !e.IsDir() || !ours(e.Name()) {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				h.log.Warn("what an earlier host left could not be removed", "error", err)
			}
		}
	}
}

// sharedDirs makes the shared folder. Within a data dir that nobody else can enter it is
// open to all: scripts read it under a user of their own. Elsewhere what has to be
// made is the host's alone, and who may read it is the operator's to say.
func sharedDirs(data, shared string) error {
	mode := fs.FileMode(0o700)
	if rel, err := filepath.Rel(data, shared); err == nil && filepath.IsLocal(rel) {
		if info, err := os.Stat(data); err == nil && info.Mode().Perm()&0o077 == 0 {
			mode = 0o755
		}
	}
	for _, sub := range []string{".", "attachments", "results", "plugins"} {
		dir := filepath.Join(shared, sub)
		if sub == "plugins" {
			mode = 0o700 // each of these is one plugin's
		}
		err := os.MkdirAll(dir, mode)
		if err == nil && mode == 0o755 {
			err = os.Chmod(dir, mode) // an earlier host's
		}
		if err != nil {
			return fault.New(fault.DataDirUnusable, "the shared folder can't be made: %w", err)
		}
	}
	return nil
}
