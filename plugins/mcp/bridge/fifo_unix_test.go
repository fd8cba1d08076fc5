//go:build unix

package bridge

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
)

// FIFOs where files are read hold up neither the bridge nor its calls.
func TestFIFOsInPlaceOfFiles(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "mcp.json")
	b := newBridge()
	s := start2(t, b, conf{"mcp_json": fifo, "server": []conf{{"name": "f", "command": []string{badtest.Bad(t), "files"}, "attachments": passthrough["attachments"]}}})
	awaitTool(t, s, "f__echo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	badtest.Await(t, "the reason", func() bool { return strings.Contains(b.file.problem(), "not a regular file") })
	write(t, s.SharedDir, "attachments/file", "text")
	if err := syscall.Mkfifo(filepath.Join(s.SharedDir, "attachments/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		s.Call("f__echo", `{"attachments":[{"path":"fifo"}]}`).WantError("invalid_arguments", "not a regular file")
	}
	s.Call("f__echo", `{"attachments":[{"path":"file"}]}`).WantText("base64Content")
}
