package httpapi

import (
	"os"
	"strings"
	"testing"
)

// Every route for agents stands in the page, and the page has no other.
func TestPageNamesRoutes(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/http-api.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	known := map[string]bool{}
	for _, r := range (&API{}).routes() {
		known[r.pattern] = true
		if r.access != control && !strings.Contains(page, "`"+r.pattern+"`") {
			t.Errorf("the page lacks %s", r.pattern)
		}
	}
	for line := range strings.Lines(page) {
		row, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		route, _, _ := strings.Cut(row, "`")
		if strings.Contains(route, " /") && !known[route] {
			t.Errorf("the page names %s, which is not served", route)
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	for files, want := range map[uint64]int{0: 16, 64: 16, 256: 64, 384: 192, 1024: 768, 20000: 15000, 1 << 40: 16384} {
		if got := ConnectionLimit(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
}
