//go:build linux

// Package enginetest starts a container engine for tests: a Podman of their own, with its
// own store, and an image made of this machine's Python, since none can be pulled.
package enginetest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Image is the one that the engine has: this machine's Python, and nothing of it more.
const Image = "localhost/bulkhead-python:test"

// Engine is a Podman of the test's own, with an image made of this machine's Python.
type Engine struct {
	Socket string
	dir    string
	cmd    *exec.Cmd
}

var podman struct {
	once sync.Once
	*Engine
	why string
}

// Main runs the tests of a package, and ends the engine if they had one.
func Main(m *testing.M) int {
	code := m.Run()
	if podman.Engine != nil {
		podman.stop()
	}
	return code
}

// Get gives the engine, the same for all tests of a package whose TestMain is Main. Where
// there can be none the test is skipped, with the reason.
func Get(t *testing.T) *Engine {
	t.Helper()
	podman.once.Do(func() { podman.Engine, podman.why = startEngine() })
	if podman.Engine == nil {
		t.Skip("NOT RUN container " + podman.why)
	}
	return podman.Engine
}

func startEngine() (*Engine, string) {
	if os.Geteuid() != 0 {
		return nil, "Podman without root has no cgroups to bound memory with on every machine"
	}
	for _, program := range []string{"podman", "runc", "/usr/bin/python3"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, program + " is not installed"
		}
	}
	dir, err := os.MkdirTemp("", "bulkhead-podman-")
	if err != nil {
		return nil, err.Error()
	}
	e := &Engine{dir: dir, Socket: dir + "/api.sock"}
	root := dir + "/root.tar"
	if err := writeRoot(root); err != nil {
		return nil, err.Error()
	}
	if out, err := e.podman("import", root, Image).CombinedOutput(); err != nil {
		e.stop()
		return nil, fmt.Sprintf("podman takes no image here: %v: %s", err, out)
	}
	e.cmd = e.podman("system", "service", "--time", "0", "unix://"+e.Socket)
	log, err := os.Create(dir + "/log")
	if err != nil {
		return nil, err.Error()
	}
	e.cmd.Stdout, e.cmd.Stderr = log, log
	if err := e.cmd.Start(); err != nil {
		e.stop()
		return nil, err.Error()
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(e.Socket); err == nil {
			break
		} else if time.Now().After(end) {
			e.stop()
			raw, _ := os.ReadFile(dir + "/log")
			return nil, fmt.Sprintf("podman's service does not start: %s", raw)
		}
	}
	// Whether containers run at all is the machine's matter; whether ours do is the test's.
	if out, err := e.podman("run", "--rm", "--network", "none", "--ulimit", "nofile=256:256", "--ulimit", "nproc=4096:4096", Image, "python3", "-c", "pass").CombinedOutput(); err != nil {
		e.stop()
		return nil, fmt.Sprintf("podman runs no container here: %v: %s", err, out)
	}
	return e, ""
}

func (e *Engine) podman(args ...string) *exec.Cmd {
	return exec.Command("podman", append([]string{"--root", e.dir + "/store", "--runroot", e.dir + "/run", "--tmpdir", e.dir + "/tmp", "--cgroup-manager", "cgroupfs", "--runtime", "runc", "--events-backend", "file"}, args...)...)
}

func (e *Engine) stop() {
	if e.cmd != nil && e.cmd.Process != nil {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
	}
	_ = e.podman("rm", "--all", "--force", "--time", "0").Run()
	_ = exec.Command("umount", e.dir+"/store/overlay").Run()
	_ = os.RemoveAll(e.dir)
}

// writeRoot makes a file system with Python in it, and what the attacks need.
func writeRoot(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	seen := map[string]bool{}
	link := func(name, to string) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		return w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(name, "/"), Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777})
	}
	var file func(name string) error
	file = func(name string) error {
		if dir, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil {
			name = filepath.Join(dir, filepath.Base(name))
		}
		info, err := os.Lstat(name)
		if err != nil || seen[name] {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			if err := link(name, to); err != nil {
				return err
			}
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(name), to)
			}
			return file(to)
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		seen[name] = true
		if err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(name, "/"), Typeflag: tar.TypeReg, Size: info.Size(), Mode: int64(info.Mode().Perm())}); err != nil {
			return err
		}
		in, err := os.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(w, in)
		return err
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib64"} {
		if to, err := os.Readlink("/" + l); err == nil {
			if err := link("/"+l, to); err != nil {
				return err
			}
		}
	}
	needed := []string{"/usr/bin/python3", "/bin/sh", "/bin/sleep", "/usr/bin/setsid", "/bin/su"}
	lib, err := exec.Command("/usr/bin/python3", "-c", "import os; print(os.path.dirname(os.__file__))").Output()
	if err != nil {
		return err
	}
	for _, dir := range []string{strings.TrimSpace(string(lib)), "/usr/lib/python3/dist-packages/pip"} {
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && slices.Contains([]string{"test", "tests", "dist-packages", "__pycache__", "idlelib", "tkinter"}, d.Name()) {
				return fs.SkipDir
			}
			if d.Type().IsRegular() {
				needed = append(needed, path)
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // pip may not be installed
			return err
		}
	}
	for _, name := range needed {
		if err := file(name); err != nil {
			return err
		}
		if strings.HasSuffix(name, ".py") {
			continue
		}
		libs, err := exec.Command("ldd", name).Output()
		if err != nil {
			continue // no program
		}
		for field := range strings.FieldsSeq(string(libs)) {
			if strings.HasPrefix(field, "/") {
				if err := file(field); err != nil {
					return err
				}
			}
		}
	}
	return w.Close()
}
