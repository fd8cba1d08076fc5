package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// The page of the config names every block and key the host knows.
func TestPageIsComplete(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	var visit func(string, *pluginv1.ConfigBody)
	visit = func(where string, b *pluginv1.ConfigBody) {
		for _, a := range b.Attributes {
			if !strings.Contains(page, "`"+a.Name+"`") && !strings.Contains(page, "{ "+a.Name+" }") {
				t.Errorf("docs/config.md says nothing of %s%s", where, a.Name)
			}
		}
		for _, bl := range b.Blocks {
			if !strings.Contains(page, bl.TypeName+" {}") && !strings.Contains(page, bl.TypeName+" \"") && !strings.Contains(page, "## "+bl.TypeName) {
				t.Errorf("docs/config.md says nothing of block %s%s", where, bl.TypeName)
			}
			visit(fmt.Sprintf("%s%s.", where, bl.TypeName), bl.Body)
		}
	}
	visit("", hostSchema)
}
