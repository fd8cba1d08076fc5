package wheels

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Index is where packages come from beside a folder: a simple repository as PEP 503 has
// it, and the hosts that its files lie on.
type Index struct {
	URL   *url.URL
	Hosts []string // NAME or NAME:PORT, as in addresses of files
}

// ParseIndex reads an index's address and its files' hosts.
func ParseIndex(address string, hosts []string) (*Index, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q can't be read as an address", address)
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("an address such as https://pypi.org/simple is wanted here, not %q", u.Redacted())
	}
	for _, h := range hosts {
		if h == "" || strings.ContainsAny(h, " /@\n") {
			return nil, fmt.Errorf("the name of a host is wanted here, such as files.pythonhosted.org, not %q", h)
		}
	}
	return &Index{u, hosts}, nil
}

// allows says whether pip may connect there.
func (x *Index) allows(host, port string) bool {
	own := x.URL.Port()
	if own == "" {
		own = map[string]string{"https": "443", "http": "80"}[x.URL.Scheme]
	}
	if strings.EqualFold(host, x.URL.Hostname()) && port == own {
		return true
	}
	return slices.ContainsFunc(x.Hosts, func(h string) bool {
		return strings.EqualFold(h, host) && port == "443" || strings.EqualFold(h, net.JoinHostPort(host, port))
	})
}

const (
	dialTime = 20 * time.Second
	askTime  = 10 * time.Second
	// mostDownload is how many bytes one connection brings.
	mostDownload = 1 << 30
	mostAtOnce   = 16 // connections of one installation
	// longestSocket is what every system takes for the path of one.
	longestSocket = 103
)

// relay connects an installation to its index, and to nothing else, by a unix socket.
type relay struct {
	index  *Index
	listen net.Listener
	dir    string
	cancel context.CancelFunc
	busy   sync.WaitGroup
}

// open makes the socket, in a folder of its own. It serves until it is closed.
func (x *Index) open(ctx context.Context) (*relay, error) {
	dir, err := os.MkdirTemp("", "index-")
	if err != nil {
		return nil, err
	}
	r := &relay{index: x, dir: dir}
	if n := len(r.socket()); n > longestSocket {
		_ = os.Remove(dir) // empty
		return nil, fmt.Errorf("the folder for temporary files has too long a name for a socket: %s", filepath.Dir(dir))
	}
	ctx, r.cancel = context.WithCancel(ctx)
	r.listen, err = (&net.ListenConfig{}).Listen(ctx, "unix", r.socket())
	if err == nil {
		// The sandbox's user is another one; who else can enter the folder is the
		// operator's own.
		err = errors.Join(os.Chmod(r.socket(), 0o666), os.Chmod(dir, 0o711))
	}
	if err != nil {
		r.close()
		return nil, err
	}
	slots := make(chan struct{}, mostAtOnce)
	r.busy.Go(func() {
		for {
			c, err := r.listen.Accept()
			if err != nil {
				return // closed
			}
			select {
			case slots <- struct{}{}:
				r.busy.Go(func() {
					defer func() { <-slots }()
					r.serve(ctx, c)
				})
			default:
				_ = c.Close() // more than pip ever has
			}
		}
	})
	return r, nil
}

func (r *relay) socket() string { return filepath.Join(r.dir, "index.sock") }

// close ends all connections.
func (r *relay) close() {
	r.cancel()
	if r.listen != nil {
		_ = r.listen.Close()
	}
	r.busy.Wait()
	_ = os.RemoveAll(r.dir) // it lies in the folder for temporary files
}

// serve reads where a connection is to go, a line HOST PORT, says "ok" or why not, and
// passes bytes on both ways.
func (r *relay) serve(ctx context.Context, c net.Conn) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_ = c.SetReadDeadline(time.Now().Add(askTime)) // sockets take deadlines
	in := bufio.NewReaderSize(c, 512)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	host, port, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	if !r.index.allows(host, port) {
		fmt.Fprintf(c, "the index sends pip to %.200s, which is not allowed: name it in index_hosts\n", net.JoinHostPort(host, port))
		return
	}
	to, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		fmt.Fprintf(c, "the index can't be reached: %.300s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { _ = to.Close() })()
	if _, err := io.WriteString(c, "ok\n"); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, in) // it ends with either connection
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.CopyN(c, to, mostDownload) // as does this
	_ = c.Close()
	<-done
}
