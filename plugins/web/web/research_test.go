package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// echoServer answers with what it was sent.
func echoServer(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/binary":
			w.Header().Set("Content-Type", "image/png")
			_, _ = io.WriteString(w, "\x89PNG\r\n\x1a\n\x00\x00") // the client is us
			return
		case "/endless":
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.Copy(w, io.LimitReader(blanks{}, 1<<20))
			return
		case "/hang":
			<-r.Context().Done()
			return
		case "/broken":
			http.Error(w, "out of order", http.StatusInternalServerError)
			return
		}
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Odd", "caf\xe9")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "key": r.Header.Get("X-Api-Key"), "auth": r.Header.Get("Authorization"), "type": r.Header.Get("Content-Type"), "body": string(body)})
	}))
	t.Cleanup(srv.Close)
	return srv
}

func TestHTTPRequest(t *testing.T) {
	srv, other := echoServer(t), echoServer(t)
	s := sdktest.Start(t, Plugin(), sdktest.Config(fmt.Sprintf(`{"allow_hosts":[%q,%q],"max_page_size":"64KiB"}`, srv.Listener.Addr(), other.Listener.Addr())))
	send := func(args string) *sdktest.Reply {
		return s.Call("http_request", strings.ReplaceAll(strings.ReplaceAll(args, "SRV", srv.URL), "OTHER", other.URL))
	}
	r := send(`{"method":"POST","url":"SRV/x","headers":"{\"x-api-key\":\"k\",\"Authorization\":\"Bearer t\"}","body":"{\"n\":9007199254740993}"}`)
	want := `{"auth":"Bearer t","body":"{\"n\":9007199254740993}","key":"k","method":"POST","type":"application/json"}`
	if r.IsError || !strings.HasPrefix(r.Text, "HTTP 200 OK\n") || !strings.Contains(r.Text, "\n\n"+want) || !strings.Contains(r.Text, "X-Odd: caf\uFFFD") {
		t.Errorf("%s%s", r.Message, r.Text)
	}
	var a answer
	if err := json.Unmarshal(r.Structured, &a); err != nil || a.Status != 200 || strings.TrimSpace(a.Body) != want {
		t.Errorf("%v %s", err, r.Structured)
	}
	for args, part := range map[string]string{
		`{"url":"SRV/x"}`: `"method":"GET"`, `{"url":"SRV/x","method":"HEAD"}`: "HTTP 200 OK",
		`{"url":"SRV/x?to=/y","method":"POST","body":"b","headers":"{\"X-Api-Key\":\"k\"}"}`:   `"body":"b","key":"k","method":"POST"`,
		`{"url":"SRV/x?to=OTHER/y","headers":"{\"X-Api-Key\":\"k\",\"Authorization\":\"t\"}"}`: `{"auth":"","body":"","key":"","method":"GET"`,
		`{"url":"SRV/x?to=OTHER/y","no_redirects":true}`:                                       "HTTP 307 Temporary Redirect",
		`{"url":"SRV/binary"}`:  "(10 bytes of image/png, which is no text)",
		`{"url":"SRV/endless"}`: "[cut: the body is larger than max_page_size, 65536 bytes]",
		`{"url":"SRV/broken"}`:  "HTTP 500 Internal Server Error\n",
	} {
		if r := send(args); r.IsError || !strings.Contains(r.Text, part) {
			t.Errorf("%s: %q is missing in %s%.300s", args, part, r.Message, r.Text)
		}
	}
	for args, what := range map[string][2]string{
		`{"url":"SRV/x","headers":"{\"Host\":\"evil\"}"}`:                 {"invalid_arguments", "the header Host belongs to the connection"},
		`{"url":"SRV/x","headers":"{\"transfer-encoding\":\"chunked\"}"}`: {"invalid_arguments", "Transfer-Encoding belongs"},
		`{"url":"SRV/x","headers":"{\"A\":\"b\\r\\nC: d\"}"}`:             {"invalid_arguments", "no header that can be sent"},
		`{"url":"SRV/x?to=OTHER/y","method":"POST","body":"secret"}`:      {"execution_failed", "it redirects a POST to another host"},
		`{"url":"SRV/x?to=file:///etc/passwd"}`:                           {"invalid_arguments", "only http:// and https://"},
		`{"url":"SRV/hang","timeout_ms":100}`:                             {"timeout", "within 100ms"},
		`{"url":"http://169.254.169.254/latest/meta-data/"}`:              {"denied", "metadata"},
		`{"url":"http://[::ffff:127.0.0.1]:1/"}`:                          {"denied", "loopback"},
		`{"url":"SRV/x","body":"` + strings.Repeat("x", maxSent+1) + `"}`: {"invalid_arguments", "1048577 bytes"},
		`{"url":"SRV/x","headers":"Accept: text/plain"}`:                  {"invalid_arguments", "a JSON object of strings"},
		`{"url":"SRV/x","method":"TRACE"}`:                                {"invalid_arguments", "GET, HEAD, POST"},
	} {
		send(args).WantError(what[0], what[1])
	}
}

func TestHealthCheck(t *testing.T) {
	srv := echoServer(t)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer secure.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	s := sdktest.Start(t, Plugin(), sdktest.Config(`{"allow_hosts":["127.0.0.1"]}`))
	for args, reason := range map[string]string{
		`{"url":"` + srv.URL + `/x"}`: "", `{"url":"` + srv.URL + `/x","contains":"GET","expected_status":200}`: "",
		`{"url":"` + srv.URL + `/x?to=/y","expected_status":307}`: "",
		`{"url":"` + srv.URL + `/broken"}`:                        "status 500",
		`{"url":"` + srv.URL + `/broken","expected_status":500}`:  "",
		`{"url":"` + srv.URL + `/x","contains":"nowhere"}`:        `the body does not contain "nowhere"`,
		`{"url":"` + srv.URL + `/x","expected_status":204}`:       "status 200, not 204",
		`{"url":"` + srv.URL + `/hang","timeout_ms":100}`:         "within 100ms",
		`{"url":"` + closed.URL + `"}`:                            "connection refused",
		`{"url":"` + secure.URL + `"}`:                            "certificate",
	} {
		r := s.Call("http_health_check", args)
		var h health
		if err := json.Unmarshal(r.Structured, &h); err != nil || r.IsError || h.Healthy != (reason == "") || !strings.Contains(h.Reason, reason) || !strings.Contains(r.Text, h.Reason) {
			t.Errorf("%s: %v %s%s %s", args, err, r.Message, r.Text, r.Structured)
		}
	}
	s.Call("http_health_check", `{"url":"http://10.0.0.1/"}`).WantError("denied", "private")
}

// The parts of a page are the whole page, whatever stands in front of each: the age
// of a copy, for one, which differs from part to part.
func TestFetchParts(t *testing.T) {
	long := strings.Repeat("äöü ", 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Path == "/kept" {
			w.Header().Set("Cache-Control", "max-age=600")
		}
		_, _ = io.WriteString(w, long) // the client is us
	}))
	defer srv.Close()
	s := start(t, srv, "")
	for path, kept := range map[string]bool{"/long": false, "/kept": true} {
		var got strings.Builder
		for offset := 0; ; {
			r := s.Call("web_fetch", fmt.Sprintf(`{"url":%q,"offset":%d,"max_chars":1500}`, srv.URL+path, offset))
			head, text, ok := strings.Cut(r.Text, "\n\n")
			if r.IsError || !ok || !strings.HasPrefix(head, "Source: "+srv.URL+path+" (via http)") || strings.Contains(head, "from the cache") != (kept && offset > 0) {
				t.Fatalf("%s%s", r.Message, r.Text)
			}
			text, more, ok := strings.Cut(text, "\n\n[characters ")
			got.WriteString(text)
			if !ok {
				break
			}
			var from, to, of int
			if _, err := fmt.Sscanf(more, "%d to %d of %d; read on with offset=", &from, &to, &of); err != nil || from != offset || to <= from {
				t.Fatal(more, err)
			}
			offset = to
		}
		if got.String() != long+"\n" {
			t.Errorf("%s: the parts are not the whole, %d characters", path, len([]rune(got.String())))
		}
	}
	s.Call("web_fetch", fmt.Sprintf(`{"url":%q,"offset":99999}`, srv.URL+"/long")).WantError("invalid_arguments", "beyond the page")
}

// sharing starts the plugin with a shared folder.
func sharing(t *testing.T, srv *httptest.Server) (*sdktest.Session, string) {
	t.Helper()
	s := sdktest.Start(t, Plugin(), sdktest.Granted("shared"), sdktest.Config(fmt.Sprintf(`{"allow_hosts":[%q],"max_page_size":"1MiB"}`, srv.Listener.Addr())))
	return s, s.SharedDir
}

// A PDF is saved when a person has said yes to this very question, and not else.
func TestDownloadPDF(t *testing.T) {
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path == "/page" {
			_, _ = io.WriteString(w, "<p>no pdf</p>")
			return
		}
		_, _ = w.Write(pdf("T", "text"))
	}))
	defer srv.Close()
	s, dir := sharing(t, srv)
	args := fmt.Sprintf(`{"url":%q}`, srv.URL+"/papers/a%20b.pdf")
	q := s.Call("download_pdf", args)
	if len(q.Questions) != 1 || q.Questions[0].Kind != "approval" || !q.Questions[0].NoFallback || !q.Questions[0].Decision || !strings.Contains(q.Questions[0].Message, "/shared") && !strings.Contains(q.Questions[0].Message, "downloads/a b.pdf") || asked != 0 {
		t.Fatalf("%+v, asked %d", q, asked)
	}
	s.Call("download_pdf", args, sdktest.Answering(q, map[string][2]string{"download": {"deny", "{}"}})).WantError("denied", "was not approved")
	if asked != 0 {
		t.Error("the address was opened without approval")
	}
	r := s.Call("download_pdf", args, sdktest.Answering(q, map[string][2]string{"download": {"approve", "{}"}}))
	if r.IsError || len(r.Files) != 1 || r.Files[0].Path != "/shared/downloads/a b.pdf" || r.Files[0].MIME != "application/pdf" {
		t.Errorf("%s %+v", r.Message, r.Files)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "downloads", "a b.pdf")); err != nil || string(raw) != string(pdf("T", "text")) {
		t.Error(err)
	}
	page := fmt.Sprintf(`{"url":%q,"filename":"x.txt"}`, srv.URL+"/page")
	s.Call("download_pdf", page, sdktest.Answering(s.Call("download_pdf", page), map[string][2]string{"download": {"approve", "{}"}})).WantError("execution_failed", "is no PDF but text/html")
	for _, name := range []string{"../x.pdf", "a/b.pdf", `a\b.pdf`, ".."} {
		s.Call("download_pdf", fmt.Sprintf(`{"url":%q,"filename":%q}`, srv.URL, name)).WantError("invalid_arguments", "no plain name")
	}
}

func TestCaptureReference(t *testing.T) {
	srv := site(t)
	s, dir := sharing(t, srv)
	r := s.Call("capture_reference", fmt.Sprintf(`{"url":%q,"note":"for the log"}`, srv.URL+"/sea/article.html"))
	if r.IsError || len(r.Files) != 1 || r.Files[0].Path != "/shared/references/article.md" {
		t.Fatalf("%s %+v", r.Message, r.Files)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "references", "article.md")); err != nil || !strings.Contains(string(raw), "The ship left the harbour") {
		t.Error(err)
	}
	var source map[string]string
	if raw, err := os.ReadFile(filepath.Join(dir, "references", "article.md.source.json")); err != nil || json.Unmarshal(raw, &source) != nil || source["source"] != srv.URL+"/sea/article.html" || source["note"] != "for the log" || source["found_at"] == "" {
		t.Error(err, source)
	}
	r = s.Call("capture_reference", fmt.Sprintf(`{"url":%q,"filename":"shot"}`, srv.URL+"/png"))
	if r.IsError || len(r.Files) != 1 || r.Files[0].Path != "/shared/references/shot.png" || r.Files[0].MIME != "image/png" {
		t.Fatalf("%s %+v", r.Message, r.Files)
	}
	s.Call("capture_reference", fmt.Sprintf(`{"url":%q}`, srv.URL+"/shell")).WantError("execution_failed", "Nothing was saved")
	s.Call("capture_reference", fmt.Sprintf(`{"url":%q}`, srv.URL+"/nowhere")).WantError("execution_failed", "404")
	// A link that stands there already leads nowhere.
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "references", "trap.png")); err != nil {
		t.Fatal(err)
	}
	s.Call("capture_reference", fmt.Sprintf(`{"url":%q,"filename":"trap.png"}`, srv.URL+"/png"))
	if raw, err := os.ReadFile(secret); err != nil || string(raw) != "old" {
		t.Errorf("%v %q", err, raw)
	}
}
