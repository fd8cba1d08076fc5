package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

const (
	tagTime  = 5 * time.Second  // for the tag at the start of a connection
	dialTime = 15 * time.Second // for one connection out
	idleTime = 60 * time.Second // without a byte in either direction
	maxTag   = 64               // bytes
	maxConns = 256              // of one page
	maxNoted = 50               // refusals that a page remembers
	maxLine  = 300              // bytes of one
)

// RefusedHeader is in answers that are the proxy's own, with the reason, and in no
// other: what a server sends under that name is taken out.
const RefusedHeader = "X-Bulkhead-Refused"

// Page is the traffic of one page.
type Page struct {
	tag    string
	max    int64 // bytes in both directions
	ctx    context.Context
	cancel context.CancelFunc
	used   atomic.Int64
	conns  atomic.Int64

	mu      sync.Mutex
	refused []string
	lost    int // refusals beyond maxNoted
}

// Refused are the requests that were not let through, each as host and reason.
func (p *Page) Refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Clone(p.refused)
	if p.lost > 0 {
		out = append(out, fmt.Sprintf("and %d more", p.lost))
	}
	return out
}

// Over says whether the page has used up its bytes.
func (p *Page) Over() bool { return p.used.Load() > p.max }

func (p *Page) refuse(host string, why error) {
	line := short(host) + ": " + short(why.Error())
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case slices.Contains(p.refused, line):
	case len(p.refused) >= maxNoted:
		p.lost++
	default:
		p.refused = append(p.refused, line)
	}
}

// short is the beginning of a text that the page may have made long.
func short(s string) string {
	if len(s) > maxLine {
		s = s[:maxLine] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// answer is the proxy's own word to the browser.
func answer(w http.ResponseWriter, why string, status int) {
	w.Header().Set(RefusedHeader, strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, short(why)))
	http.Error(w, why, status)
}

var (
	errOver   = errors.New("the page has used up its bytes")
	errConns  = errors.New("the page has too many connections open")
	errMethod = errors.New("not an address that is opened")
)

// Proxy serves the browser's connections from Serve until Close.
type Proxy struct {
	guard  *netguard.Guard
	server *http.Server

	mu    sync.Mutex
	pages map[string]*Page
}

// New makes a proxy that dials what guard admits.
func New(guard *netguard.Guard) *Proxy {
	p := &Proxy{guard: guard, pages: map[string]*Page{}}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.handle), ReadHeaderTimeout: idleTime, IdleTimeout: idleTime, MaxHeaderBytes: 256 << 10,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	return p
}

type connKey struct{}

// Serve takes connections until Close. Each begins with a line: its page's tag.
func (p *Proxy) Serve(l net.Listener) error {
	err := p.server.Serve(tagged{l})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close ends all connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	for _, page := range p.pages {
		page.cancel()
	}
	p.mu.Unlock()
	return p.server.Close()
}

// Open lets traffic of a tag through, up to max bytes.
func (p *Proxy) Open(tag string, max int64) *Page {
	ctx, cancel := context.WithCancel(context.Background())
	page := &Page{tag: tag, max: max, ctx: ctx, cancel: cancel}
	p.mu.Lock()
	p.pages[tag] = page
	p.mu.Unlock()
	return page
}

// End closes a page's connections and refuses what still comes for it.
func (p *Proxy) End(page *Page) {
	p.mu.Lock()
	delete(p.pages, page.tag)
	p.mu.Unlock()
	page.cancel()
}

func (p *Proxy) page(r *http.Request) *Page {
	c, ok := r.Context().Value(connKey{}).(*taggedConn)
	if !ok {
		return nil
	}
	tag, err := c.tag()
	if err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pages[tag]
}

func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	page := p.page(r)
	if page == nil {
		answer(w, "no page is open here", http.StatusForbidden)
		return
	}
	if page.conns.Add(1) > maxConns {
		page.conns.Add(-1)
		page.refuse(r.Host, errConns)
		answer(w, errConns.Error(), http.StatusServiceUnavailable)
		return
	}
	defer page.conns.Add(-1)
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(page.ctx, stop)()
	var err error
	switch {
	case page.Over():
		err = errOver
	case r.Method == http.MethodConnect:
		err = p.tunnel(ctx, w, r, page)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		err = p.forward(ctx, w, r, page)
	default:
		err = errMethod
	}
	if err != nil {
		page.refuse(r.Host, err)
		status := http.StatusBadGateway
		if refused := (*netguard.Refused)(nil); errors.As(err, &refused) || errors.Is(err, errOver) || errors.Is(err, errMethod) {
			status = http.StatusForbidden
		}
		answer(w, err.Error(), status)
	}
}

// dial opens a connection out that counts for the page.
func (p *Proxy) dial(ctx context.Context, page *Page, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := p.guard.Dial(ctx, "tcp", address)
	if err != nil {
		if refused := (*netguard.Refused)(nil); errors.As(err, &refused) {
			return nil, refused
		}
		return nil, err
	}
	return &counted{Conn: c, page: page}, nil
}

// tunnel connects the browser with address, for https and web sockets.
func (p *Proxy) tunnel(ctx context.Context, w http.ResponseWriter, r *http.Request, page *Page) error {
	out, err := p.dial(ctx, page, r.Host)
	if err != nil {
		return err
	}
	defer out.Close()
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return nil // the browser left
	}
	// The server's own watch over a connection ends with the hijack.
	defer context.AfterFunc(page.ctx, func() { _ = in.Close(); _ = out.Close() })()
	var wg sync.WaitGroup
	wg.Go(func() {
		copyUntilIdle(out, io.MultiReader(io.LimitReader(buffered, int64(buffered.Reader.Buffered())), in), in)
		closeWrite(out)
	})
	copyUntilIdle(in, out, out)
	_ = in.Close() // ends the other direction
	wg.Wait()
	return nil
}

// forward sends one plain request on.
func (p *Proxy) forward(ctx context.Context, w http.ResponseWriter, r *http.Request, page *Page) error {
	req := r.Clone(ctx)
	req.RequestURI = ""
	for _, name := range hop {
		req.Header.Del(name)
	}
	transport := &http.Transport{
		DisableKeepAlives: true, ResponseHeaderTimeout: idleTime, MaxResponseHeaderBytes: 256 << 10, DisableCompression: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return p.dial(ctx, page, address) },
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		if refused := (*netguard.Refused)(nil); errors.As(err, &refused) {
			return refused
		}
		return err
	}
	defer resp.Body.Close()
	for _, name := range hop {
		resp.Header.Del(name)
	}
	resp.Header.Del(RefusedHeader)
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(flusher{w, http.NewResponseController(w)}, resp.Body) // a half answer shows as one
	return nil
}

// hop are the headers of one connection, not of the message.
var hop = []string{"Connection", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

type flusher struct {
	io.Writer
	control *http.ResponseController
}

func (f flusher) Write(b []byte) (int, error) {
	n, err := f.Writer.Write(b)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}

// copyUntilIdle copies until an end, an error, or idleTime without a byte.
func copyUntilIdle(to net.Conn, from io.Reader, clock net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		_ = clock.SetReadDeadline(time.Now().Add(idleTime)) // a closed connection shows at the read
		n, err := from.Read(buf)
		if n > 0 {
			_ = to.SetWriteDeadline(time.Now().Add(idleTime))
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func closeWrite(c net.Conn) {
	if counted, ok := c.(*counted); ok {
		c = counted.Conn
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed already
	}
}

// counted is a connection out whose bytes the page pays for.
type counted struct {
	net.Conn
	page *Page
}

func (c *counted) Read(b []byte) (int, error) {
	if c.page.Over() {
		return 0, errOver
	}
	n, err := c.Conn.Read(b)
	c.page.used.Add(int64(n))
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	if c.page.Over() {
		return 0, errOver
	}
	n, err := c.Conn.Write(b)
	c.page.used.Add(int64(n))
	return n, err
}

// tagged gives connections whose first line is a tag.
type tagged struct{ net.Listener }

func (t tagged) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &taggedConn{Conn: c}, nil
}

// taggedConn reads its tag with the first read, not in Accept: a connection that
// sends none holds up nobody.
type taggedConn struct {
	net.Conn
	once sync.Once
	r    *bufio.Reader
	name string
	err  error
}

func (c *taggedConn) tag() (string, error) {
	c.once.Do(func() {
		c.r = bufio.NewReaderSize(c.Conn, 4096)
		_ = c.SetReadDeadline(time.Now().Add(tagTime))
		line, err := c.r.ReadSlice('\n')
		if err == nil && len(line) > maxTag {
			err = errors.New("the tag is too long")
		}
		_ = c.SetReadDeadline(time.Now().Add(idleTime)) // the server's own was overwritten
		c.name, c.err = strings.TrimSpace(string(line)), err
	})
	return c.name, c.err
}

func (c *taggedConn) Read(b []byte) (int, error) {
	if _, err := c.tag(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
