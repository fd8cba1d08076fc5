package downstream

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

// A program sees its own folder, what its command line names and what the operator
// adds, and may write where it should.
func TestWalls(t *testing.T) {
	if s := probe(t.Context()); !s.Namespaces {
		t.Skipf("no namespaces here: %s", s.Reason)
	}
	named, secret, read, home := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for _, d := range []string{named, secret, read} {
		if err := os.WriteFile(filepath.Join(d, "x"), []byte("content of "+d), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := `cat ` + named + `/x; echo; cat ` + read + `/x; echo; cat ` + secret + `/x; touch ` + named + `/new; touch ` + read + `/new; touch "$HOME/new"; ls /shared`
	shared := t.TempDir()
	if err := os.WriteFile(filepath.Join(shared, "hello.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	target := &Target{Name: "x", Command: []string{"/bin/sh", "-c", script, named, "--dir=/shared/sub"}, Log: quietLog(), Walls: Walls{Home: home, Read: []string{read}, SharedDir: shared}}
	sp, err := spec(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	sp.Stdout, sp.Stderr = &out, &out
	c, err := child.Start(badtest.Within(t, 20*time.Second), sp)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if !strings.Contains(got, "content of "+named) || !strings.Contains(got, "content of "+read) || strings.Contains(got, "content of "+secret) || !strings.Contains(got, "hello.txt") {
		t.Errorf("%s", got)
	}
	for path, want := range map[string]bool{named + "/new": true, read + "/new": false, home + "/new": true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v\n%s", path, err, got)
		}
	}
}

// C18: a program without an extension is found under those of PATHEXT.
func TestExtensions(t *testing.T) {
	for _, c := range []struct{ path, ext, want string }{
		{`C:\npm\npx`, ".COM;.EXE;;.CMD", `C:\npm\npx.com C:\npm\npx.exe C:\npm\npx.cmd`}, {"npx.cmd", ".EXE", "npx.cmd"}, {"npx", "", "npx.com npx.exe npx.bat npx.cmd"},
	} {
		if got := strings.Join(withExtensions(c.path, c.ext), " "); got != c.want {
			t.Errorf("%s: %s", c.path, got)
		}
	}
}
