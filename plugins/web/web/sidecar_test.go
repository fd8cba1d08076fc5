package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// A render service of the operator's is asked by its own protocol for shells and on
// request; whatever it answers, the result says how the page was had.
func TestRenderService(t *testing.T) {
	srv := site(t)
	var answer atomic.Pointer[string]
	var asked atomic.Int64
	healthy := atomic.Bool{}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /base/health":
			if !healthy.Load() {
				http.Error(w, "starting", http.StatusServiceUnavailable)
			}
		case "POST /base/render":
			asked.Add(1)
			var in struct {
				URL     string
				Timeout int `json:"timeoutMs"`
			}
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Timeout != 2000 || !strings.HasPrefix(in.URL, "http://127.0.0.1") || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%v %+v %v", err, in, r.Header)
			}
			switch body := *answer.Load(); body {
			case "hang":
				<-r.Context().Done()
			case "fail":
				http.Error(w, "no page left", http.StatusTooManyRequests)
			case "flood":
				_, _ = io.Copy(w, io.LimitReader(blanks{}, maxRendered+10)) // the client leaves
			default:
				_, _ = io.WriteString(w, strings.ReplaceAll(body, "URL", in.URL))
			}
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}))
	defer service.Close()
	s := start(t, srv, fmt.Sprintf(`,"render_timeout":"2s","render_service_url":%q`, service.URL+"/base/"))
	s.Host.Tool("browser_render", func(json.RawMessage) (sdk.Result, error) {
		t.Error("plugin browser was asked beside it")
		return sdk.Result{}, nil
	})
	says := func(text string) { answer.Store(&text) }
	built := `"<h1>App</h1><p>` + strings.Repeat("What scripts have built. ", 20) + `</p>"`
	for _, c := range []struct{ answer, source string }{
		{`{"html":` + built + `}`, srv.URL + "/shell"},
		{`{"html":` + built + `,"finalUrl":"URL/there","status":200,"title":"T"}`, srv.URL + "/shell/there"},
		{`{"html":` + built + `,"final_url":"URL/there"}`, srv.URL + "/shell/there"},
	} {
		says(c.answer)
		if r := browse(s, srv.URL+"/shell"); r.IsError || !strings.HasPrefix(r.Text, "Source: "+c.source+" (via headless browser)\n") || !strings.Contains(r.Text, "What scripts have built.") || strings.Contains(r.Text, "status:") {
			t.Errorf("%s: %s%s", c.answer, r.Message, r.Text)
		}
	}
	if r := s.Call("web_browse", fmt.Sprintf(`{"url":%q,"render":true}`, srv.URL+"/text")); r.IsError || !strings.Contains(r.Text, "(via headless browser)") {
		t.Errorf("%s%s", r.Message, r.Text)
	}
	for text, want := range map[string]string{
		"fail": "answered 429: no page left", "hang": "deadline exceeded", "flood": "sends more than 16777216 bytes", "no JSON": "can't be read",
		`{"html":"<p>x</p>","finalUrl":"http://10.0.0.1/"}`:     "10.0.0.1 is a private address",
		`{"html":"<p>x</p>","finalUrl":"file:///etc/passwd"}`:   "only http:// and https://",
		`{"html":"<p>x</p>","finalUrl":"http://%zz"}`:           "an address that is none",
		`{"html":"<p>no</p>","status":403}`:                     "the page answered it with status 403",
		`{"html":"<div id=root></div><script src=x></script>"}`: "it has no text of its own either",
		`{}`: "it has no text of its own either",
	} {
		says(text)
		r := s.Call("web_browse", fmt.Sprintf(`{"url":%q}`, srv.URL+"/shell"), sdktest.Within(browseTime))
		if r.IsError || !strings.Contains(r.Text, "[web_browse status: js_required]") || !strings.Contains(r.Text, "NOT read") || !strings.Contains(r.Text, want) {
			t.Errorf("%s: %s%s", text, r.Message, r.Text)
		}
	}
	// It is not asked for what the plugin itself would not open.
	before := asked.Load()
	for _, address := range []string{"http://169.254.169.254/latest/", "http://10.0.0.1/"} {
		s.Call("web_browse", fmt.Sprintf(`{"url":%q,"render":true}`, address)).WantError("denied", "allow_hosts")
	}
	if asked.Load() != before {
		t.Error("the service was asked for a private address")
	}
	if degraded, detail := s.Health(); !degraded || !strings.Contains(detail, "answered 503: starting") {
		t.Errorf("%v %s", degraded, detail)
	}
	healthy.Store(true)
	if degraded, detail := s.Health(); degraded {
		t.Errorf("%v %s", degraded, detail)
	}
	service.Close()
	if r := browse(s, srv.URL+"/shell"); r.IsError || !strings.Contains(r.Text, "Headless rendering also failed: the render service at ") {
		t.Errorf("%s%s", r.Message, r.Text)
	}
	for _, bad := range []string{"ftp://x", "http://u:p@x/", "http://x/?a=b", "x"} {
		if got := s.Validate(fmt.Sprintf(`{"render_service_url":%q}`, bad)); len(got) != 1 || !strings.HasPrefix(got[0], "render_service_url: ") {
			t.Errorf("%s: %v", bad, got)
		}
	}
}
