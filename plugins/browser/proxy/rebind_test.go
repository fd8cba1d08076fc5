package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// rebinding is a name server that tells a public address the first time it is
// asked for an IPv4 address, and a loopback address from then on.
func rebinding(t *testing.T) (*net.Resolver, *atomic.Int32) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	asked := &atomic.Int32{}
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return // closed
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
			if q.Type == dnsmessage.TypeA {
				ip := [4]byte{127, 0, 0, 1}
				if asked.Add(1) == 1 {
					ip = [4]byte{8, 8, 8, 8}
				}
				answer.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: ip}}}
			}
			if raw, err := answer.Pack(); err == nil {
				_, _ = c.WriteTo(raw, from) // the resolver asks again
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", c.LocalAddr().String())
	}}, asked
}

// A name that leads elsewhere after it was looked at is not followed there, for
// what is checked is the address that is dialled; with the address allowed, the
// same name does lead to the server.
func TestRebinding(t *testing.T) {
	var hits atomic.Int32
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		_, _ = io.WriteString(w, "secret") // the client is us
	}))
	defer private.Close()
	_, port, err := net.SplitHostPort(private.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, open := range []bool{false, true} {
		hits.Store(0)
		var allow []string
		if open {
			allow = []string{"127.0.0.1"}
		}
		g, err := netguard.New(allow)
		if err != nil {
			t.Fatal(err)
		}
		resolver, asked := rebinding(t)
		g.ResolveWith(resolver)
		// The look before the leap: the name is public.
		if err := g.CheckTarget(t.Context(), "rebind.example", port); err != nil || asked.Load() != 1 {
			t.Fatal(err, asked.Load())
		}
		p, at := serveGuard(t, g)
		page := p.Open("a", 1<<20)
		plain, body := ask(t, at, "a", get("http://rebind.example:"+port+"/"))
		c, r := dial(t, at, "a")
		if _, err := io.WriteString(c, "CONNECT rebind.example:"+port+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		tunnel := http.StatusForbidden
		if strings.Contains(line, " 200 ") {
			tunnel = 200
		}
		if open {
			if plain != 200 || body != "secret" || tunnel != 200 || hits.Load() != 1 {
				t.Errorf("open: %d %q %d, %d hits", plain, body, tunnel, hits.Load())
			}
			continue
		}
		if plain != http.StatusForbidden || tunnel != http.StatusForbidden || hits.Load() != 0 || !strings.Contains(strings.Join(page.Refused(), "\n"), "127.0.0.1 is a loopback address") {
			t.Errorf("%d %q %d, %d hits, %q", plain, body, tunnel, hits.Load(), page.Refused())
		}
		if asked.Load() < 2 {
			t.Error("the name was not looked up again")
		}
	}
}

// A page has so many connections, and what is beyond is refused.
func TestConnections(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer slow.Close()
	defer close(release)
	p, at := serve(t, "127.0.0.1")
	page := p.Open("a", 1<<20)
	for range maxConns {
		c, _ := dial(t, at, "a")
		if _, err := io.WriteString(c, get(slow.URL)); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); page.conns.Load() < maxConns; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d connections came", page.conns.Load(), maxConns)
		}
	}
	if status, body := ask(t, at, "a", get(slow.URL)); status != http.StatusServiceUnavailable || !strings.Contains(body, "too many connections") {
		t.Errorf("%d %s", status, body)
	}
}
