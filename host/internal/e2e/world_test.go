package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

const module = "github.com/bulkhead-dev/bulkhead/"

func TestMain(m *testing.M) {
	// Hosts whose data dir has a long name put their sockets here, and those that a
	// test kills leave them.
	runtime, err := os.MkdirTemp("", "bh-e2e")
	if err == nil {
		err = os.Setenv("XDG_RUNTIME_DIR", runtime)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	testbin.Cleanup()
	_ = os.RemoveAll(runtime)
	os.Exit(code)
}

// world is a folder with a config, a plugins folder and perhaps a running host.
type world struct {
	t    *testing.T
	dir  string
	host *exec.Cmd
	log  *testbin.Buffer
	done chan struct{}
	env  []string // of every command; nil = this process's
}

// newWorld makes a folder with a config; a plugins folder holds copies of the
// named binaries.
func newWorld(t *testing.T, hcl string, plugins ...string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.mkdir("plugins")
	for _, p := range plugins {
		w.install(p)
	}
	w.write("config.hcl", "host {\n  data_dir = \"data\"\n  plugins  = \"plugins\"\n  shared   = \"shared\"\n}\n\nfrontend \"http\" {\n  address = \"127.0.0.1:0\"\n}\n\n"+hcl)
	return w
}

func (w *world) mkdir(name string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Join(w.dir, name), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// install puts a plugin built from source into the plugins folder.
func (w *world) install(name string) string {
	w.t.Helper()
	from := testbin.Build(w.t, map[string]string{
		"fixture": module + "host/internal/e2e/fixture", "web": module + "plugins/web", "browser": module + "plugins/browser", "testplugin": module + "host/internal/testplugin", "ticker": module + "host/internal/e2e/ticker",
		"hostile": module + "host/internal/e2e/hostile", "notes": module + "host/internal/e2e/notes",
		"workspace": module + "plugins/workspace", "llm": module + "plugins/llm", "analyze": module + "plugins/analyze", "scripts": module + "plugins/scripts", "mcp": module + "plugins/mcp", "scheduling": module + "plugins/scheduling",
	}[name])
	to := filepath.Join(w.dir, "plugins", "bulkhead-plugin-"+name)
	if err := os.Link(from, to); err != nil {
		raw, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, raw, 0o755)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return to
}

func bulkhead(t *testing.T) string { return testbin.Build(t, module+"host") }

// serve starts the host and waits until it is ready.
func (w *world) serve() {
	w.t.Helper()
	w.serveBy(exec.Command(bulkhead(w.t), "serve"))
}

// serveBy is serve by a command of its own.
func (w *world) serveBy(host *exec.Cmd) {
	w.t.Helper()
	w.log = &testbin.Buffer{}
	w.host = host
	if w.host.Env == nil {
		w.host.Env = w.env
	}
	w.host.Dir, w.host.Stdout, w.host.Stderr = w.dir, w.log, w.log
	w.host.WaitDelay = 2 * time.Second
	if err := w.host.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // how it ends is the test's to judge
	}(w.host, w.done)
	w.t.Cleanup(w.stop)
	testbin.Await(w.t, 30*time.Second, "the host to be ready", func() bool {
		select {
		case <-w.done:
			w.t.Fatalf("the host ended:\n%s", w.log)
		default:
		}
		s, err := w.statusOf()
		return err == nil && !strings.Contains(fmt.Sprint(states(s)), "starting")
	})
}

func states(s api.Status) (out []string) {
	for _, p := range s.Plugins {
		out = append(out, p.Name+"="+p.State)
	}
	return out
}

// stop ends the host as an operator would.
func (w *world) stop() {
	if w.host == nil {
		return
	}
	_ = w.host.Process.Signal(syscall.SIGTERM) // it may have ended already
	w.gone(40 * time.Second)
}

// kill ends the host with -9.
func (w *world) kill() {
	w.t.Helper()
	if err := w.host.Process.Kill(); err != nil {
		w.t.Fatal(err)
	}
	w.gone(10 * time.Second)
}

func (w *world) gone(limit time.Duration) {
	select {
	case <-w.done:
	case <-time.After(limit):
		w.t.Errorf("the host did not end within %s:\n%s", limit, w.log)
		_ = w.host.Process.Kill()
		<-w.done
	}
	for _, word := range []string{"DATA RACE", "panic: ", "fatal error: "} {
		if strings.Contains(w.log.String(), word) {
			w.t.Errorf("the host's log says %q:\n%s", word, w.log)
		}
	}
	w.host = nil
}

func (w *world) statusOf() (api.Status, error) {
	var s api.Status
	out, _, code := w.runQuiet("status", "--json")
	if code != 0 {
		return s, fmt.Errorf("status: exit %d", code)
	}
	return s, json.Unmarshal([]byte(out), &s)
}

// status is that of a running host.
func (w *world) status() api.Status {
	w.t.Helper()
	s, err := w.statusOf()
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// plugin is one plugin's status.
func (w *world) plugin(name string) api.PluginStatus {
	w.t.Helper()
	s := w.status()
	for _, p := range s.Plugins {
		if p.Name == name {
			return p
		}
	}
	w.t.Fatalf("no plugin %q in %v", name, states(s))
	return api.PluginStatus{}
}

// run runs a command of the host's command line.
func (w *world) run(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	return w.runQuiet(args...)
}

func (w *world) runQuiet(args ...string) (stdout, stderr string, code int) {
	return w.runIn("", args...)
}

func (w *world) runIn(stdin string, args ...string) (stdout, stderr string, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bulkhead(w.t), args...)
	var out, errOut bytes.Buffer
	cmd.Env = w.env
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Stdin = w.dir, &out, &errOut, strings.NewReader(stdin)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		code = exit.ExitCode()
	default:
		w.t.Fatalf("%v: %v", args, err)
	}
	return out.String(), errOut.String(), code
}

// ok runs a command that must succeed.
func (w *world) ok(args ...string) string {
	w.t.Helper()
	out, errOut, code := w.run(args...)
	if code != 0 {
		w.t.Fatalf("%v: exit %d\n%s%s", args, code, out, errOut)
	}
	return out
}

// fails runs a command that must end with code and say each of words.
func (w *world) fails(code int, words []string, args ...string) string {
	w.t.Helper()
	out, errOut, got := w.run(args...)
	all := out + errOut
	if got != code {
		w.t.Errorf("%v: exit %d, want %d\n%s", args, got, code, clip(all))
	}
	for _, word := range words {
		if !strings.Contains(all, word) {
			w.t.Errorf("%v does not say %q:\n%s", args, word, clip(all))
		}
	}
	return all
}

func clip(s string) string {
	if len(s) > 4000 {
		return s[:4000] + "…"
	}
	return s
}

// secret puts a secret into the data dir.
func (w *world) secret(name, value string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "data/secrets", name), []byte(value), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// post sends one message to the HTTP door; a stream's events come as they are.
func (w *world) post(path, token, session, body string) (int, string) {
	w.t.Helper()
	code, _, text := w.request(http.MethodPost, path, body, map[string]string{
		"Authorization": bearer(token), "Mcp-Session-Id": session, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
	return code, text
}

func bearer(token string) string {
	if token == "" {
		return ""
	}
	return "Bearer " + token
}

// request sends one HTTP request to the door and reads the answer whole.
func (w *world) request(method, path, body string, header map[string]string) (int, http.Header, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.url()+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for k, v := range header {
		if v == "" {
			continue
		}
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

// initialize opens an MCP session by hand and returns its id.
func (w *world) initialize(path, token string) string {
	w.t.Helper()
	code, header, text := w.request(http.MethodPost, path,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		map[string]string{"Authorization": bearer(token), "Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
	id := header.Get("Mcp-Session-Id")
	if code != 200 || id == "" {
		w.t.Fatalf("initialize: %d %s", code, text)
	}
	return id
}
