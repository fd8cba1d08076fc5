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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/local"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

func TestMain(m *testing.M) {
	child.Init()
	local.Init()
	os.Exit(m.Run())
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
