package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	silent := sdktest.Silent(t)
	sdktest.RunBinary(t, sdktest.Build(t),
		fmt.Sprintf(`{"allow_hosts":[%q],"chunk_ttl":"30m","search":[{"provider":"brave","api_key":"k"},{"provider":"searxng","base_url":"http://127.0.0.1:8888"}]}`, silent),
		sdktest.SlowTool("web_fetch", fmt.Sprintf(`{"url":"http://%s/"}`, silent)))
}

// With a certificate that its environment names, the plugin follows redirects
// between the schemes, says where one leaves https, and gives the caller's headers
// to nobody on that way.
func TestRedirectsAcrossSchemes(t *testing.T) {
	var seen http.Header
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		seen = r.Header
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "arrived over "+map[bool]string{true: "TLS", false: "nothing"}[r.TLS != nil]) // the client is us
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	config := sdktest.Config(fmt.Sprintf(`{"allow_hosts":[%q,%q]}`, plain.Listener.Addr(), secure.Listener.Addr()))
	bin := sdktest.Build(t)
	s := sdktest.Launch(t, bin, config, sdktest.Env("SSL_CERT_FILE="+trusted))
	via := func(from *httptest.Server, to string) string { return from.URL + "/?to=" + url.QueryEscape(to) }
	browse := func(address string) *sdktest.Reply { return s.Call("web_browse", fmt.Sprintf(`{"url":%q}`, address)) }
	const left = "[web_browse note] on its way the page was redirected from https to http: who it comes from is not certain"
	for address, want := range map[string]struct {
		source, text string
		left         bool
	}{
		secure.URL + "/":                    {secure.URL + "/", "arrived over TLS", false},
		via(plain, secure.URL+"/"):          {secure.URL + "/", "arrived over TLS", false},
		via(secure, plain.URL+"/"):          {plain.URL + "/", "arrived over nothing", true},
		via(secure, via(plain, secure.URL)): {secure.URL, "arrived over TLS", true},
	} {
		r := browse(address)
		if r.IsError || !strings.HasPrefix(r.Text, "Source: "+want.source+" (via http)\n") || !strings.Contains(r.Text, want.text) || strings.Contains(r.Text, left) != want.left {
			t.Errorf("%s: %s%s", address, r.Message, r.Text)
		}
	}
	r := s.Call("http_request", fmt.Sprintf(`{"url":%q,"headers":%q}`, via(secure, plain.URL+"/"), `{"X-Api-Key":"hush"}`))
	if r.IsError || !strings.Contains(r.Text, "arrived over nothing") || seen.Get("X-Api-Key") != "" {
		t.Errorf("%s%s %v", r.Message, r.Text, seen)
	}
	r = s.Call("http_health_check", fmt.Sprintf(`{"url":%q}`, secure.URL))
	if r.IsError || !strings.Contains(string(r.Structured), `"healthy":true`) || !strings.Contains(string(r.Structured), `"certificate_days"`) {
		t.Errorf("%s %s", r.Message, r.Structured)
	}
	// Whom nobody vouches for is not opened, by a redirect neither.
	s = sdktest.Launch(t, bin, config)
	for _, address := range []string{secure.URL, via(plain, secure.URL)} {
		browse(address).WantError("execution_failed", "certificate")
	}
}
