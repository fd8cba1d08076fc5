package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// rawClient is a client of `bulkhead mcp` that writes whatever bytes it likes.
type rawClient struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
}

func (w *world) rawMCP(flags ...string) *rawClient {
	w.t.Helper()
	cmd := exec.Command(bulkhead(w.t), append([]string{"mcp"}, flags...)...)
	cmd.Dir = w.dir
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	r := &rawClient{t: w.t, in: in, out: bufio.NewReaderSize(out, 1<<20), cmd: cmd}
	r.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if m := r.hear(); !m.Get("result.protocolVersion").Exists() {
		w.t.Fatalf("initialize: %s", m)
	}
	return r
}

func (r *rawClient) say(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rawClient) hear() gjson.Result {
	r.t.Helper()
	line := make(chan string, 1)
	go func() {
		s, _ := r.out.ReadString('\n') // an end shows as an empty line
		line <- s
	}()
	select {
	case s := <-line:
		return gjson.Parse(s)
	case <-time.After(30 * time.Second):
		r.t.Fatal("the host said nothing")
	}
	return gjson.Result{}
}

// Whatever a client sends, it hears what was wrong, and the host and the client's
// own connection go on.
func TestOddMessages(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	r := w.rawMCP()
	deep := func(n int) string { return strings.Repeat("[", n) }
	for name, c := range map[string]struct{ say, path, want string }{
		"garbage":          {"garbage", "error.code", "-32700"},
		"brackets":         {deep(4 << 20), "error.code", "-32700"},
		"more brackets":    {deep(7 << 20), "error.code", "-32700"},
		"a batch":          {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "error.code", "-32600"},
		"too long":         {`{"x":"` + strings.Repeat("y", 9<<20) + `"}`, "error.code", "-32600"},
		"no id worth it":   {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, "error.code", "-32600"},
		"an odd method":    {`{"jsonrpc":"2.0","id":5,"method":"no/such"}`, "error.code", "-32601"},
		"a number too big": {`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, "id", "9007199254740993"},
		"deep arguments": {`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"fx_echo","arguments":{"a":` + deep(5000) + strings.Repeat("]", 5000) + `}}}`,
			"error.code", "-32700"},
		"bytes stay": {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"fx_echo","arguments":{"b":1.50,"a":"<&>","n":9223372036854775807}}}`,
			"result.structuredContent", `{"b":1.50,"a":"<&>","n":9223372036854775807}`},
	} {
		r.say(c.say)
		if m := r.hear(); m.Get(c.path).Raw != c.want {
			t.Errorf("%s: %s", name, clip(m.Raw))
		}
	}
	if p := w.plugin("fx"); p.State != "ready" || p.Restarts != 0 {
		t.Errorf("the plugin: %+v", p)
	}
	if code, body := w.post("/mcp", "", "", deep(3<<20)); code != http.StatusBadRequest {
		t.Errorf("brackets over HTTP: %d %s", code, clip(body))
	}
	w.ok("call", "fx_echo", "{}")
}

// A client that stops reading loses its connection, not the host its slots or its
// end.
func TestClientThatDoesNotRead(t *testing.T) {
	w := newWorld(t, instance("fx", "  limits {\n    calls        = 4\n    call_timeout = \"3s\"\n  }\n"), "fixture")
	w.serve()
	for range 3 {
		r := w.rawMCP()
		for i := range 60 { // more than any buffer on the way holds
			r.say(`{"jsonrpc":"2.0","id":` + strconv.Itoa(i+1) + `,"method":"tools/call","params":{"name":"fx_long","arguments":{"chars":60000},"_meta":{"progressToken":1}}}`)
		}
		for i := range 3 { // and calls that tell of their progress
			r.say(`{"jsonrpc":"2.0","id":"p` + strconv.Itoa(i) + `","method":"tools/call","params":{"name":"fx_slow","arguments":{"ms":1000,"steps":50},"_meta":{"progressToken":2}}}`)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	call := w.caller()
	testbin.Await(t, 15*time.Second, "an answer to another client", func() bool { // once their calls are done, read or not
		r, err := call(ctx, "fx_echo", "{}")
		return err == nil && !r.IsError
	})
	testbin.Await(t, 30*time.Second, "all slots to be free", func() bool { return w.plugin("fx").InFlight == 0 })
	begin := time.Now()
	if err := w.host.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.gone(35 * time.Second)
	t.Logf("stopped in %s", time.Since(begin).Round(time.Millisecond))
}
