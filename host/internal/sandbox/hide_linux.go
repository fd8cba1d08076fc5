package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// emptyFile covers a file that is hidden.
const emptyFile = "/dev/null"

// survey finds where links lead, before any mount covers the way.
func (o *order) survey() {
	o.real = map[string]string{}
	for _, p := range o.paths() {
		o.real[p.Path] = resolved(p.Path)
	}
	o.hidden = hidden(o.Profile.Hide)
}

// hidden is what of these exists, by real paths, outermost only.
func hidden(paths []string) []string {
	var all []string
	for _, h := range paths {
		real, err := filepath.EvalSymlinks(h)
		if err != nil || slices.ContainsFunc(floor, func(p Path) bool { return covers(real, p.Path) }) {
			continue // absent, or a folder of the system that happens to hold plugins
		}
		all = append(all, real)
	}
	slices.Sort(all)
	var out []string
	for _, h := range all {
		if !slices.ContainsFunc(out, func(above string) bool { return covers(above, h) }) {
			out = append(out, h)
		}
	}
	return out
}

// covers reports whether path is folder or lies in it.
func covers(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// resolved is a path without symlinks, as far as it exists.
func resolved(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return filepath.Clean(path)
}

// opensHost reports whether an admitted path has something hidden in it, which
// file rules alone can't take out again.
func (o order) opensHost() bool {
	return slices.ContainsFunc(o.hidden, func(h string) bool {
		return slices.ContainsFunc(o.paths(), func(p Path) bool {
			to := o.real[p.Path]
			return to != h && covers(to, h)
		})
	})
}

// refuseAsked drops what the plugin itself asked for of what is hidden from it:
// the operator alone may open that.
func (o *order) refuseAsked(r *Report) {
	o.Profile.Paths = slices.DeleteFunc(slices.Clone(o.Profile.Paths), func(p Path) bool {
		at := o.real[p.Path]
		bad := p.Asked && slices.ContainsFunc(o.hidden, func(h string) bool { return covers(h, at) })
		if bad {
			r.lacks("%s (asked for by the plugin; it belongs to the host)", p.Path)
		}
		return bad
	})
}

// hide covers the host's own files with empty folders that hold nothing but what
// the profile names in them. base is where the root lies.
func (o order) hide(base string) error {
	for _, h := range o.hidden {
		if o.names(h) {
			continue // the operator opens all of it
		}
		for _, at := range o.places(base, h) {
			info, err := os.Stat(at)
			if err != nil {
				continue // not in this root
			}
			if info.IsDir() {
				err = o.hideFolder(base, at)
			} else {
				err = unix.Mount(emptyFile, at, "", unix.MS_BIND, "")
			}
			if err != nil {
				return fmt.Errorf("hide %s: %w", h, err)
			}
		}
	}
	return nil
}

// places are the paths under base at which what is hidden would be seen: its own,
// and in a small root also below each admitted path that leads to it by a link.
func (o order) places(base, hidden string) []string {
	out := []string{filepath.Join(base, hidden)}
	if base == "/" {
		return out
	}
	for _, p := range o.paths() {
		to := o.real[p.Path]
		if rel, err := filepath.Rel(to, hidden); err == nil && covers(to, hidden) {
			if at := filepath.Join(base, p.Path, rel); !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
	}
	return out
}

// names reports whether the profile admits exactly this path.
func (o order) names(path string) bool {
	return slices.ContainsFunc(o.Profile.Paths, func(p Path) bool { return !p.Asked && o.real[p.Path] == path })
}

func (o order) hideFolder(base, folder string) error {
	var kept []piece
	defer func() {
		for _, p := range kept {
			unix.Close(p.tree)
		}
	}()
	for _, p := range o.paths() {
		at := []string{p.Path}
		if to := o.real[p.Path]; base == "/" && to != p.Path {
			at = append(at, to)
		}
		for _, at := range at {
			if !covers(folder, filepath.Join(base, at)) {
				continue
			}
			k, err := take(Path{Path: at, Access: p.Access}, filepath.Join(base, at))
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				return err
			}
			kept = append(kept, k)
		}
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64k"); err != nil {
		return err
	}
	for _, k := range kept {
		if err := place(base, k); err != nil {
			return err
		}
	}
	return unix.MountSetattr(unix.AT_FDCWD, folder, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// take holds the tree at a path, read-only unless it may be written.
func take(p Path, at string) (piece, error) {
	info, err := os.Stat(at)
	if err != nil {
		return piece{}, err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, at, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return piece{}, fmt.Errorf("open %s: %w", p.Path, err)
	}
	if p.Access != Write {
		// Landlock says so too; this holds where the kernel has none.
		unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	return piece{p, tree, info.IsDir()}, nil
}
