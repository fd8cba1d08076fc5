package sdktest

import (
	"io"
	"net"
)

// Silent listens on a loopback address and answers nobody, for as long as the test
// lasts: what a tool that waits for a server can be called on, as the SlowTool of
// the conformance cases. It gives the address, host and port.
func Silent(t TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() { _, _ = io.Copy(io.Discard, c) }() // until either side goes
		}
	}()
	return l.Addr().String()
}
