package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// An image among a result's files is seen by the client, when its agent wants that and
// the plugin may see the file itself.
func TestMediaInResults(t *testing.T) {
	w := newWorld(t, fileInstance("ff", "  grants = [\"shared\"]\n")+fileInstance("own", "")+`agent "sees" {
  token = secret("sees")
  media = "inline"
}
agent "reads" {
  token = secret("reads")
  media = "path"
}
agent "says-nothing" {
  token = secret("says-nothing")
}
`)
	w.installFileFixture()
	w.mkdir("data/secrets")
	for _, n := range []string{"sees", "reads", "says-nothing"} {
		w.secret(n, "secret-token-of-"+n)
	}
	w.mkdir("shared/screenshots")
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 9, 9))); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(w.dir, "outside")
	w.mkdir("outside")
	for name, raw := range map[string][]byte{"shared/screenshots/a.png": picture.Bytes(), "shared/screenshots/not.png": []byte("<html>"), "shared/screenshots/large.png": append(picture.Bytes(), make([]byte, 1<<20)...), "outside/a.png": picture.Bytes()} {
		if err := os.WriteFile(filepath.Join(w.dir, name), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(w.dir, "shared/swapped")); err != nil {
		t.Fatal(err)
	}
	w.serve()
	images := func(agent, tool, path string) (all []string, blocks int) {
		t.Helper()
		args, err := json.Marshal(map[string]string{"path": path, "mime": "image/png"})
		if err != nil {
			t.Fatal(err)
		}
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
		a := w.as(agent).do("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s,"name":%q,"arguments":%s}}`, meta, tool, args),
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
		body := a.body
		if _, data, ok := strings.Cut(body, "data: "); ok {
			body = data
		}
		content := gjson.Get(body, "result.content")
		if !content.IsArray() || !strings.Contains(content.Raw, path) {
			t.Fatalf("%d %s", a.code, a.body)
		}
		for _, b := range content.Array() {
			blocks++
			if b.Get("type").Str == "image" {
				raw, err := base64.StdEncoding.DecodeString(b.Get("data").Str)
				if err != nil || b.Get("mimeType").Str != "image/png" {
					t.Errorf("%s: %v", b.Raw, err)
				}
				all = append(all, string(raw))
			}
		}
		return all, blocks
	}
	for _, c := range []struct {
		agent, tool, path string
		want              bool
	}{
		{"sees", "ff_claim", "/shared/screenshots/a.png", true},
		{"says-nothing", "ff_claim", "/shared/screenshots/a.png", true},
		{"reads", "ff_claim", "/shared/screenshots/a.png", false},
		{"sees", "own_claim", "/shared/screenshots/a.png", false}, // not the plugin's to see
		{"sees", "ff_claim", "/shared/screenshots/not.png", false},
		{"sees", "ff_claim", "/shared/screenshots/large.png", false},
		{"sees", "ff_claim", "/shared/swapped/a.png", false},
		{"sees", "ff_claim", "/shared/none/a.png", false},
	} {
		got, blocks := images(c.agent, c.tool, c.path)
		if want := map[bool]int{true: 1}[c.want]; len(got) != want || blocks != want+1 || (c.want && got[0] != picture.String()) {
			t.Errorf("%s calls %s with %s: %d images in %d blocks", c.agent, c.tool, c.path, len(got), blocks)
		}
	}
}
