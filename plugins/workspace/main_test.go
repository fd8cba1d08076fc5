package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bulkhead-plugin-workspace")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	sdktest.RunBinary(t, bin, fmt.Sprintf(`{"workspace":[{"name":"main","path":%q,"read_only":false}]}`, t.TempDir()))
}
