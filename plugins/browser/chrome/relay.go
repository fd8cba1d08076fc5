package chrome

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"
)

const (
	relayName = "bulkhead-browser-relay"
	proxyPort = 3128
	// Where the relay finds things, inside.
	insideSelf   = "/run/relay"
	insideSocket = "/run/proxy.sock"
)

// Init turns a process that was started as the relay into it; in every other it
// does nothing. Call it first in main, and in TestMain.
func Init() {
	if len(os.Args) > 1 && os.Args[0] == relayName {
		os.Exit(relay(os.Args[1], os.Args[1:]))
	}
}

// relay runs the browser, whose pipes it has on descriptors 3 and 4.
func relay(path string, args []string) int {
	l, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", proxyPort))
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		return 1
	}
	cmd := &exec.Cmd{
		Path: path, Args: args, Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr,
		ExtraFiles: []*os.File{os.NewFile(3, "commands"), os.NewFile(4, "answers")},
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		return 1
	}
	for _, f := range cmd.ExtraFiles {
		f.Close() // or the browser would not notice that the other side left
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the process ends with the browser
			}
			go pass(c)
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	return 0
}

// pass takes one connection to the proxy, with the address it was made to as tag.
func pass(in net.Conn) {
	defer in.Close()
	host, _, err := net.SplitHostPort(in.LocalAddr().String())
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := (&net.Dialer{}).DialContext(ctx, "unix", insideSocket)
	if err != nil {
		return
	}
	defer out.Close()
	if _, err := io.WriteString(out, host+"\n"); err != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(out, in) // the proxy ends idle connections
		if u, ok := out.(*net.UnixConn); ok {
			_ = u.CloseWrite()
		}
	}()
	_, _ = io.Copy(in, out)
	in.Close()
	<-ended
}
