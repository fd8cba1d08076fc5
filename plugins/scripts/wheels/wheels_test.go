//go:build linux

package wheels

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/alive"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/container"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/enginetest"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/local"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

func TestMain(m *testing.M) {
	child.Init()
	local.Init()
	os.Exit(enginetest.Main(m))
}

func TestNames(t *testing.T) {
	got, err := Check([]string{"NumPy", "pandas >= 2, < 3", "a.b_c-d", "x[extra,more]==1.0.*", "numpy"})
	if err != nil || strings.Join(got, " ") != "a.b_c-d numpy pandas>=2,<3 x[extra,more]==1.0.*" {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"", "-r x", "--index-url=http://x", "http://x/y.whl", "git+https://x", "x @ file:///y", "./x", "../x", "/x.whl", "x; import os", "x && id", "$(id)", "x\ny --no-index", "x==1; python_version<'3'", "é", strings.Repeat("a", 101), "x==", "[a]"} {
		if got, err := Check([]string{bad}); err == nil && strings.Join(got, "") != strings.ReplaceAll(bad, " ", "") {
			t.Errorf("%q is taken as %q", bad, got)
		} else if err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := Check(make([]string, 21)); err == nil {
		t.Error("21 are taken")
	}
}

// wheel writes a wheel of one module, which needs others.
func wheel(t *testing.T, dir, name, version, source string, needs ...string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%s-py3-none-any.whl", name, version)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	info := fmt.Sprintf("%s-%s.dist-info/", name, version)
	meta := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version)
	for _, n := range needs {
		meta += "Requires-Dist: " + n + "\n"
	}
	record := ""
	for _, file := range [][2]string{{name + "/__init__.py", source}, {info + "METADATA", meta}, {info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}} {
		sum := sha256.Sum256([]byte(file[1]))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", file[0], base64.RawURLEncoding.EncodeToString(sum[:]), len(file[1]))
		w, err := z.Create(file[0])
		if err == nil {
			_, err = w.Write([]byte(file[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w, err := z.Create(info + "RECORD")
	if err == nil {
		_, err = w.Write([]byte(record + info + "RECORD,,\n"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

// counted counts the runs of a runner.
type counted struct {
	run.Runner
	n atomic.Int64
}

func (c *counted) Run(ctx context.Context, s run.Spec) (run.Result, error) {
	c.n.Add(1)
	return c.Runner.Run(ctx, s)
}

func TestPackagesAreInstalledOnce(t *testing.T) {
	if s := child.Probe(t.Context()); !s.Namespaces {
		t.Skipf("NOT RUN namespaces %s", s.Reason)
	}
	if err := exec.Command("/usr/bin/python3", "-I", "-c", "import pip").Run(); err != nil {
		t.Skip("NOT RUN wheels /usr/bin/python3 or its pip is not installed")
	}
	house := t.TempDir()
	if err := os.Chmod(house, 0o755); err != nil {
		t.Fatal(err)
	}
	wheel(t, house, "alpha", "1.0", "from beta import b\na = b + 1\n", "beta>=2")
	wheel(t, house, "beta", "1.0", "b = 10\n")
	wheel(t, house, "beta", "2.5", "b = 20\n")
	r, err := local.New(t.Context(), local.Options{Interpreters: map[string]string{run.Python: "/usr/bin/python3"}, Log: slog.New(slog.DiscardHandler),
		Limits: run.Limits{Memory: 256 << 20, Processes: 32, Disk: 16 << 20, Output: 64 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	c := &counted{Runner: r}
	s := &Store{Dir: filepath.Join(t.TempDir(), "packages"), House: house, For: "/usr/bin/python3", Runner: c}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dirs := make([]string, 4)
	var wg sync.WaitGroup
	for i := range dirs {
		wg.Go(func() {
			if dirs[i], err = s.Get(ctx, []string{"alpha"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := c.n.Load(); n != 1 || dirs[0] != dirs[3] {
		t.Errorf("%d installations, %v", n, dirs)
	}
	got, err := r.Run(ctx, run.Spec{Language: run.Python, Packages: dirs[0], Timeout: time.Minute,
		Script: []byte("import alpha, beta\nprint(alpha.a, beta.b)\ntry: open('/deps/alpha/__init__.py', 'a'); print('written')\nexcept OSError: pass")})
	if err != nil || string(got.Stdout) != "21 20\n" {
		t.Errorf("%+v %s %s %v", got, got.Stdout, got.Stderr, err)
	}
	var refused *Refused
	if _, err := s.Get(ctx, []string{"gamma"}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "No matching distribution found for gamma") {
		t.Errorf("%v", err)
	}
	if _, err := s.Get(ctx, []string{"alpha", "beta<2"}); !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
	// Another wheel in the folder makes another set.
	wheel(t, house, "beta", "3.0", "b = 30\n")
	again, err := s.Get(ctx, []string{"alpha"})
	if err != nil || again == dirs[0] {
		t.Errorf("%s %v", again, err)
	}
	if left, err := filepath.Glob(filepath.Join(s.Dir, ".part-*")); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
}

// An installation reaches its index, and nothing else; a script reaches neither.
func TestPackagesOfAnIndex(t *testing.T) {
	if err := exec.Command("/usr/bin/python3", "-I", "-c", "import pip").Run(); err != nil {
		t.Skip("NOT RUN wheels /usr/bin/python3 or its pip is not installed")
	}
	limits := run.Limits{Memory: 256 << 20, Processes: 32, Disk: 16 << 20, Output: 64 << 10}
	t.Run("namespaces", func(t *testing.T) {
		if s := child.Probe(t.Context()); !s.Namespaces {
			t.Skipf("NOT RUN namespaces %s", s.Reason)
		}
		r, err := local.New(t.Context(), local.Options{Interpreters: map[string]string{run.Python: "/usr/bin/python3"}, Log: slog.New(slog.DiscardHandler), Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		fromIndex(t, r)
	})
	t.Run("container", func(t *testing.T) {
		dir := t.TempDir()
		mark, err := alive.Here(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer mark.Close()
		r, err := container.New(t.Context(), container.Options{Socket: enginetest.Get(t).Socket, Image: enginetest.Image, NanoCPUs: 1e9, Limits: limits, Dir: dir, Owner: "wheels-" + mark.Name, Mark: mark, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		fromIndex(t, r)
	})
}

func fromIndex(t *testing.T, r run.Runner) {
	t.Helper()
	files := t.TempDir()
	wheel(t, files, "alpha", "1.0", "a = 1\n", "beta")
	wheel(t, files, "beta", "2.0", "b = 2\n")
	elsewhere := httptest.NewServer(http.FileServer(http.Dir(files)))
	defer elsewhere.Close()
	mux := http.NewServeMux()
	mux.Handle("/files/", http.StripPrefix("/files", http.FileServer(http.Dir(files))))
	for name, link := range map[string]string{"alpha": "/files/alpha-1.0-py3-none-any.whl", "beta": "/files/beta-2.0-py3-none-any.whl", "far": elsewhere.URL + "/far-1.0-py3-none-any.whl"} {
		mux.HandleFunc("/simple/"+name+"/", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "<!DOCTYPE html><a href=%q>%s</a>", link, filepath.Base(link))
		})
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	index, err := ParseIndex(server.URL+"/simple", nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{Dir: filepath.Join(t.TempDir(), "packages"), Index: index, For: "python", Runner: r}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir, err := s.Get(ctx, []string{"alpha"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Run(ctx, run.Spec{Language: run.Python, Packages: dir, Timeout: time.Minute,
		Script: []byte("import alpha, beta, os\nprint(alpha.a, beta.b, os.path.exists('/run/index.sock'))")})
	if err != nil || string(got.Stdout) != "1 2 False\n" {
		t.Errorf("%+v %s %s %v", got, got.Stdout, got.Stderr, err)
	}
	var refused *Refused
	if _, err := s.Get(ctx, []string{"far"}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "which is not allowed: name it in index_hosts") {
		t.Errorf("%v", err)
	}
	if _, err := s.Get(ctx, []string{"gamma"}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "No matching distribution found for gamma") {
		t.Errorf("%v", err)
	}
	server.Close()
	if _, err := s.Get(ctx, []string{"beta"}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "the index can't be reached") {
		t.Errorf("%v", err)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "index-*")); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
}

func TestWhereAnIndexSends(t *testing.T) {
	x, err := ParseIndex("https://pypi.org/simple", []string{"files.pythonhosted.org", "mirror:8443"})
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{"pypi.org 443": true, "PyPI.org 443": true, "pypi.org 80": false, "files.pythonhosted.org 443": true, "files.pythonhosted.org 22": false, "mirror 8443": true, "mirror 443": false,
		"evil.org 443": false, " ": false, "127.0.0.1 443": false, "pypi.org.evil 443": false} {
		host, port, _ := strings.Cut(at, " ")
		if x.allows(host, port) != want {
			t.Errorf("%s: %v", at, !want)
		}
	}
	for _, bad := range []string{"", "pypi", "ftp://x/simple", "https:///simple", "https://x/?a=b", "%"} {
		if _, err := ParseIndex(bad, nil); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := ParseIndex("https://x/simple", []string{"https://y"}); err == nil {
		t.Error("an address is taken for a host")
	}
}
