package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// agents of the tests of the HTTP API; the token of each is secret-token-of-NAME.
const agentBlocks = `agent "boss" {
  token    = secret("boss")
  approver = true
}
agent "ann" {
  token = secret("ann")
}
agent "bob" {
  token = secret("bob")
  deny  = ["fx_*"]
}
policy {
  approval_reply_after = "1s"
}
`

func fileInstance(name, more string) string {
	return fmt.Sprintf("plugin %q {\n  binary = \"bulkhead-plugin-filefixture\"\n  env    = { FIXTURE_PREFIX = %q }\n%s}\n", name, name, more)
}

// newAPIWorld is a running host with the agents above.
func newAPIWorld(t *testing.T, hcl string, plugins ...string) *world {
	t.Helper()
	w := newWorld(t, hcl+agentBlocks, plugins...)
	w.mkdir("data/secrets")
	for _, n := range []string{"boss", "ann", "bob"} {
		w.secret(n, "secret-token-of-"+n)
	}
	return w
}

func (w *world) installFileFixture() {
	w.t.Helper()
	raw, err := os.ReadFile(testbin.Build(w.t, module+"host/internal/e2e/filefixture"))
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, "plugins", "bulkhead-plugin-filefixture"), raw, 0o755)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// asker asks the HTTP door as one agent.
type asker struct {
	t          testing.TB
	url, token string
}

func (w *world) as(agent string) asker {
	a := asker{t: w.t, url: w.url()}
	if agent != "" {
		a.token = "secret-token-of-" + agent
	}
	return a
}

type answer struct {
	t      testing.TB
	code   int
	header http.Header
	body   string
}

// do sends a request; headers are name, value pairs.
func (a asker) do(method, path, body string, headers ...string) answer {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resp := a.send(ctx, method, path, body, headers...)
	defer resp.Body.Close()
	var out bytes.Buffer
	if _, err := out.ReadFrom(resp.Body); err != nil {
		a.t.Fatal(err)
	}
	return answer{a.t, resp.StatusCode, resp.Header, out.String()}
}

func (a asker) send(ctx context.Context, method, path, body string, headers ...string) *http.Response {
	a.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp
}

// call calls a tool with a body made of its arguments.
func (a asker) call(tool, arguments string, headers ...string) answer {
	a.t.Helper()
	return a.do("POST", "/v1/tools/"+tool+"/call", `{"arguments":`+arguments+`}`, headers...)
}

// into reads an answer of a status whose shape has nothing we don't know.
func into[T any](a answer, code int) (v T) {
	a.t.Helper()
	if a.code != code {
		a.t.Fatalf("status %d, want %d: %s", a.code, code, clip(a.body))
	}
	dec := json.NewDecoder(strings.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		a.t.Fatalf("%v in %s", err, clip(a.body))
	}
	return v
}

// refused checks an error in its plain form.
func refused(a answer, code int, ref string) {
	a.t.Helper()
	e := into[struct{ Error api.Error }](a, code).Error
	if e.Ref != ref || e.Message == "" || e.Code == "" {
		a.t.Errorf("error %+v, want %s", e, ref)
	}
}

// failed checks an error in the form of a call's result.
func failed(a answer, code int, ref string) api.CallResult {
	a.t.Helper()
	r := into[api.CallResult](a, code)
	if r.Error == nil || r.Error.Ref != ref || !r.IsError || len(r.Content) == 0 || r.ToolName == "" {
		a.t.Errorf("result %s, want error %s", clip(a.body), ref)
	}
	return r
}

func names(tools []api.Tool) (out []string) {
	for _, t := range tools {
		out = append(out, t.Name)
	}
	return out
}
