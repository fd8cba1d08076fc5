package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// serve runs a proxy that admits the given hosts, on a socket.
func serve(t *testing.T, allow ...string) (*Proxy, string) {
	t.Helper()
	g, err := netguard.New(allow)
	if err != nil {
		t.Fatal(err)
	}
	return serveGuard(t, g)
}

func serveGuard(t *testing.T, g *netguard.Guard) (*Proxy, string) {
	t.Helper()
	p := New(g)
	at := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
	return p, at
}

// dial opens a connection with a tag.
func dial(t *testing.T, at, tag string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, tag+"\n"); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

func ask(t *testing.T, at, tag, request string) (int, string) {
	t.Helper()
	c, r := dial(t, at, tag)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // a half answer shows in the comparison
	return resp.StatusCode, string(body)
}

func get(address string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: x\r\nConnection: close\r\n\r\n", address, strings.Split(address, "/")[2])
}

func TestProxy(t *testing.T) {
	var seen http.Header
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		_, _ = io.WriteString(w, "open") // the client is us
	}))
	defer open.Close()
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the private server was reached") }))
	defer private.Close()
	p, at := serve(t, open.Listener.Addr().String())
	page := p.Open("a", 1<<20)
	if status, body := ask(t, at, "a", get(open.URL)); status != 200 || body != "open" || seen.Get("Proxy-Authorization") != "" {
		t.Error(status, body, seen)
	}
	if status, _ := ask(t, at, "other", get(open.URL)); status != http.StatusForbidden {
		t.Errorf("a tag of no page: %d", status)
	}
	for name, request := range map[string]string{
		"plain": get(private.URL), "tunnel": "CONNECT " + private.Listener.Addr().String() + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"local name": get("http://localhost:1/"), "odd address": get("http://0x7f.1:1/"),
		"no address": "GET /path HTTP/1.1\r\nHost: x\r\n\r\n", "ftp": get("ftp://127.0.0.1/x"),
	} {
		if status, body := ask(t, at, "a", request); status != http.StatusForbidden && status != http.StatusBadGateway {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	refused := strings.Join(page.Refused(), "\n")
	if !strings.Contains(refused, private.Listener.Addr().String()+": 127.0.0.1 is a loopback address") {
		t.Error(refused)
	}
	// A tunnel carries bytes both ways and ends with its page.
	c, r := dial(t, at, "a")
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", open.Listener.Addr()); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatal(line, err)
	}
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 200 {
		t.Fatal(err)
	} else if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	p.End(page)
	if _, err := r.ReadByte(); err == nil {
		t.Error("the tunnel outlives its page")
	}
	if status, _ := ask(t, at, "a", get(open.URL)); status != http.StatusForbidden {
		t.Errorf("a page that ended: %d", status)
	}
}

// A page's bytes are bounded, whoever sends them, and its own.
func TestBytes(t *testing.T) {
	flood := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 64<<10)
		for range 1024 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer flood.Close()
	p, at := serve(t, "127.0.0.1")
	page, other := p.Open("a", 1<<20), p.Open("b", 1<<20)
	if _, body := ask(t, at, "a", get(flood.URL)); len(body) > 2<<20 || !page.Over() {
		t.Errorf("%d bytes came through", len(body))
	}
	if status, body := ask(t, at, "a", get(flood.URL)); status != http.StatusForbidden || !strings.Contains(body, "used up its bytes") {
		t.Error(status, body)
	}
	if other.Over() {
		t.Error("another page paid")
	}
}

// A connection that says nothing, or too much, holds up nobody.
func TestTags(t *testing.T) {
	open := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer open.Close()
	p, at := serve(t, "127.0.0.1")
	p.Open("a", 1<<20)
	silent, err := net.Dial("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c, r := dial(t, at, strings.Repeat("x", 5000))
	if _, err := r.ReadByte(); err == nil {
		t.Error("a long tag was taken")
	}
	c.Close()
	if status, _ := ask(t, at, "a", get(open.URL)); status != 200 {
		t.Error(status)
	}
}
