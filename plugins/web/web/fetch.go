package web

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/andybalholm/brotli"
	"golang.org/x/net/http/httpproxy"

	"github.com/bulkhead-dev/bulkhead/plugins/web/cache"
	"github.com/bulkhead-dev/bulkhead/plugins/web/search"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// maxRedirects is how many hops one page may take.
const maxRedirects = 10

// fetcher gets pages under the limits of one set of settings.
type fetcher struct {
	guard     *netguard.Guard
	client    *http.Client
	pages     *http.Client // client with the cache in it, if there is one
	timeout   time.Duration
	max       int64
	userAgent string
	uncached  error // why there is no cache although there should be one
}

// page is what a fetch gave.
type fetched struct {
	url         *url.URL // after redirects
	status      int
	contentType string
	body        []byte
	cut         bool           // the body was longer than the limit
	left        bool           // https was left for http on the way
	wait        *time.Duration // what the server asks to wait before the next try
	use         cache.Use
}

// newFetcher makes a fetcher that keeps copies in a folder, unless that is empty.
func newFetcher(s *settings, dir string) (*fetcher, error) {
	g, err := netguard.New(s.AllowHosts)
	if err != nil {
		return nil, err
	}
	f := &fetcher{guard: g, timeout: s.FetchTimeout.Std(), max: s.MaxPageSize.Bytes(), userAgent: s.UserAgent}
	f.client = &http.Client{Transport: newTransport(g, s), CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return sdk.Errorf(sdk.ExecutionFailed, "the page redirects more than %d times", maxRedirects)
		}
		return checkURL(req.URL)
	}}
	f.pages = f.client
	if dir == "" {
		return f, nil
	}
	if s.CacheSize == 0 {
		f.uncached = os.RemoveAll(dir)
		return f, nil
	}
	store, err := cache.Open(dir, s.CacheSize.Bytes())
	if err != nil {
		f.uncached = err // pages are read all the same
		return f, nil
	}
	pages := *f.client
	pages.Transport = &cache.Transport{Next: f.client.Transport, Store: store, Scope: scope(s), Max: f.max}
	f.pages = &pages
	return f, nil
}

// scope is what decides which addresses are opened, and by whom: a copy that was
// had under other settings is not shown.
func scope(s *settings) string { return fmt.Sprintf("%q %q", s.AllowHosts, s.Proxy) }

// newTransport dials what the guard admits, through the operator's proxy if there
// is one.
func newTransport(g *netguard.Guard, s *settings) *http.Transport {
	transport := &http.Transport{
		DialContext:            g.Dial,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           16,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if proxy := proxyFor(s.Proxy); proxy != nil {
		transport.Proxy = func(req *http.Request) (*url.URL, error) {
			to, err := proxy(req.URL)
			if to == nil || err != nil {
				return to, err
			}
			return to, g.CheckTarget(req.Context(), req.URL.Hostname(), portOf(req.URL))
		}
		// The proxy itself usually stands in the private network.
		for _, scheme := range []string{"http", "https"} {
			if to, err := proxy(&url.URL{Scheme: scheme, Host: "example.com"}); err == nil && to != nil {
				g.Admit(net.JoinHostPort(to.Hostname(), portOf(to)))
			}
		}
	}
	return transport
}

func proxyFor(setting string) func(*url.URL) (*url.URL, error) {
	switch setting {
	case noProxy:
		return nil
	case "":
		env := httpproxy.FromEnvironment()
		if env.HTTPProxy == "" && env.HTTPSProxy == "" {
			return nil
		}
		return env.ProxyFunc()
	}
	return (&httpproxy.Config{HTTPProxy: setting, HTTPSProxy: setting}).ProxyFunc()
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// hostOnly is an address without its scheme, as people write it.
var hostOnly = regexp.MustCompile(`^[\pL\pN_-]+(\.[\pL\pN_-]+)*\.\pL[\pL\pN-]+\.?(:\d{1,5})?([/?#].*)?$`)

// parseURL reads what the caller sent as an address.
func parseURL(text string) (*url.URL, error) {
	text = strings.TrimSpace(text)
	if hostOnly.MatchString(text) {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, sdk.Errorf(sdk.InvalidArguments, "%q is not a web address", text)
	}
	return u, checkURL(u)
}

// checkURL refuses what no page is fetched from; redirects pass it, too.
func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return sdk.Errorf(sdk.InvalidArguments, "only http:// and https:// addresses are opened, not %q", u.Scheme+":")
	case u.User != nil:
		return sdk.Errorf(sdk.InvalidArguments, "an address with a user name or password in it is not opened")
	case u.Hostname() == "":
		return sdk.Errorf(sdk.InvalidArguments, "the address names no host")
	}
	return nil
}

// get fetches one page, or takes a copy that is still good. A page with an error
// status is returned like any other.
func (f *fetcher) get(ctx context.Context, u *url.URL) (*fetched, error) {
	return f.page(ctx, u, "")
}

// now is get that asks the server in any case.
func (f *fetcher) now(ctx context.Context, u *url.URL) (*fetched, error) {
	return f.page(ctx, u, "no-cache")
}

func (f *fetcher) page(ctx context.Context, u *url.URL, control string) (*fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	p := &fetched{}
	ctx = cache.Watch(ctx, &p.use)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, sdk.Errorf(sdk.InvalidArguments, "%q is not a web address: %w", u, err)
	}
	req.Header.Set("User-Agent", f.userAgent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,application/json;q=0.9,text/*;q=0.9,*/*;q=0.5")
	req.Header.Set("Accept-Language", "en,*;q=0.5")
	req.Header.Set("Accept-Encoding", "gzip, br")
	if control != "" {
		req.Header.Set("Cache-Control", control)
	}
	resp, err := f.pages.Do(req)
	if err != nil {
		return nil, f.explain(ctx, u, err)
	}
	defer resp.Body.Close()
	p.url, p.status, p.contentType = resp.Request.URL, resp.StatusCode, resp.Header.Get("Content-Type")
	p.wait = search.RetryAfter(resp.Header.Get("Retry-After"), time.Now())
	for r := resp.Request; r.Response != nil && r.Response.Request != nil; r = r.Response.Request {
		p.left = p.left || r.URL.Scheme == "http" && r.Response.Request.URL.Scheme == "https"
	}
	unpacked, err := unpack(resp)
	if err != nil {
		return nil, err
	}
	p.body, err = io.ReadAll(io.LimitReader(unpacked, f.max+1))
	if int64(len(p.body)) > f.max {
		p.body, p.cut = p.body[:f.max], true
	} else if err != nil {
		return nil, f.explain(ctx, u, err)
	} else {
		_, _ = io.CopyN(io.Discard, resp.Body, 1) // to its end, which an unpacker may not have asked for
	}
	return p, nil
}

// unpack reads the body in the encodings that were asked for. What comes out is
// what limits count, so no bomb is unpacked whole.
func unpack(resp *http.Response) (io.Reader, error) {
	switch enc := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); enc {
	case "", "identity":
		return resp.Body, nil
	case "br":
		return brotli.NewReader(resp.Body), nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(resp.Body)
		if errors.Is(err, io.EOF) { // nothing at all, as after a redirect
			return resp.Body, nil
		} else if err != nil {
			return nil, sdk.Errorf(sdk.ExecutionFailed, "%sthe body is said to be gzip and is not: %w", fetchFailed, err)
		}
		return z, nil
	default:
		return nil, sdk.Errorf(sdk.ExecutionFailed, "%sthe server sends it in the encoding %q, which was not asked for", fetchFailed, enc)
	}
}

// api gets the answer of a site's interface, which is useless when cut.
func (f *fetcher) api(ctx context.Context, address string, header http.Header) ([]byte, int, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("User-Agent", f.userAgent)
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, 0, f.explain(ctx, req.URL, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, f.max+1))
	if err == nil && int64(len(body)) > f.max {
		err = fmt.Errorf("the answer of %s is larger than %d bytes (max_page_size)", req.URL.Host, f.max)
	}
	return body, resp.StatusCode, err
}

// fetchFailed begins the errors of a fetch.
const fetchFailed = "Failed to fetch page: "

// explain words a failed fetch for a model, with a code that fits.
func (f *fetcher) explain(ctx context.Context, u *url.URL, err error) error {
	var ref *netguard.Refused
	var own *sdk.Error
	var dns *net.DNSError
	var netErr net.Error
	const prefix = fetchFailed
	switch {
	case errors.As(err, &ref):
		return sdk.Errorf(sdk.Denied, prefix+"%w", ref)
	case errors.As(err, &own):
		return &sdk.Error{Code: own.Code, Message: prefix + own.Message}
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return sdk.Errorf(sdk.Timeout, prefix+"%s did not answer completely within %s (fetch_timeout)", u.Host, f.timeout).After(0)
	case errors.As(err, &dns):
		return sdk.Errorf(sdk.ExecutionFailed, prefix+"the host name %q is not known", dns.Name)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return sdk.Errorf(sdk.ExecutionFailed, prefix+"%w", fmt.Errorf("%s: %w", u.Host, err)).After(0)
}
