package downstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/inline"
)

const (
	maxErrorBody = 1 << 20
	dialTime     = 10 * time.Second
)

// httpClient is what all requests to the target go through; free closes what it
// keeps open.
func (t *Target) httpClient() (client *http.Client, trip *tripper, free func()) {
	dialer := &net.Dialer{Timeout: dialTime, KeepAlive: 30 * time.Second}
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: dialTime,
		MaxResponseHeaderBytes: 1 << 20,
	}
	if allow := t.AllowAddr; allow != nil {
		base.Proxy = nil
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			addr, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return allow(addr)
		}
	}
	direct := inline.New(base)
	trip = &tripper{base: direct, headers: t.Headers}
	client = &http.Client{
		Transport: trip,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			first := via[0].URL
			if len(via) > 3 || req.URL.Scheme != first.Scheme || req.URL.Host != first.Host {
				return fmt.Errorf("the server redirects to %s://%s; name that address in url if it is the right one", req.URL.Scheme, req.URL.Host)
			}
			return nil
		},
	}
	return client, trip, direct.CloseIdleConnections
}

// tripper mends what stands between HTTP as servers speak it and the library's
// reading of it: errors of the protocol that come with a status of their own, lost
// sessions that are told by 400, bodies without end.
type tripper struct {
	base    http.RoundTripper
	headers map[string]string
}

func (t *tripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if resp := receivedFor(req); resp != nil {
		return resp, nil
	}
	req = req.Clone(req.Context())
	setHeaders(req, t.headers)
	return t.send(req)
}

// send sends a request that has all its headers.
func (t *tripper) send(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	streams := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	switch {
	case resp.StatusCode < 400:
		resp.Body = &bounded{ReadCloser: resp.Body, stream: streams, left: maxMessage}
		if !streams {
			return whole(resp)
		}
		return resp, nil
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		defer resp.Body.Close()
		return nil, &AuthError{Status: resp.StatusCode, Metadata: resourceMetadata(resp.Header)}
	case req.Method == http.MethodGet && streams, req.Method == http.MethodDelete:
		return resp, nil
	case req.Method == http.MethodGet && resp.StatusCode != http.StatusNotFound && resp.StatusCode < 500:
		resp.StatusCode = http.StatusMethodNotAllowed // no such stream here, however it is said
		return resp, nil
	case req.Method != http.MethodPost:
		return resp, nil
	}
	return t.refusal(req, resp)
}

// whole reads an answer that is no stream to its end. The library stops at the end
// of the message, and a body in chunks ends after that: its connection would be
// thrown away each time.
func whole(resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func setHeaders(req *http.Request, headers map[string]string) {
	for k, v := range headers {
		if strings.EqualFold(k, "Host") {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
}

// refusal reads a POST that was answered with an error status.
func (t *tripper) refusal(req *http.Request, resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return nil, err
	}
	var msg struct {
		ID    json.RawMessage `json:"id"`
		Error json.RawMessage `json:"error"`
	}
	isRPC := json.Unmarshal(body, &msg) == nil && bytes.HasPrefix(bytes.TrimSpace(msg.Error), []byte("{"))
	session := req.Header.Get(transport.HeaderKeySessionID) != ""
	anonymous := len(msg.ID) == 0 || string(msg.ID) == "null"
	answer := *resp
	answer.Body = io.NopCloser(bytes.NewReader(body))
	switch {
	case session && (resp.StatusCode == http.StatusNotFound || (resp.StatusCode == http.StatusBadRequest && (anonymous || !isRPC))):
		// Refused before it was looked at: the session is not known.
		answer.StatusCode = http.StatusNotFound
		return &answer, nil
	case isRPC && !anonymous:
		answer.StatusCode = http.StatusOK
		answer.Header = answer.Header.Clone()
		answer.Header.Set("Content-Type", "application/json")
		return &answer, nil
	}
	status := &StatusError{Status: resp.StatusCode, Body: clip(strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD")), 300)}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && s < 3600 {
		status.RetryAfter = time.Duration(s) * time.Second
	}
	return nil, status
}

// resourceMetadata is the address in a WWW-Authenticate header.
func resourceMetadata(h http.Header) string {
	_, after, ok := strings.Cut(h.Get("WWW-Authenticate"), `resource_metadata="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(after, `"`)
	return clip(value, 300)
}

// bounded ends a body that has no end: of a stream each event counts alone.
type bounded struct {
	io.ReadCloser
	stream bool
	left   int64
	last   byte
}

var errTooLong = errors.New("a message of more than 64 MiB")

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.stream {
		// An empty line ends an event.
		for i := n - 1; i >= 0; i-- {
			before := b.last
			if i > 0 {
				before = p[i-1]
			}
			if p[i] == '\n' && (before == '\n' || before == '\r') {
				b.left = maxMessage
				break
			}
		}
		if n > 0 {
			b.last = p[n-1]
		}
	}
	if b.left -= int64(n); b.left < 0 {
		return n, errTooLong
	}
	return n, err
}

// streamable makes a transport for Streamable HTTP.
func (t *Target) streamable() (*transport.StreamableHTTP, *poster, func(), error) {
	client, trip, free := t.httpClient()
	address, err := url.Parse(t.URL)
	if err != nil {
		return nil, nil, nil, err
	}
	tr, err := transport.NewStreamableHTTP(t.URL,
		//lint:ignore SA1019 servers of the older revisions, which it is for, say what changed over no other stream
		transport.WithHTTPBasicClient(client), transport.WithContinuousListening(), transport.WithHTTPLogger(quiet(t.Log)))
	return tr, &poster{tr: tr, http: trip, url: address}, free, err
}

// sse makes a transport for the older HTTP with server-sent events.
func (t *Target) sse() (*transport.SSE, func(), error) {
	client, _, free := t.httpClient()
	tr, err := transport.NewSSE(t.URL, transport.WithHTTPClient(client), transport.WithSSELogger(quiet(t.Log)),
		transport.WithResponseTimeout(t.CallTimeout+time.Minute))
	return tr, free, err
}

// headersFor are the HTTP headers a request of the newer revision repeats its own
// content in.
func headersFor(version, method string, params json.RawMessage, tool *Tool) http.Header {
	h := http.Header{}
	for k, v := range mcp.StandardHeaders(version, mcp.MCPMethod(method), params) {
		h.Set(k, v)
	}
	taskHeader(h, method, params)
	if tool != nil && bytes.Contains(tool.InputSchema, []byte("x-mcp-header")) {
		for k, v := range mcp.GenerateParamHeaders(&mcp.Tool{Name: tool.Name, RawInputSchema: tool.InputSchema}, params) {
			h.Set(k, v)
		}
	}
	return h
}
