package sdktest

import (
	"os"
	"os/exec"
	"path/filepath"
)

// Build compiles the command in the test's own folder, as go test runs it, and
// gives the path of the binary, which is called as a host wants it: by the
// folder's name, behind bulkhead-plugin-. It goes with the test.
func Build(t TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "bulkhead-plugin-"+filepath.Base(folder))
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("the plugin does not build: %v\n%s", err, out)
	}
	return bin
}
