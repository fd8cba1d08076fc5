package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bulkhead-plugin-browser")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	sdktest.RunBinary(t, bin, `{"allow_hosts":["intranet.example"],"render_timeout":"30s"}`)
}
