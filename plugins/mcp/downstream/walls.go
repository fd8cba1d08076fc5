package downstream

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

var (
	probeOnce sync.Once
	support   child.Support
)

// probe finds out, once, what walls the machine has.
func probe(ctx context.Context) child.Support {
	probeOnce.Do(func() { support = child.Probe(context.WithoutCancel(ctx)) })
	return support
}

// lookPath finds a program by the PATH its server has.
func lookPath(name, path, dir string) (string, error) {
	if strings.ContainsAny(name, `/`+string(filepath.Separator)) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if !filepath.IsAbs(name) {
			return "", fmt.Errorf("%s: a relative program needs dir, or write it with abspath()", name)
		}
		var err error
		for _, c := range candidates(name) {
			if err = executable(c); err == nil {
				return c, nil
			}
		}
		return "", err
	}
	for _, d := range filepath.SplitList(path) {
		for _, full := range candidates(filepath.Join(d, name)) {
			if filepath.IsAbs(full) && executable(full) == nil {
				return full, nil
			}
		}
	}
	return "", fmt.Errorf("%s: no such program in PATH (%s); give its full path in command, or PATH in env", name, path)
}

// withExtensions are the names a program may have on Windows: as written when that
// has an extension, else with each of PATHEXT, so that npx finds npx.cmd.
func withExtensions(path, pathext string) []string {
	if filepath.Ext(path) != "" {
		return []string{path}
	}
	if pathext == "" {
		pathext = ".com;.exe;.bat;.cmd"
	}
	var out []string
	for e := range strings.SplitSeq(pathext, ";") {
		if e != "" {
			out = append(out, path+strings.ToLower(e))
		}
	}
	return out
}

// mounts is the file tree of a program: the machine's programs, its own folder,
// what its command line names and what the operator adds. Folders that the
// command line names are writable, since that is what they are named for.
func (t *Target) mounts(path string) []child.Mount {
	m := child.SystemMounts()
	add := func(at, source string, writable bool) {
		if at == "" || at == "/" || slices.ContainsFunc(m, func(x child.Mount) bool { return x.Target == at && (x.Writable || !writable) }) {
			return
		}
		m = append(m, child.Mount{Target: at, Source: source, Writable: writable, Optional: true})
	}
	if t.Walls.Home != "" {
		add(t.Walls.Home, t.Walls.Home, true)
	}
	for _, p := range programTree(path) {
		add(p, p, false)
	}
	for _, p := range t.Walls.Read {
		add(filepath.Clean(p), p, false)
	}
	for _, arg := range t.Command[1:] {
		// --option=/path names a path too.
		if _, after, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = after
		}
		if !filepath.IsAbs(arg) {
			continue
		}
		arg = filepath.Clean(arg)
		if t.Walls.SharedDir != "" && (arg == "/shared" || strings.HasPrefix(arg, "/shared/")) {
			add("/shared", t.Walls.SharedDir, true)
			continue
		}
		info, err := os.Stat(arg)
		switch {
		case err != nil:
		case info.IsDir():
			add(arg, arg, true)
		default:
			for _, p := range programTree(arg) {
				add(p, p, false)
			}
		}
	}
	if t.Dir != "" {
		add(filepath.Clean(t.Dir), t.Dir, true)
	}
	for _, p := range t.Walls.Write {
		add(filepath.Clean(p), p, true)
	}
	// Parents first, so that none hides what lies in it.
	system := len(child.SystemMounts())
	slices.SortStableFunc(m[system:], func(a, b child.Mount) int { return strings.Count(a.Target, "/") - strings.Count(b.Target, "/") })
	return m
}

// programTree gives the folders a program or script needs around itself: the
// installation it is part of.
func programTree(path string) []string {
	var out []string
	for _, p := range []string{path, resolved(path)} {
		dir := filepath.Dir(p)
		switch i := strings.Index(p, "/node_modules/"); {
		case i > 0:
			dir = p[:i] + "/node_modules"
		case filepath.Base(dir) == "bin" && strings.Count(dir, "/") > 1:
			dir = filepath.Dir(dir) // PREFIX/bin/x has its libraries in PREFIX/lib
		}
		switch {
		case system(p):
		case broad(dir):
			out = append(out, p)
		default:
			out = append(out, dir)
		}
	}
	return slices.Compact(out)
}

// system reports whether SystemMounts have a path already.
func system(path string) bool {
	for _, d := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"} {
		if strings.HasPrefix(path, d+"/") {
			return true
		}
	}
	return false
}

// broad reports whether a folder holds too much to be opened whole.
func broad(dir string) bool {
	return dir == "/" || dir == "/tmp" || dir == "/root" || dir == "/home" || filepath.Dir(dir) == "/home"
}

func resolved(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}
