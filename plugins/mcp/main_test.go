package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bulkhead-plugin-mcp")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	sdktest.RunBinary(t, bin, `{"server":[{"name":"a","url":"http://127.0.0.1:1/mcp"},{"name":"b","command":["no-such-program"]}]}`)
}
