package chrome

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"github.com/bulkhead-dev/bulkhead/plugins/browser/proxy"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

const (
	startTime  = 30 * time.Second // for a browser to answer
	answerTime = 4 * time.Second  // for it to show that it lives
	stopTime   = 10 * time.Second // for it to be gone
	maxSaid    = 16 << 10         // bytes kept of what it prints
	tmpSize    = 1 << 30          // bytes of its /tmp: profile, caches, shared memory
)

// rules are what the browser may do by itself, which is nothing: no look-ups ahead,
// no search engine to warm up, no updates.
//
//go:embed policy.json
var rules []byte

// Config says which browser to run.
type Config struct {
	Path      string // the program; empty: the first that is found
	UserAgent string // empty: its own
	Dir       string // a private folder for the socket
	Log       func(format string, args ...any)
}

// Find is the path of an installed Chromium.
func Find(path string) (string, error) {
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("the browser of the config is not there: %w", err)
		}
		return path, nil
	}
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	for _, name := range names {
		if p, err := exec.LookPath(name); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("no browser is installed (looked for %s); install Debian's package chromium, or name one with path", strings.Join(names, ", "))
}

// Chrome is one running browser.
type Chrome struct {
	Context context.Context // chromedp's, of the browser; pages are made from it
	proxy   *proxy.Proxy

	cancel context.CancelFunc
	child  *child.Child
	said   *tail
	socket net.Listener
	ended  chan struct{}
	once   sync.Once

	mu   sync.Mutex
	next int // page
}

// Start runs a browser whose connections go through p. It is told to end with
// Close, and ends by itself with this process. ctx bounds the start only.
func Start(ctx context.Context, c Config, p *proxy.Proxy) (*Chrome, error) {
	path, err := Find(c.Path)
	if err != nil {
		return nil, err
	}
	if support := child.Probe(ctx); !support.Namespaces {
		return nil, fmt.Errorf("the browser runs only behind walls, and this machine has no namespaces for them: %s", support.Reason)
	}
	dir, err := os.MkdirTemp(c.Dir, "chrome")
	if err != nil {
		return nil, err
	}
	b := &Chrome{proxy: p, said: &tail{}, ended: make(chan struct{})}
	if err := b.start(ctx, c, path, dir); err != nil {
		b.end(dir)
		if said := b.said.String(); said != "" && ctx.Err() == nil {
			err = fmt.Errorf("%w; it said: %s", err, said)
		}
		return nil, err
	}
	go func() {
		<-b.child.Done()
		b.end(dir)
		close(b.ended)
	}()
	return b, nil
}

func (b *Chrome) start(ctx context.Context, c Config, path, dir string) (err error) {
	socket := filepath.Join(dir, "proxy.sock")
	if b.socket, err = listen(dir, filepath.Base(socket)); err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o666); err != nil { // the folder around it is private, the child another user
		return err
	}
	go func() { _ = b.proxy.Serve(b.socket) }() // ends with the socket
	commandsR, commandsW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer commandsR.Close()
	answersR, answersW, err := os.Pipe()
	if err != nil {
		commandsW.Close()
		return err
	}
	defer answersW.Close()
	spec, err := b.spec(c, path, socket)
	if err != nil {
		return errors.Join(err, commandsW.Close(), answersR.Close())
	}
	spec.ExtraFiles = []*os.File{commandsR, answersW}
	// Its life is not that of the call that happened to start it.
	if b.child, err = child.Start(context.WithoutCancel(ctx), spec); err != nil {
		return errors.Join(err, commandsW.Close(), answersR.Close())
	}
	a := &allocator{pipe: chromedp.NewPipeConn(newSieve(answersR, maxMessage), commandsW)}
	allocated, _ := chromedp.NewAllocatorContext(context.WithoutCancel(ctx), a)
	b.Context, b.cancel = chromedp.NewContext(allocated, chromedp.WithErrorf(c.Log))
	answered := make(chan error, 1)
	go func() {
		_, err := chromedp.CallBrowser(b.Context, browser.GetVersion, cdp.Empty{})
		answered <- err
	}()
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	select {
	case err := <-answered:
		return err
	case <-b.child.Done():
		return errors.New("the browser ended at its start")
	case <-timer.C:
		return fmt.Errorf("the browser did not answer within %s", startTime)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen makes a socket in a folder whose path may be longer than sockets allow.
func listen(dir, name string) (net.Listener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name))
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // its path ends here; the folder goes as a whole
	}
	return l, err
}

// allocator hands chromedp a browser that runs already, on a pipe.
type allocator struct{ pipe *chromedp.PipeConn }

func (a *allocator) Allocate(ctx context.Context, opts ...chromedp.BrowserOption) (*chromedp.Browser, error) {
	return chromedp.NewBrowserTransport(ctx, a.pipe, opts...)
}

func (a *allocator) Wait() {}

// spec is the browser's walls.
func (b *Chrome) spec(c Config, path, socket string) (child.Spec, error) {
	self, err := os.Executable()
	if err != nil {
		return child.Spec{}, err
	}
	policy, nothing := filepath.Join(filepath.Dir(socket), "policy.json"), filepath.Join(filepath.Dir(socket), "empty")
	if err := errors.Join(os.WriteFile(policy, rules, 0o644), os.WriteFile(nothing, nil, 0o644)); err != nil {
		return child.Spec{}, err
	}
	mounts := slices.DeleteFunc(child.SystemMounts(), func(m child.Mount) bool { return m.Target == "/tmp" })
	mounts = append(mounts,
		child.Mount{Target: "/tmp", Writable: true, Size: tmpSize},
		child.Mount{Target: "/etc/chromium/policies/managed/policy.json", Source: policy},
		child.Mount{Target: "/etc/chromium.d/none", Source: nothing}, // Debian's script reads what is there, and there must be something
		child.Mount{Target: "/etc/opt/chrome/policies/managed/policy.json", Source: policy},
		child.Mount{Target: "/opt", Source: "/opt", Optional: true},
		child.Mount{Target: insideSelf, Source: self},
		child.Mount{Target: insideSocket, Source: socket, Writable: true},
	)
	return child.Spec{
		Path: insideSelf, Args: append([]string{relayName, path}, flags(c)...),
		Env:    []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8"},
		Dir:    "/tmp",
		Stdout: b.said, Stderr: b.said,
		Root:            &child.Root{Mounts: mounts},
		AllowNamespaces: true, // for the browser's own sandbox
		Grace:           time.Second,
	}, nil
}

// flags of the browser. Nothing is looked up or connected to but through a proxy,
// and the one of the browser itself admits nothing: pages have their own.
func flags(c Config) []string {
	f := []string{
		"--headless=new", "--remote-debugging-pipe", "--user-data-dir=/tmp/profile", "--no-first-run", "--no-default-browser-check",
		fmt.Sprintf("--proxy-server=http://127.0.0.1:%d", proxyPort), "--proxy-bypass-list=<-loopback>",
		"--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.*", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--disable-quic", "--dns-prefetch-disable",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions", "--disable-domain-reliability",
		"--disable-breakpad", "--disable-client-side-phishing-detection", "--safebrowsing-disable-auto-update", "--metrics-recording-only", "--no-pings",
		"--disable-dev-shm-usage", "--disable-gpu", "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb", "--window-size=1280,900",
		"--disable-field-trial-config", "--disable-search-engine-choice-screen", "--no-service-autorun", "--disable-component-extensions-with-background-pages",
		"--disable-features=PreconnectToSearch,PreconnectToSearchNonGoogle,Prerender2,LensOverlay,HttpsUpgrades,CertificateTransparencyComponentUpdater,Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,AutofillServerCommunication,InterestFeedContentSuggestions",
		"--password-store=basic", "--disable-blink-features=AutomationControlled",
	}
	if c.UserAgent != "" {
		f = append(f, "--user-agent="+c.UserAgent)
	}
	return append(f, "about:blank")
}

// Page is the address of a proxy of its own for a new page, and its tag.
func (b *Chrome) Page() (proxyServer, tag string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	tag = fmt.Sprintf("127.%d.%d.%d", 1+b.next>>16&0x7f, b.next>>8&0xff, b.next&0xff)
	return fmt.Sprintf("http://%s:%d", tag, proxyPort), tag
}

// Done is closed when the browser has ended and everything of it is gone.
func (b *Chrome) Done() <-chan struct{} { return b.ended }

// Answers says whether the browser still answers, which it does at once while it
// lives, whatever its pages do. A browser that is stopped or stuck keeps its pipe
// open, and nothing but its silence tells.
func (b *Chrome) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	asked, stop := context.WithCancel(b.Context)
	defer stop()
	answered := make(chan error, 1)
	go func() { // ends with asked
		_, err := chromedp.CallBrowser(asked, browser.GetVersion, cdp.Empty{})
		answered <- err
	}()
	select {
	case err := <-answered:
		return err == nil
	case <-b.child.Done():
	case <-ctx.Done():
	}
	return false
}

// Lost is closed when the browser's pipe is.
func (b *Chrome) Lost() <-chan struct{} {
	return chromedp.FromContext(b.Context).Browser.LostConnection
}

// PID of the browser's walls.
func (b *Chrome) PID() int { return b.child.PID() }

// Said is the last of what the browser printed.
func (b *Chrome) Said() string { return b.said.String() }

// Close ends the browser and waits until it is gone.
func (b *Chrome) Close() {
	b.child.Stop()
	select {
	case <-b.ended:
	case <-time.After(stopTime):
	}
}

// end lets go of what a start has made.
func (b *Chrome) end(dir string) {
	b.once.Do(func() {
		if b.child != nil {
			b.child.Stop()
		}
		if b.cancel != nil {
			b.cancel()
		}
		if b.socket != nil {
			_ = b.socket.Close()
		}
		_ = os.RemoveAll(dir) // what stays is swept with the folder above
	})
}

// tail keeps the last bytes that are written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - maxSaid; over > 0 {
		t.buf = slices.Clone(t.buf[over:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(bytes.ToValidUTF8(t.buf, nil)))
}
