package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// A shell and a refusal are rendered; a page is not, unless it is asked for.
func TestRendering(t *testing.T) {
	srv := site(t)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "robots stay out", http.StatusForbidden) }))
	defer refusing.Close()
	s := sdktest.Start(t, Plugin(), sdktest.Config(fmt.Sprintf(`{"allow_hosts":[%q,%q]}`, srv.Listener.Addr(), refusing.Listener.Addr())))
	rendered := 0
	answer := func(html string, status int) {
		s.Host.Tool("browser_render", func(args json.RawMessage) (sdk.Result, error) {
			rendered++
			var in struct{ URL string }
			if err := json.Unmarshal(args, &in); err != nil {
				return sdk.Result{}, err
			}
			return sdk.JSON(map[string]any{"final_url": in.URL + "#done", "status": status, "html": html, "title": "T", "blocked_requests": []string{}})
		})
	}
	ask := func(path string, render bool) string {
		t.Helper()
		address := path
		if strings.HasPrefix(path, "/") {
			address = srv.URL + path
		}
		r := s.Call("web_browse", fmt.Sprintf(`{"url":%q,"render":%v}`, address, render))
		if r.IsError {
			return r.Message
		}
		return r.Text
	}
	// No browser at all.
	if got := ask("/shell", false); !strings.Contains(got, "[web_browse status: js_required] The page is built by scripts, which were not run; the page body was NOT read. "+noBrowser) {
		t.Error(got)
	}
	if got := ask("/text", true); !strings.Contains(got, "[web_browse status: unavailable] "+noBrowser) || !strings.Contains(got, "just text") {
		t.Error(got)
	}
	answer("<h1>App</h1><p>"+strings.Repeat("What scripts have built. ", 20)+"</p>", 200)
	for _, path := range []string{"/shell", "/wall", "/empty", refusing.URL} {
		if got := ask(path, false); !strings.Contains(got, "#done (via headless browser)\n") || !strings.Contains(got, "What scripts have built.") || strings.Contains(got, "status:") {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := ask("/text", true); !strings.Contains(got, "(via headless browser)") {
		t.Error(got)
	}
	before := rendered
	if got := ask("/text", false); !strings.Contains(got, "(via http)") || rendered != before {
		t.Errorf("rendered %d times: %s", rendered-before, got)
	}
	// A browser that helps no more than HTTP did.
	answer(`<div id="root"></div><script src="/x.js"></script>`, 200)
	if got := ask("/shell", false); !strings.Contains(got, "NOT read. Rendered in a headless browser it has no text of its own either.") {
		t.Error(got)
	}
	if got := ask("/shell", true); strings.Contains(got, noBrowser) || strings.Count(got, renderedShell) != 2 {
		t.Error(got)
	}
	answer("<p>no</p>", 403)
	if got := ask(refusing.URL, false); !strings.Contains(got, "answered 403 Forbidden; it says: robots stay out") {
		t.Error(got)
	}
	s.Host.Tool("browser_render", func(json.RawMessage) (sdk.Result, error) {
		return sdk.Result{}, sdk.Errorf(sdk.Unavailable, "the browser does not start")
	})
	if got := ask("/wall", false); !strings.Contains(got, "Headless rendering also failed: the browser does not start") {
		t.Error(got)
	}
}
