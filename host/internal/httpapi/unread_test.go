package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// An answer that does not need the body does not wait for it: it comes at once, is
// the last of its connection, and that makes room for others before its end.
func TestUnreadBodies(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const max = 4
	conns := NewConnections(max)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/refused", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusForbidden, "no")
	})
	mux.HandleFunc("/plain", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) })
	mux.HandleFunc("/silent", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/half", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 2))
		write(w, http.StatusBadRequest, "no")
	})
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		write(w, http.StatusOK, "yes")
	})
	go func() { done <- Serve(ctx, l, paced(mux), conns, time.Second, hclog.NewNullLogger()) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	ask := func(text string) (*http.Response, net.Conn) {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // less than any body may take
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%q: no answer: %v", text, err)
		}
		return resp, c
	}
	for path, want := range map[string]int{"/refused": 403, "/plain": 418, "/silent": 200, "/half": 400, "/none": 404} {
		for name, head := range map[string]string{
			"a length": "Content-Length: 1000\r\n\r\nab", "a long one": "Content-Length: 900000\r\n\r\nab", "chunks": "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
			"expecting": "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
		} {
			if path == "/half" && name == "expecting" {
				continue // that one is told to go on
			}
			resp, c := ask(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\n%s", path, head))
			if resp.StatusCode != want || !resp.Close {
				t.Errorf("%s with %s: %d, closing %v", path, name, resp.StatusCode, resp.Close)
			}
			if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("%s with %s: still connected: %v", path, name, err)
			}
		}
	}
	// Far more than there is room for, none of which ever sends its body.
	for i := range 4 * max {
		if resp, _ := ask("POST /refused HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"); resp.StatusCode != 403 {
			t.Errorf("request %d: %d", i, resp.StatusCode)
		}
	}
	// A body that was read leaves the connection as it was.
	if resp, _ := ask("POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab"); resp.StatusCode != 200 || resp.Close {
		t.Errorf("a body that was read: %d, closing %v", resp.StatusCode, resp.Close)
	}
	if resp, _ := ask("GET /refused HTTP/1.1\r\nHost: localhost\r\n\r\n"); resp.StatusCode != 403 || resp.Close {
		t.Errorf("no body: %d, closing %v", resp.StatusCode, resp.Close)
	}
}
