package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Whatever its shape, a result that is too large arrives: in a message that fits, and
// in files that hold the rest.
func TestLargeResultsFitWhateverTheirShape(t *testing.T) {
	b := newBridge()
	s := startBridge(t, b, bad(t, "bad", "storm"))
	ending(t, s)
	awaitTool(t, s, "bad__line")
	server, err := b.find("bad")
	if err != nil {
		t.Fatal(err)
	}
	text := func(n int) string { return `{"type":"text","text":"` + strings.Repeat("x", n) + `"}` }
	many := func(block string, n int) string {
		return `{"content":[` + strings.Repeat(block+",", n-1) + block + `]}`
	}
	for name, raw := range map[string]string{
		"many medium texts":     many(text(50_000), 100),
		"many small texts":      many(text(500), 9_000),
		"very many tiny blocks": many(`{"type":"text","text":"x","annotations":{"audience":["user"],"a":"`+strings.Repeat("a", 400)+`"}}`, 9_900),
		"many medium blocks":    many(`{"type":"hologram","data":"`+strings.Repeat("h", 50_000)+`"}`, 100),
		"many medium resources": many(`{"type":"resource","resource":{"uri":"bad://a","text":"`+strings.Repeat("r", 50_000)+`"}}`, 100),
		"links with much":       many(`{"type":"resource_link","uri":"bad://a","name":"n","description":"`+strings.Repeat("d", 50_000)+`"}`, 100),
		"much beside":           `{"content":[` + text(10) + `],"_meta":{"a":"` + strings.Repeat("m", 4<<20) + `"}}`,
		"a structure":           `{"content":[` + text(10) + `],"structuredContent":{"a":"` + strings.Repeat("s", 4<<20) + `"}}`,
		"one large, all medium": `{"content":[` + text(1<<20) + strings.Repeat(","+text(60_000), 60) + `]}`,
	} {
		r, err := b.result(server, &downstream.Tool{Name: "line"}, nil, []byte(raw))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		held := int64(resultWeight(&r))
		if held > maxInline {
			t.Errorf("%s: %d bytes in %d blocks", name, held, len(r.Content))
		}
		files := 0
		for _, c := range r.Content {
			for _, ref := range []string{refPath(c.TextFile), refPath(c.File)} {
				if ref == "" {
					continue
				}
				files++
				st, err := os.Stat(filepath.Join(s.SharedDir, strings.TrimPrefix(ref, "/shared/")))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				held += st.Size()
			}
		}
		if name == "a structure" { // which a text names, as "Path."
			held += 4 << 20
			files++
		}
		if files == 0 || held < int64(len(raw))/2 {
			t.Errorf("%s: %d files, %d bytes of %d", name, files, held, len(raw))
		}
	}
	// And behind the whole of it.
	block := text(50_000) + ","
	beforehand, err := filepath.Glob(filepath.Join(s.SharedDir, "results", "line-*"))
	if err != nil {
		t.Fatal(err)
	}
	r := s.Call("bad__line", fmt.Sprintf(`{"line":%s,"fill":%s,"n":100}`, quote(`{"jsonrpc":"2.0","id":ID,"result":{"content":[FILL`+text(3)+`]}}`), quote(block)))
	files, err := filepath.Glob(filepath.Join(s.SharedDir, "results", "line-*"))
	if r.IsError || r.Code != "" || err != nil || len(files) <= len(beforehand) {
		t.Errorf("%+v %q %v", r, files, err)
	}
}

func refPath(f *sdk.FileRef) string {
	if f == nil {
		return ""
	}
	return f.Path
}
