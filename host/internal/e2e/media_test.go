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
// the plugin may see the file itself; any other file is linked to, and the link is good
// for that agent only.
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
	type claimed struct {
		images []string
		links  []gjson.Result
		blocks int
	}
	modern := func(agent, method, name, params string) answer {
		t.Helper()
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
		a := w.as(agent).do("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, meta, params),
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
		if _, data, ok := strings.Cut(a.body, "data: "); ok {
			a.body = data
		}
		return a
	}
	claim := func(agent, tool, path, mime string) (got claimed) {
		t.Helper()
		args, err := json.Marshal(map[string]string{"path": path, "mime": mime})
		if err != nil {
			t.Fatal(err)
		}
		a := modern(agent, "tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":%s`, tool, args))
		content := gjson.Get(a.body, "result.content")
		if !content.IsArray() || !strings.Contains(content.Raw, path) {
			t.Fatalf("%d %s", a.code, a.body)
		}
		for _, b := range content.Array() {
			got.blocks++
			switch b.Get("type").Str {
			case "image":
				raw, err := base64.StdEncoding.DecodeString(b.Get("data").Str)
				if err != nil || b.Get("mimeType").Str != "image/png" {
					t.Errorf("%s: %v", b.Raw, err)
				}
				got.images = append(got.images, string(raw))
			case "resource_link":
				got.links = append(got.links, b)
			}
		}
		return got
	}
	for _, c := range []struct {
		agent, tool, path string
		images, links     int
	}{
		{"sees", "ff_claim", "/shared/screenshots/a.png", 1, 0},
		{"says-nothing", "ff_claim", "/shared/screenshots/a.png", 1, 0},
		{"reads", "ff_claim", "/shared/screenshots/a.png", 0, 0},
		{"sees", "own_claim", "/shared/screenshots/a.png", 0, 0}, // not the plugin's to see
		{"sees", "ff_claim", "/shared/screenshots/not.png", 0, 1},
		{"reads", "ff_claim", "/shared/screenshots/not.png", 0, 0},
		{"sees", "own_claim", "/shared/screenshots/not.png", 0, 0},
		{"sees", "ff_claim", "/shared/screenshots/large.png", 0, 1},
		{"sees", "ff_claim", "/shared/swapped/a.png", 0, 0},
		{"sees", "ff_claim", "/shared/none/a.png", 0, 0},
	} {
		got := claim(c.agent, c.tool, c.path, "image/png")
		if len(got.images) != c.images || len(got.links) != c.links || got.blocks != c.images+c.links+1 || (c.images > 0 && got.images[0] != picture.String()) {
			t.Errorf("%s calls %s with %s: %d images and %d links in %d blocks", c.agent, c.tool, c.path, len(got.images), len(got.links), got.blocks)
		}
	}

	read := func(agent, uri string) answer {
		t.Helper()
		return modern(agent, "resources/read", uri, fmt.Sprintf(`"uri":%q`, uri))
	}
	text, binary := claim("sees", "ff_claim", "/shared/screenshots/not.png", "text/html").links[0], claim("sees", "ff_claim", "/shared/screenshots/large.png", "image/png").links[0]
	if text.Get("name").Str != "not.png" || text.Get("mimeType").Str != "text/html" || text.Get("size").Int() != 6 {
		t.Errorf("%s", text.Raw)
	}
	if a := read("sees", text.Get("uri").Str); gjson.Get(a.body, "result.contents.0.text").Str != "<html>" {
		t.Errorf("%d %s", a.code, a.body)
	}
	blob, err := base64.StdEncoding.DecodeString(gjson.Get(read("sees", binary.Get("uri").Str).body, "result.contents.0.blob").Str)
	if err != nil || len(blob) != picture.Len()+1<<20 {
		t.Errorf("%d bytes, %v", len(blob), err)
	}
	uri := text.Get("uri").Str
	for _, c := range [][2]string{{"says-nothing", uri}, {"sees", uri + "x"}, {"sees", "shared://attachments/x"}, {"sees", "shared://"}} {
		if a := read(c[0], c[1]); strings.Contains(a.body, "<html>") || !gjson.Get(a.body, "error").Exists() {
			t.Errorf("%s reads %s: %d %s", c[0], c[1], a.code, a.body)
		}
	}
	if err := os.Truncate(filepath.Join(w.dir, "shared/screenshots/large.png"), 5<<20); err != nil {
		t.Fatal(err)
	}
	if a := read("sees", binary.Get("uri").Str); !strings.Contains(a.body, "at most 4194304 are read as a resource") {
		t.Errorf("%d %.300s", a.code, a.body)
	}
	if err := os.Remove(filepath.Join(w.dir, "shared/screenshots/not.png")); err != nil {
		t.Fatal(err)
	}
	if a := read("sees", uri); !strings.Contains(a.body, "no such file") {
		t.Errorf("%d %s", a.code, a.body)
	}
}
