package downstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

func TestMain(m *testing.M) {
	child.Init()
	Init()
	badtest.Run(m)
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// stdio is a connection to the misbehaving server in the given modes.
func stdio(t *testing.T, ctx context.Context, modes ...string) (*Conn, error) {
	t.Helper()
	c, err := Connect(ctx, Target{Name: "bad", Command: append([]string{badtest.Bad(t)}, modes...), Log: quietLog(),
		CallTimeout: time.Minute, DiscoverTimeout: 500 * time.Millisecond, Walls: Walls{Home: t.TempDir()}}, Events{})
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func call(ctx context.Context, c *Conn, name, args string) (string, error) {
	raw, err := c.Request(ctx, "tools/call", json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args)), nil, nil)
	return string(raw), err
}

// Whatever a program does at the first message, it is connected to.
func TestPrograms(t *testing.T) {
	for _, modes := range [][]string{{"plain"}, {"banner"}, {"dies-at-discover"}, {"dies-at-discover", "reads-late"}, {"quiet-at-discover"}, {"yes-to-all"}, {"twice"}, {"init=1s"}, {"flood"}, {"stubborn"}} {
		t.Run(strings.Join(modes, "+"), func(t *testing.T) {
			ctx := badtest.Within(t, 60*time.Second)
			c, err := stdio(t, ctx, modes...)
			if err != nil {
				t.Fatal(err)
			}
			if c.Known.Era != Legacy || c.Info.Name != "bad" || c.Info.Instructions != "be careful" {
				t.Errorf("%+v %+v", c.Known, c.Info)
			}
			got, err := call(ctx, c, "echo", `{"id":9223372036854775807,"z":{"b":1,"a":2.50}}`)
			if err != nil || !strings.Contains(got, `"got":{"id":9223372036854775807,"z":{"b":1,"a":2.50}}`) || !strings.Contains(got, `"id":1915883588174806058`) {
				t.Errorf("%v %s", err, got)
			}
			if n := c.Noise(); modes[0] == "banner" && (n.Lines < 2 || !strings.Contains(n.First, "🚢")) {
				t.Errorf("noise: %+v", n)
			}
			pid := c.PID()
			c.Close()
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); runtime.GOOS == "linux" && err == nil {
				t.Errorf("process %d is still there", pid)
			}
		})
	}
}

func TestAHangingProgramTimesOut(t *testing.T) {
	begin := time.Now()
	if _, err := stdio(t, badtest.Within(t, 2*time.Second), "never"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(begin), err)
	}
}

func TestWhyAProgramEnded(t *testing.T) {
	_, err := stdio(t, badtest.Within(t, 20*time.Second), "stderr=BAD_KEY")
	if err == nil || !strings.Contains(err.Error(), "exit code 3") || !strings.Contains(err.Error(), "no API key: BAD_KEY") {
		t.Errorf("%v", err)
	}
	ctx := badtest.Within(t, 20*time.Second)
	c, err := stdio(t, ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = call(ctx, c, "die", "{}")
	if err == nil || Unsent(err) || !Broken(err) || !strings.Contains(err.Error(), "exit code 7") || !strings.Contains(err.Error(), "out of cheese") {
		t.Errorf("%v", err)
	}
	if _, err = call(ctx, c, "echo", "{}"); !Unsent(err) {
		t.Errorf("a call on a closed connection counts as sent: %v", err)
	}
}

// C13: the cancelled call's own id reaches the server; others go on.
func TestCancel(t *testing.T) {
	ctx := badtest.Within(t, 30*time.Second)
	c, err := stdio(t, ctx)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got, err := call(ctx, c, "sleep", `{"ms":700}`); err != nil || !strings.Contains(got, "slept") {
				t.Errorf("%v %s", err, got)
			}
		})
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := call(short, c, "sleep", `{"ms":20000}`); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	wg.Wait()
	got, err := call(ctx, c, "log", "{}")
	if err != nil || !strings.Contains(got, `\"ran\":4`) || strings.Count(got, `cancelled\":[\"bulkhead-`) != 1 {
		t.Errorf("%v %s", err, got)
	}
}

func TestOddToolsCostNothingElse(t *testing.T) {
	ctx := badtest.Within(t, 60*time.Second)
	c, err := stdio(t, ctx, "odd", "pages")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.List(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Tool{}
	for _, tool := range s.Tools {
		byName[tool.Name] = tool
		if !isObject(tool.InputSchema) {
			t.Errorf("%s: %s", tool.Name, tool.InputSchema)
		}
	}
	for _, name := range []string{"名前", "null-schema", "no-schema", "null-properties", "no-type", "array-schema", "second_page"} {
		if _, ok := byName[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if got := string(byName["null-properties"].InputSchema); got != `{"type":"object"}` {
		t.Errorf("null-properties: %s", got)
	}
	rich := byName["rich"]
	for _, want := range []string{`"$schema":"https://json-schema.org/draft/2020-12/schema"`, `"x-vendor":{"b":1,"a":[2]}`, `"anyOf":[{"required":["a"]},{"required":["b"]}]`, `"definitions"`, `9223372036854775807`} {
		if !strings.Contains(string(rich.InputSchema), want) {
			t.Errorf("%s is lost: %s", want, rich.InputSchema)
		}
	}
	if !strings.Contains(string(rich.Extra), "12345678901234567890") || !strings.Contains(string(rich.Extra), `"icons"`) || !strings.Contains(string(rich.Extra), `"execution"`) || !rich.Repeatable {
		t.Errorf("%s", rich.Extra)
	}
	notes := strings.Join(s.Notes, "\n")
	if !strings.Contains(notes, `"null-schema"`) || !strings.Contains(notes, "no name") {
		t.Errorf("notes: %s", notes)
	}
	if len(s.Prompts) != 1 || len(s.Resources) != 1 || len(s.Templates) != 1 || s.Fingerprint == "" {
		t.Errorf("%+v", s)
	}
}

func TestAListWithoutEndIsRefused(t *testing.T) {
	ctx := badtest.Within(t, 30*time.Second)
	c, err := stdio(t, ctx, "loop")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.List(ctx, nil); err == nil || !strings.Contains(err.Error(), "no end") {
		t.Errorf("%v", err)
	}
}

// C7: large results and lists.
func TestLargeMessages(t *testing.T) {
	ctx := badtest.Within(t, 60*time.Second)
	c, err := stdio(t, ctx, "many=600")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.List(ctx, nil)
	if err != nil || len(s.Tools) != 611 {
		t.Fatalf("%v %+v", err, s)
	}
	got, err := call(ctx, c, "big", `{"n":12000000}`)
	if err != nil || len(got) < 12_000_000 {
		t.Errorf("%v %d", err, len(got))
	}
	got, err = call(ctx, c, "broken", `{}`)
	if err != nil || !strings.Contains(got, "bytes") {
		t.Errorf("%v %q", err, got)
	}
}

// C10: a lost session is told as such, whichever status says it.
func TestSessionLost(t *testing.T) {
	for _, mode := range []string{"http404", "http400"} {
		t.Run(mode, func(t *testing.T) {
			ctx := badtest.Within(t, 30*time.Second)
			c, err := Connect(ctx, Target{Name: "h", URL: badtest.HTTP(t, mode), Log: quietLog()}, Events{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			if c.Known != (Known{HTTP, Legacy}) {
				t.Errorf("%+v", c.Known)
			}
			if got, err := call(ctx, c, "forget", "{}"); err != nil || !strings.Contains(got, "forgotten") {
				t.Fatalf("%v %s", err, got)
			}
			if _, err := call(ctx, c, "echo", "{}"); !errors.Is(err, ErrSessionLost) || !Unsent(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	ctx := badtest.Within(t, 30*time.Second)
	url := badtest.HTTP(t, "token=secret")
	_, err := Connect(ctx, Target{Name: "h", URL: url, Log: quietLog(), Headers: map[string]string{"Authorization": "Bearer wrong"}}, Events{})
	var auth *AuthError
	if !errors.As(err, &auth) || auth.Status != 401 || auth.Metadata != "https://auth.example/meta" {
		t.Errorf("%v", err)
	}
	c, err := Connect(ctx, Target{Name: "h", URL: url, Log: quietLog(), Headers: map[string]string{"Authorization": "Bearer secret"}}, Events{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestRefusedConnection(t *testing.T) {
	_, err := Connect(badtest.Within(t, 20*time.Second), Target{Name: "h", URL: "http://127.0.0.1:1/mcp?key=hidden", Log: quietLog()}, Events{})
	if err == nil || !Unsent(err) || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
}

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		template, uri string
		want          bool
	}{
		{"x://a/{id}", "x://a/5", true}, {"x://a/{id}", "x://a/5/6", false}, {"x://{+path}", "x://a/b/c", true},
		{"x://a{?q,r}", "x://a?q=1", true}, {"x://a{?q}", "x://a", true}, {"x://a{#f}", "x://a#z", true}, {"x://{a", "x://{a", true}, {"x://a", "x://b", false},
	} {
		if got := Matcher(c.template)(c.uri); got != c.want {
			t.Errorf("%s %s: %t", c.template, c.uri, got)
		}
	}
}

// A server that answers in chunks keeps its connection for the next request.
func TestConnectionsAreKept(t *testing.T) {
	target, err := url.Parse(badtest.HTTP(t))
	if err != nil {
		t.Fatal(err)
	}
	var conns atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	proxy.FlushInterval = -1
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.ServeHTTP(chunked{w}, r)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	c, err := Connect(badtest.Within(t, 20*time.Second), Target{Name: "h", URL: srv.URL + "/mcp", Log: quietLog()}, Events{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	before := conns.Load()
	for range 20 {
		if _, err := call(badtest.Within(t, 10*time.Second), c, "echo", "{}"); err != nil {
			t.Fatal(err)
		}
	}
	if n := conns.Load() - before; n > 2 {
		t.Errorf("20 requests took %d new connections", n)
	}
}

// chunked sends bodies in pieces and without their length.
type chunked struct{ http.ResponseWriter }

func (c chunked) WriteHeader(status int) {
	c.Header().Del("Content-Length")
	c.ResponseWriter.WriteHeader(status)
}

func (c chunked) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.ResponseWriter.(http.Flusher).Flush()
	return n, err
}
