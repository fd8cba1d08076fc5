package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bulkhead-plugin-web")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	sdktest.RunBinary(t, bin, `{"allow_hosts":["intranet.example"],"chunk_ttl":"30m","search":[{"provider":"brave","api_key":"k"},{"provider":"searxng","base_url":"http://127.0.0.1:8888"}]}`)
}
