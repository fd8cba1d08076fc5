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

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/hide"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/inline"
)

const (
	maxErrorBody = 1 << 20
	dialTime     = 10 * time.Second
)

// httpClient is what all requests to the target go through; free closes what it
// keeps open.
func (t *Target) httpClient(f *flow) (client *http.Client, trip *tripper, free func()) {
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
	trip = &tripper{base: direct, headers: t.Headers, flow: f, hide: t.hide}
	client = &http.Client{
		Transport: trip,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			first := via[0].URL
			if req.URL.Scheme == first.Scheme && req.URL.Host == first.Host {
				if len(via) > 3 {
					return fmt.Errorf("the server redirects %d times and more, the last time to %s; name the address it ends at in url", len(via), clip(req.URL.Path, 200))
				}
				return nil
			}
			return fmt.Errorf("the server redirects to %s://%s; name that address in url if it is the right one", req.URL.Scheme, req.URL.Host)
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
	flow    *flow
	hide    *hide.Values
	sse     bool // the first event of a stream names where to send
}

func (t *tripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if resp := receivedFor(req); resp != nil {
		return resp, nil
	}
	if t.flow.anyOpen() && isAnswer(req) {
		defer t.flow.answered()
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
		if !streams {
			resp.Body = &bounded{ReadCloser: resp.Body, left: maxMessage}
			return whole(resp)
		}
		stream := newEvents(resp.Body, t.flow, !t.sse)
		if t.sse && req.Method == http.MethodGet {
			stream.first = endpoint(req.URL)
		}
		resp.Body = stream
		return resp, nil
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		defer resp.Body.Close()
		return nil, &AuthError{Status: resp.StatusCode, Metadata: t.hide.Text(resourceMetadata(resp.Header))}
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
	var body bytes.Buffer
	body.Grow(int(min(max(resp.ContentLength, 0), 64<<10)) + bytes.MinRead)
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return nil, err
	}
	raw := body.Bytes()
	if out, odd := orderly(raw, ofOurs); odd {
		raw, resp.ContentLength = out, int64(len(out))
	}
	resp.Body = &wholeBody{*bytes.NewReader(raw), raw}
	return resp, nil
}

// wholeBody is a body that is there.
type wholeBody struct {
	bytes.Reader
	raw []byte
}

func (*wholeBody) Close() error { return nil }

// bodyOf is all of an answer's body.
func bodyOf(resp *http.Response) ([]byte, error) {
	if b, ok := resp.Body.(*wholeBody); ok {
		return b.raw, nil
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// isAnswer reports whether a POST answers a request of the server. Ours have short
// ids, so their method stands at the front.
func isAnswer(req *http.Request) bool {
	if req.Method != http.MethodPost || req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	var front [128]byte
	n, _ := io.ReadFull(body, front[:]) // a short one is read whole
	return !bytes.Contains(front[:n], []byte(`"method":`))
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
	case session && (resp.StatusCode == http.StatusNotFound || (resp.StatusCode == http.StatusBadRequest && (anonymous || !isRPC) && ofSession(body))):
		// Refused before it was looked at: the session is not known. Some servers say
		// so by 400, which may mean anything else too.
		answer.StatusCode = http.StatusNotFound
		return &answer, nil
	case isRPC && !anonymous:
		answer.StatusCode = http.StatusOK
		answer.Header = answer.Header.Clone()
		answer.Header.Set("Content-Type", "application/json")
		return &answer, nil
	}
	status := &StatusError{Status: resp.StatusCode, Body: clip(t.hide.Text(strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD"))), 300)}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && s < 3600 {
		status.RetryAfter = time.Duration(s) * time.Second
	}
	return nil, status
}

// ofSession reports whether a refusal speaks of the session.
func ofSession(body []byte) bool { return bytes.Contains(bytes.ToLower(body), []byte("session")) }

// resourceMetadata is the address in a WWW-Authenticate header.
func resourceMetadata(h http.Header) string {
	_, after, ok := strings.Cut(h.Get("WWW-Authenticate"), `resource_metadata="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(after, `"`)
	return clip(value, 300)
}

// bounded ends a body that has no end.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, errTooLong
	}
	return n, err
}

// endpoint refuses a stream whose first event sends the client to another host. The
// library only waits then.
func endpoint(base *url.URL) func([]byte) error {
	return func(event []byte) error {
		var kind, data string
		for line := range strings.SplitSeq(string(event), "\n") {
			if v, ok := strings.CutPrefix(line, "event:"); ok {
				kind = strings.TrimSpace(v)
			}
			if v, ok := strings.CutPrefix(line, "data:"); ok {
				data = strings.TrimSpace(v)
			}
		}
		if kind != "endpoint" {
			return nil
		}
		at, err := base.Parse(data)
		if err != nil {
			return errors.New("the server names an endpoint that is no address")
		}
		if at.Host != base.Host {
			return fmt.Errorf("the server sends its clients to %s, another host than %s; that is not followed", clip(at.Host, 200), base.Host)
		}
		return nil
	}
}

// streamable makes a transport for Streamable HTTP.
func (t *Target) streamable(f *flow) (*transport.StreamableHTTP, *poster, func(), error) {
	client, trip, free := t.httpClient(f)
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
func (t *Target) sse(f *flow) (*transport.SSE, func(), error) {
	client, trip, free := t.httpClient(f)
	trip.sse = true
	tr, err := transport.NewSSE(t.URL, transport.WithHTTPClient(client), transport.WithSSELogger(quiet(t.Log)),
		transport.WithResponseTimeout(t.CallTimeout+time.Minute))
	return tr, free, err
}

// headersFor are the HTTP headers a request of the newer revision repeats its own
// content in.
func headersFor(version, method string, params json.RawMessage, tool *Tool) http.Header {
	h := http.Header{}
	if tool != nil && method == string(mcp.MethodToolsCall) && mcp.RequiresStandardHeaders(version) {
		// What the library reads out of the parameters is known here.
		h.Set(mcp.HeaderMethod, method)
		if name, ok := mcp.EncodeHeaderValue(tool.Name); ok {
			h.Set(mcp.HeaderName, name)
		}
	} else {
		for k, v := range mcp.StandardHeaders(version, mcp.MCPMethod(method), params) {
			h.Set(k, v)
		}
	}
	taskHeader(h, method, params)
	if tool != nil && bytes.Contains(tool.InputSchema, []byte("x-mcp-header")) {
		for k, v := range mcp.GenerateParamHeaders(&mcp.Tool{Name: tool.Name, RawInputSchema: tool.InputSchema}, params) {
			h.Set(k, v)
		}
	}
	return h
}
