package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
)

func TestFlow(t *testing.T) {
	f := newFlow()
	ended := make(chan error, 1)
	f.onEnd(func(err error) { ended <- err })
	f.all, f.patience = newBucket(100_000, 10), 200*time.Millisecond
	var err error
	for i := 0; err == nil; i++ {
		if i > 10_000_000 {
			t.Fatal("it never ends")
		}
		err = f.message(100)
	}
	if !strings.Contains(err.Error(), "messages a second") || f.slowedDown() == 0 || !errors.Is(<-ended, err) {
		t.Errorf("%v", err)
	}
	if f.message(1) == nil || f.room() == nil {
		t.Error("more is read after the end")
	}

	f = newFlow()
	for range maxOpen {
		if err := f.room(); err != nil {
			t.Fatal(err)
		}
		f.ask()
	}
	go f.answered()
	if err := f.room(); err != nil {
		t.Errorf("one was answered, the next is refused: %v", err)
	}
	f.ask()
	if err := f.room(); err == nil || !strings.Contains(err.Error(), "has not taken") {
		t.Errorf("%v", err)
	}
	// A wait ends with the connection.
	f = newFlow()
	f.all = newBucket(0.001, 0)
	go f.stop(ErrClosed)
	if err := f.message(5); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	// Answers to requests cost nothing.
	f = newFlow()
	f.all = newBucket(0, 1)
	for range 1000 {
		f.earn()
		if err := f.message(1); err != nil || f.slowedDown() > 0 {
			t.Fatal(err, f.slowedDown())
		}
	}
}

// most samples a number until stop, and gives its highest.
func most(sample func() int64) (stop func() int64) {
	var top atomic.Int64
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			top.Store(max(top.Load(), sample()))
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 { close(quit); <-done; return top.Load() }
}

func goroutines() int64 { return int64(runtime.NumGoroutine()) }

// A program that sends requests without end and takes no answers loses its connection,
// in the bridge and in a worker, and costs no more than the requests that may be open.
func TestAFloodOfRequestsEndsTheConnection(t *testing.T) {
	for _, isolated := range []bool{false, true} {
		for _, kind := range []string{"ping", "ask"} {
			t.Run(fmt.Sprintf("%s isolated=%t", kind, isolated), func(t *testing.T) {
				ctx := badtest.Within(t, 60*time.Second)
				target := Target{Name: "bad", Command: []string{badtest.Bad(t)}, Log: quietLog(), CallTimeout: time.Minute, DiscoverTimeout: 500 * time.Millisecond,
					Walls: Walls{Home: t.TempDir()}, Isolated: isolated, Known: Known{Stdio, Legacy}}
				c, err := Connect(ctx, target, Events{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
				top := most(goroutines)
				before := goroutines()
				_, err = call(ctx, c, "storm", `{"kind":"`+kind+`","ms":20000,"deaf":true}`)
				if err == nil || !Broken(err) || !strings.Contains(err.Error(), "requests whose answers it has not taken") {
					t.Errorf("%v", err)
				}
				if n := top() - before; n > 2*maxOpen {
					t.Errorf("%d goroutines more than before", n)
				}
				if _, err := call(ctx, c, "echo", "{}"); !Unsent(err) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// A program that takes its answers is only slowed down, whatever it sends.
func TestAStormSlowsItsServerOnly(t *testing.T) {
	for _, kind := range []string{"ping", "list", "log", "noise"} {
		t.Run(kind, func(t *testing.T) {
			ctx := badtest.Within(t, 60*time.Second)
			c, err := stdio(t, ctx)
			if err != nil {
				t.Fatal(err)
			}
			top := most(goroutines)
			before := goroutines()
			if got, err := call(ctx, c, "storm", `{"kind":"`+kind+`","n":12000}`); err != nil || !strings.Contains(got, "over") {
				t.Errorf("%v %s", err, got)
			}
			if n := top() - before; n > 2*maxOpen {
				t.Errorf("%d goroutines more than before", n)
			}
			if c.Slowed() == 0 {
				t.Error("it was not slowed down")
			}
			if got, err := call(ctx, c, "echo", `{"n":1}`); err != nil || !strings.Contains(got, "echo") {
				t.Errorf("%v %s", err, got)
			}
		})
	}
}

func TestALineThatIsTooLong(t *testing.T) {
	ctx := badtest.Within(t, 60*time.Second)
	c, err := stdio(t, ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call(ctx, c, "storm", `{"kind":"long"}`); err == nil || !strings.Contains(err.Error(), "sent a message of more than 64 MiB") {
		t.Errorf("%v", err)
	}
}

// httpServer answers the handshake, and calls by f. Answers to its own requests are
// not taken before the test ends.
func httpServer(t *testing.T, f func(w http.ResponseWriter, id string)) string {
	end := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		body := string(raw)
		id, _, _ := strings.Cut(after(body, `"id":`), ",")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case err != nil || r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case strings.Contains(body, `"method":"initialize"`):
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"h","version":"1"}}}`, id)
		case strings.Contains(body, `"method":"tools/call"`):
			f(w, id)
		case strings.Contains(body, `"method":"notifications/`):
			w.WriteHeader(http.StatusAccepted)
		case strings.Contains(body, `"method":`):
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, id)
		default:
			select {
			case <-end:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(end) })
	return srv.URL
}

func after(s, sep string) string { _, rest, _ := strings.Cut(s, sep); return rest }

func overHTTP(t *testing.T, ctx context.Context, url string) *Conn {
	t.Helper()
	c, err := Connect(ctx, Target{Name: "h", URL: url, Log: quietLog(), Known: Known{HTTP, Legacy}}, Events{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAFloodOfRequestsOverHTTP(t *testing.T) {
	ctx := badtest.Within(t, 60*time.Second)
	c := overHTTP(t, ctx, httpServer(t, func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", i); err != nil {
				return
			}
		}
	}))
	top := most(goroutines)
	before := goroutines()
	_, err := call(ctx, c, "echo", "{}")
	if err == nil || !Broken(err) || !strings.Contains(err.Error(), "requests whose answers it has not taken") {
		t.Errorf("%v", err)
	}
	if n := top() - before; n > 20*maxOpen { // of the test's own server, too
		t.Errorf("%d goroutines more than before", n)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for answer, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"other","result":{}}`: "the id other", `{"jsonrpc":"2.0","id":%s,"result":null}`: "neither a result nor an error", `{"jsonrpc":"2.0","id":%s}`: "neither a result",
	} {
		ctx := badtest.Within(t, 30*time.Second)
		c := overHTTP(t, ctx, httpServer(t, func(w http.ResponseWriter, id string) { fmt.Fprint(w, strings.Replace(answer, "%s", id, 1)) }))
		if _, err := call(ctx, c, "echo", "{}"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

func TestWhereAServerSendsItsClients(t *testing.T) {
	var url string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sse":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: endpoint\r\ndata: http://elsewhere.example/messages\r\n\r\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/loop":
			http.Redirect(w, r, url+"/loop", http.StatusTemporaryRedirect)
		default:
			http.Redirect(w, r, "http://elsewhere.example/mcp", http.StatusTemporaryRedirect)
		}
	}))
	url = srv.URL
	t.Cleanup(srv.Close)
	for path, want := range map[string]string{"/sse": "sends its clients to elsewhere.example", "/loop": "redirects 4 times", "/away": "redirects to http://elsewhere.example"} {
		kind := HTTP
		if path == "/sse" {
			kind = SSE
		}
		begin := time.Now()
		_, err := Connect(badtest.Within(t, 30*time.Second), Target{Name: "h", URL: url + path, Transport: kind, Log: quietLog()}, Events{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s after %s: %v", path, time.Since(begin), err)
		}
	}
}

// What a server repeats of its secrets stands in nothing that is said of it.
func TestSecretsAreNotRepeated(t *testing.T) {
	const secret = "hunter2-topsecret"
	ctx := badtest.Within(t, 60*time.Second)
	_, err := Connect(ctx, Target{Name: "bad", Command: []string{badtest.Bad(t), "stderr=" + secret}, Log: quietLog(), Secrets: []string{secret}, Walls: Walls{Home: t.TempDir()}}, Events{})
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "no API key: [hidden]") {
		t.Errorf("%v", err)
	}
	for _, isolated := range []bool{false, true} {
		c, err := Connect(ctx, Target{Name: "h", Log: quietLog(), Secrets: []string{secret}, Known: Known{HTTP, Legacy}, Isolated: isolated, URL: httpServer(t, func(w http.ResponseWriter, id string) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "bad token "+secret)
		})}, Events{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := call(ctx, c, "echo", "{}"); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "bad token [hidden]") {
			t.Errorf("%v", err)
		}
		c.Close()
	}
}
