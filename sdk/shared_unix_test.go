//go:build unix

package sdk_test

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// A FIFO in the shared folder holds no handler up, however it is asked for.
func TestAFIFOInTheSharedFolder(t *testing.T) {
	s := sdktest.Start(t, one("go", func(_ context.Context, call *sdk.Call) (sdk.Result, error) {
		sh := call.Shared()
		_, open := sh.Open("/shared/fifo")
		_, read := sh.ReadFile("/shared/fifo", 100)
		_, stat := sh.Stat("/shared/fifo")
		_, real := sh.RealPath("/shared/fifo")
		for _, err := range []error{open, read, stat, real} {
			if sdk.CodeOf(err) != sdk.InvalidArguments {
				return sdk.Textf("%v", err), nil
			}
		}
		return sdk.TextResult("all refused"), nil
	}))
	if err := syscall.Mkfifo(filepath.Join(s.SharedDir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Call("go", `{}`).WantText("all refused")
}
