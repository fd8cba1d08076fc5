package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
)

const (
	// ownerFile stands in a short dir and is locked by the host that uses it.
	ownerFile = "owner"
	socketOf  = "host.sock"
	// sweepShortTime is what looking for short dirs of hosts that died may take.
	sweepShortTime = 2 * time.Second
	// unowned is how old a short dir without an owner must be to be taken for left.
	unowned = time.Hour
)

var shortName = regexp.MustCompile(`^bulkhead-([0-9]+)-[0-9a-f]{8}$`)

// shortDir stands for a data dir whose own path is too long for sockets. It is
// the user's own, 0700.
func shortDir(dataDir string) string {
	sum := sha256.Sum256([]byte(dataDir))
	return filepath.Join(shortBase(), fmt.Sprintf("bulkhead-%d-%s", os.Getuid(), hex.EncodeToString(sum[:4])))
}

func shortBase() string {
	if base := os.Getenv("XDG_RUNTIME_DIR"); base != "" && len(base) <= 40 {
		return base
	}
	return "/tmp"
}

// takeShort makes the short dir, where this host needs one, and marks it as in use
// until the host ends, however it does. The lock on the data dir is held.
func (h *Host) takeShort() (err error) {
	dir := shortDir(h.cfg().Host.DataDir)
	if dir != h.runDir() && dir != filepath.Dir(ControlSocket(h.cfg().Host.DataDir)) {
		return nil
	}
	unusable := func(err error) error {
		return fault.New(fault.DataDirUnusable, "the folder %s, for the sockets of a data_dir with a long path, can't be used: %w", dir, err)
	}
	for until := time.Now().Add(sweepShortTime); ; {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return unusable(err)
		}
		if err := own(dir); err != nil {
			return unusable(err)
		}
		if h.short, err = lockOwner(filepath.Join(dir, ownerFile), true); err == nil {
			return nil
		}
		// Another host that sweeps may have it for a moment.
		if time.Now().After(until) {
			return unusable(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// TrustSocket says whether a control socket can only be of this user's host: one in a
// short dir that others may write to may be anybody's.
func TrustSocket(path string) error {
	dir := filepath.Dir(path)
	if filepath.Dir(dir) != shortBase() || !shortName.MatchString(filepath.Base(dir)) {
		return nil // in the data dir
	}
	if err := own(dir); err != nil {
		return fault.New(fault.DataDirUnusable, "the control socket in %s is not used: %w", dir, err)
	}
	return nil
}

// releaseShort takes the short dir away, but for what is not of this host.
func (h *Host) releaseShort() {
	if h.short == nil {
		return
	}
	dir := filepath.Dir(h.short.Name())
	_ = os.Remove(h.short.Name()) // who comes later makes it again
	_ = os.Remove(dir)            // kept when something is in it
	_ = h.short.Close()
}

// sweepShort takes away the short dirs of this user's hosts that were killed. What
// a host holds is locked, and what is not a host's own stays.
func (h *Host) sweepShort(ctx context.Context) {
	ctx, end := context.WithTimeout(ctx, sweepShortTime)
	defer end()
	mine := shortDir(h.cfg().Host.DataDir)
	bases := []string{shortBase()}
	if bases[0] != "/tmp" {
		bases = append(bases, "/tmp")
	}
	for _, base := range bases {
		entries, err := os.ReadDir(base)
		if err != nil {
			continue // nothing of ours can be in it
		}
		for _, e := range entries {
			dir := filepath.Join(base, e.Name())
			m := shortName.FindStringSubmatch(e.Name())
			if m == nil || m[1] != fmt.Sprint(os.Getuid()) || dir == mine || own(dir) != nil {
				continue
			}
			if ctx.Err() != nil {
				return
			}
			if clearShort(ctx, dir) {
				h.log.Debug("the folder of a host that was killed was taken away", "folder", dir)
			}
		}
	}
}

// clearShort empties and removes a short dir nobody uses; it reports whether it did.
func clearShort(ctx context.Context, dir string) bool {
	owner, err := lockOwner(filepath.Join(dir, ownerFile), false)
	switch {
	case err == nil:
		defer owner.Close()
	case !os.IsNotExist(err) || !silent(ctx, dir):
		return false
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if e.Name() == socketOf || e.IsDir() && supervise.RunDirName.MatchString(e.Name()) {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // what stays keeps the folder
		}
	}
	if owner != nil {
		_ = os.Remove(owner.Name())
	}
	return os.Remove(dir) == nil
}

// silent says whether a dir of a host that marked none as its own is old, and has no
// socket that anybody listens on.
func silent(ctx context.Context, dir string) bool {
	quiet := true
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if time.Since(info.ModTime()) < unowned {
			quiet = false
		}
		if d.Type()&fs.ModeSocket != 0 {
			if c, err := (&net.Dialer{}).DialContext(ctx, "unix", path); err == nil {
				quiet = false
				_ = c.Close()
			}
		}
		if !quiet {
			return fs.SkipAll
		}
		return ctx.Err()
	})
	return quiet && err == nil
}
