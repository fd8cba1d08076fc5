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

// A page of a known site comes by its interface; where that fails, as any other
// page does, and the result says so.
func TestSiteAPI(t *testing.T) {
	interfaces := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/repos/o/r/issues/7":
			if r.Header.Get("Authorization") != "Bearer hush" || !strings.Contains(r.Header.Get("User-Agent"), "Bulkhead") {
				t.Errorf("%v", r.Header)
			}
			_, _ = io.WriteString(w, `{"number":7,"title":"It leaks","body":"At *every* start."}`) // the client is us
		case "/2.3/questions/5":
			_, _ = io.WriteString(w, `{"items":[{"title":"Why","body":"<p>What is <code>x &lt; y</code>?</p><pre><code>a\n  b</code></pre>"}]}`)
		case "/2.3/questions/5/answers":
			_, _ = io.WriteString(w, `{"items":[]}`)
		case "/repos/o/r/pulls/9":
			if strings.Contains(r.Header.Get("Accept"), "diff") {
				_, _ = io.WriteString(w, "diff --git a/x b/x")
				return
			}
			_, _ = io.WriteString(w, `{"number":9,"title":"Mend it"}`)
		case "/repos/o/r/issues/404", "/2.3/questions/404":
			http.NotFound(w, r)
		case "/repos/o/r/issues/500":
			_, _ = io.WriteString(w, `{"number":`)
		default:
			http.Error(w, `{"message":"rate limit"}`, http.StatusForbidden)
		}
	}))
	defer interfaces.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>the page itself, "+r.URL.String()+"</p>")
	}))
	defer page.Close()
	s := sdktest.Start(t, Plugin(), sdktest.Config(fmt.Sprintf(`{"allow_hosts":[%q,"github.com","stackoverflow.com"],"proxy":%q,"github":{"token":"hush","api":%q},"stackexchange":{"api":%q}}`,
		interfaces.Listener.Addr(), page.URL, interfaces.URL, interfaces.URL)))
	r := browse(s, "https://github.com/o/r/issues/7")
	if r.IsError || !strings.HasPrefix(r.Text, "Source: https://github.com/o/r/issues/7 (via site API)\n\n# Issue #7: It leaks [o/r]\n") || !strings.Contains(r.Text, "At *every* start.") || r.Chunk == nil {
		t.Errorf("%s%s", r.Message, r.Text)
	}
	r = browse(s, "https://stackoverflow.com/questions/5/why")
	if r.IsError || !strings.Contains(r.Text, "(via site API)\n\n# Why\n") || !strings.Contains(r.Text, "What is `x < y`?\n\n```\na\n  b\n```") {
		t.Errorf("%s%s", r.Message, r.Text)
	}
	r = browse(s, "http://github.com/o/r/issues/8")
	want := "Source: http://github.com/o/r/issues/8 (via http)\n[web_browse note] the site's interface failed (the site's interface answered 403 rate limit); this is the ordinary page\n\nthe page itself, http://github.com/o/r/issues/8"
	if r.IsError || !strings.HasPrefix(r.Text, want) || strings.Contains(r.Text, "hush") {
		t.Errorf("%s%s", r.Message, r.Text)
	}
	for _, suffix := range []string{"#issuecomment-12", "/", "?notification_referrer_id=x", "/linked", "/?x#y"} {
		if r := browse(s, "https://github.com/o/r/issues/7"+suffix); r.IsError || !strings.Contains(r.Text, "(via site API)\n\n# Issue #7: It leaks [o/r]") {
			t.Errorf("%s: %s%s", suffix, r.Message, r.Text)
		}
	}
	for suffix, title := range map[string]string{"": "PR #9: Mend it [o/r]", "/commits": "PR #9: Mend it [o/r]", "#discussion_r1": "PR #9: Mend it [o/r]", "/files#diff-1": "Changes of PR #9 [o/r]", ".diff": "Changes of PR #9 [o/r]", ".patch": "Changes of PR #9 [o/r]"} {
		if r := browse(s, "https://github.com/o/r/pull/9"+suffix); r.IsError || !strings.Contains(r.Text, "(via site API)\n\n# "+title+"\n") {
			t.Errorf("%s: %s%s", suffix, r.Message, r.Text)
		}
	}
	for address, why := range map[string]string{
		"http://github.com/o/r/issues/404": "the site's interface does not know the page", "http://github.com/o/r/issues/500": "unexpected end of JSON input", "http://stackoverflow.com/questions/404": "does not know the page",
	} {
		if r := browse(s, address); r.IsError || !strings.HasPrefix(r.Text, "Source: "+address+" (via http)\n[web_browse note] the site's interface failed (") || !strings.Contains(r.Text, why) || !strings.Contains(r.Text, "the page itself, "+address) {
			t.Errorf("%s%s", r.Message, r.Text)
		}
	}
	if got := s.Validate(`{"github":{"api":"ftp://x"}}`); len(got) != 1 || !strings.HasPrefix(got[0], "github") {
		t.Errorf("%v", got)
	}
}
