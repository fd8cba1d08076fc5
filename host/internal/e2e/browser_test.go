//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// A page that scripts build is read through two plugins and a real browser, all
// behind their walls; agents can't reach the browser's internal tool.
func TestBrowser(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("chromium is not installed")
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<title>App</title><div id="root"></div><script>setTimeout(() => { document.getElementById("root").innerHTML = "<h1>Tides</h1><p>`+strings.Repeat("High water at noon. ", 20)+`</p>" }, 100)</script>`)
	}))
	defer page.Close()
	allow := fmt.Sprintf("config {\n    allow_hosts = [%q]\n  }\n", page.Listener.Addr())
	w := newWorld(t, "plugin \"web\" {\n  grants = [\"shared\", \"tool:browser_render\"]\n  "+allow+"}\nplugin \"browser\" {\n  grants = [\"shared\"]\n  "+allow+"}\n", "web", "browser")
	w.serve()
	if got := w.ok("call", "web_browse", fmt.Sprintf(`{"url":%q}`, page.URL)); !strings.Contains(got, "(via headless browser)") || !strings.Contains(got, "High water at noon.") {
		t.Error(got)
	}
	if got := w.ok("call", "web_screenshot", fmt.Sprintf(`{"url":%q}`, page.URL)); !strings.Contains(got, "/shared/screenshots/page-") {
		t.Error(got)
	}
	if got := w.ok("tools"); !regexp.MustCompile(`(?m)^browser_render .* internal `).MatchString(got) || !strings.Contains(got, "web_screenshot") {
		t.Error(got)
	}
	if out, _, code := w.run("call", "browser_render", fmt.Sprintf(`{"url":%q}`, page.URL)); code == 0 {
		t.Error(out)
	}
}
