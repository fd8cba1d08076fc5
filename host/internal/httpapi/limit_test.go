package httpapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A stop does not wait for a connection that waits for room.
func TestCloseEndsTheWaitForRoom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := NewConnections(1)
	bound := newListener(l, conns)
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if _, err := bound.Accept(); err != nil {
		t.Fatal(err)
	}
	_ = bound.Close() // the second connection is in the kernel's queue, or reset
	if bound.pause(time.Hour) {
		t.Error("it waited")
	}
	if c, err := bound.Accept(); err == nil {
		t.Errorf("accepted %v after the end", c.RemoteAddr())
	}
}

// Many clients at once over a small bound: each is served or turned away, idle ones
// make room, and nothing stays counted.
func TestConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := NewConnections(8)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, paced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			write(w, http.StatusOK, "served")
		})), conns, time.Second, hclog.NewNullLogger())
	}()
	var idle []net.Conn
	for range 32 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	served := 0
	for range 16 {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
			defer client.CloseIdleConnections()
			for range 20 {
				resp, err := client.Get("http://" + l.Addr().String())
				if err != nil {
					continue // it made room for another before its request was read
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if n := conns.Counts(); n.Open > 8 || n.Idle > n.Open {
					t.Errorf("over the bound: %+v", n)
				}
				if resp.StatusCode == http.StatusOK {
					mu.Lock()
					served++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if served < 100 {
		t.Errorf("%d of 320 were served", served)
	}
	for _, c := range idle {
		_ = c.Close()
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	n := conns.Counts()
	for deadline := time.Now().Add(10 * time.Second); n.Open > 0 && time.Now().Before(deadline); n = conns.Counts() {
		time.Sleep(time.Millisecond)
	}
	if n.Open != 0 || n.Idle != 0 || n.Dropped == 0 {
		t.Errorf("at the end: %+v", n)
	}
}
