package web

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// The provider's own address may be private, for the operator wrote it; what
// web_browse may open is not widened by it.
func TestSearch(t *testing.T) {
	var query string
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		if r.URL.Query().Get("q") == "nothing" {
			_, _ = io.WriteString(w, `{"results":[]}`) // the client is us
			return
		}
		_, _ = io.WriteString(w, `{"results":[{"title":"Tides [2026]","url":"https://tides.example/a_(b)","content":"High water at noon."},{"title":"Ebb","url":"https://ebb.example/"}]}`)
	}))
	defer engine.Close()
	s := sdktest.Start(t, Plugin(), sdktest.Config(fmt.Sprintf(`{"search":[{"provider":"searxng","base_url":%q,"min_interval":"0s"}]}`, engine.URL)))
	r := s.Call("web_search", `{"query":"tides"}`)
	want := "1. [Tides \\[2026\\]](https://tides.example/a_%28b%29) — High water at noon.\n2. [Ebb](https://ebb.example/)"
	if r.IsError || r.Text != want || !strings.Contains(string(r.Structured), `"provider":"searxng"`) || !strings.Contains(string(r.Structured), `"url":"https://tides.example/a_(b)"`) {
		t.Errorf("%s%s\n%s", r.Message, r.Text, r.Structured)
	}
	if !strings.Contains(query, "safesearch=1") {
		t.Errorf("the default of safe_search is not sent: %s", query)
	}
	if r := s.Call("web_search", `{"query":"nothing","count":500}`); r.IsError || r.Text != "No results found." || !strings.Contains(string(r.Structured), `"results":[]`) {
		t.Errorf("%s%s %s", r.Message, r.Text, r.Structured)
	}
	s.Call("web_search", `{"query":"  "}`).WantError("invalid_arguments", "query is empty")
	s.Call("web_search", `{"query":"x","site":"https://go.dev/doc"}`).WantError("invalid_arguments", "write it like example.org")
	s.Call("web_search", fmt.Sprintf(`{"query":%q}`, strings.Repeat("x", 401))).WantError("invalid_arguments", "401 characters")
	browse(s, engine.URL).WantError("denied", "loopback")
}

func TestSearchWithoutProvider(t *testing.T) {
	s := sdktest.Start(t, Plugin(), sdktest.Config(`{}`))
	s.Call("web_search", `{"query":"tides"}`).WantError("unavailable", "brave, duckduckgo, google, searxng, tavily")
}

func TestSearchLimited(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	defer engine.Close()
	s := sdktest.Start(t, Plugin(), sdktest.Config(fmt.Sprintf(`{"search":[{"provider":"brave","api_key":"hush","base_url":%q,"max_retries":0}]}`, engine.URL)))
	r := s.Call("web_search", `{"query":"tides"}`)
	r.WantError("execution_failed", "brave: rate-limited (status 429) also after 0 retries. Wait a while and search again, or open an address you know with web_browse.")
	if !r.Retryable || strings.Contains(r.Message, "hush") {
		t.Errorf("%+v", r)
	}
}
