//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

func TestMain(m *testing.M) {
	code := m.Run()
	testbin.Cleanup()
	os.Exit(code)
}

// A host that can't come up is told with its own words, at once.
func TestServeNoticesTheEnd(t *testing.T) {
	dir := t.TempDir()
	b := binaries{host: testbin.Build(t, "github.com/bulkhead-dev/bulkhead/host")}
	file, err := world(dir, b, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(raw), `address = "127.0.0.1:0"`) {
		t.Errorf("the bench listens on a fixed port: %v %s", err, raw)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _, end, err := serve(ctx, b.host, dir, file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	// A second one on the same data dir ends by itself.
	if _, _, _, err := serve(ctx, b.host, dir, file, 1); err == nil || !strings.Contains(err.Error(), "the host ended: ") || !strings.Contains(err.Error(), "BH1023") || ctx.Err() != nil {
		t.Errorf("got %v", err)
	}
	bad := filepath.Join(dir, "bad.hcl")
	if err := os.WriteFile(bad, []byte("nonsense {"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := serve(ctx, b.host, dir, bad, 0); err == nil || !strings.Contains(err.Error(), "bad.hcl") {
		t.Errorf("got %v", err)
	}
}
