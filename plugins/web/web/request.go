package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	maxHeaders   = 64      // of a request of the caller's
	maxSent      = 1 << 20 // bytes of its body
	maxRequestMs = 60_000  // that a caller may give it
)

type requestArgs struct {
	Method    string `json:"method,omitempty" doc:"GET by default." jsonschema:"enum=GET,enum=HEAD,enum=POST,enum=PUT,enum=PATCH,enum=DELETE,enum=OPTIONS"`
	URL       string `json:"url" doc:"Address, http:// or https://."`
	Headers   string `json:"headers,omitempty" doc:"Request headers, as JSON: an object of strings such as {\"Accept\": \"text/plain\"}."`
	Body      string `json:"body,omitempty" doc:"Body, as text. Name its type in the header Content-Type; JSON is assumed when it is JSON."`
	TimeoutMs int    `json:"timeout_ms,omitempty" doc:"Time for the whole exchange, at most 60000."`
	Stay      bool   `json:"no_redirects,omitempty" doc:"Give a redirect itself instead of following it."`
}

// answer is the structured half of http_request's result.
type answer struct {
	Status   int               `json:"status"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Body     string            `json:"body,omitempty"`
	TookMs   int64             `json:"took_ms"`
	Cut      bool              `json:"cut,omitempty"`
	BodySize int               `json:"body_bytes"`
}

func (b *browser) requestTool() *sdk.Tool {
	return sdk.NewTool("http_request",
		"Sends any HTTP request and gives status, headers and body as they come. To read a page, web_browse is better.",
		b.request,
		sdk.WithTitle("HTTP request"),
		sdk.WithTier(sdk.Elevated), sdk.WithGroup("research"), sdk.WithSource("web"),
		sdk.WithTimeout(75*time.Second), sdk.Destructive(true), sdk.OpenWorld(),
	)
}

// build makes the request of a call, with what a caller may set.
func (in *requestArgs) build(ctx context.Context, u *url.URL, agent string) (*http.Request, error) {
	method := strings.ToUpper(strings.TrimSpace(in.Method))
	if method == "" {
		method = http.MethodGet
	}
	if !slices.Contains(methods, method) {
		return nil, sdk.Errorf(sdk.InvalidArguments, "the method %q is not sent; %s are", method, strings.Join(methods, ", "))
	}
	if len(in.Body) > maxSent {
		return nil, sdk.Errorf(sdk.InvalidArguments, "the body has %d bytes; %d are allowed", len(in.Body), maxSent)
	}
	headers := map[string]string{}
	if err := json.Unmarshal([]byte(in.Headers), &headers); err != nil && strings.TrimSpace(in.Headers) != "" {
		return nil, sdk.Errorf(sdk.InvalidArguments, `headers are a JSON object of strings such as {"Accept": "text/plain"}: %w`, err)
	}
	if len(headers) > maxHeaders {
		return nil, sdk.Errorf(sdk.InvalidArguments, "%d headers are too many; %d are allowed", len(headers), maxHeaders)
	}
	var body io.Reader
	if in.Body != "" {
		body = strings.NewReader(in.Body)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, sdk.Errorf(sdk.InvalidArguments, "%w", err)
	}
	req.Header.Set("User-Agent", agent)
	if in.Body != "" && json.Valid([]byte(in.Body)) {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))
		switch {
		case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			return nil, sdk.Errorf(sdk.InvalidArguments, "%q is no header that can be sent", name)
		case ofTheConnection[name] || strings.HasPrefix(name, "Proxy-"):
			return nil, sdk.Errorf(sdk.InvalidArguments, "the header %s belongs to the connection and can't be set", name)
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}

// ofTheConnection are headers by which a request could be more than one, or go
// elsewhere than its address says.
var ofTheConnection = map[string]bool{"Host": true, "Connection": true, "Content-Length": true, "Transfer-Encoding": true,
	"Te": true, "Trailer": true, "Upgrade": true, "Keep-Alive": true, "Expect": true}

func (b *browser) request(ctx context.Context, _ *sdk.Call, in requestArgs) (sdk.Result, error) {
	u, err := parseURL(in.URL)
	if err != nil {
		return sdk.Result{}, err
	}
	f := b.fetch.Load()
	timeout := f.timeout
	if in.TimeoutMs > 0 {
		timeout = time.Duration(min(in.TimeoutMs, maxRequestMs)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := in.build(ctx, u, f.userAgent)
	if err != nil {
		return sdk.Result{}, err
	}
	begun := time.Now()
	resp, err := f.withoutSecrets(in.Stay).Do(req)
	if err != nil {
		return sdk.Result{}, f.explainWithin(ctx, u, err, timeout)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, f.max+1))
	out := answer{Status: resp.StatusCode, URL: resp.Request.URL.Redacted(), Headers: map[string]string{}}
	if int64(len(raw)) > f.max {
		raw, out.Cut = raw[:f.max], true
	} else if err != nil {
		return sdk.Result{}, f.explainWithin(ctx, u, err, timeout)
	}
	out.TookMs, out.BodySize = time.Since(begun).Milliseconds(), len(raw)
	var text strings.Builder
	fmt.Fprintf(&text, "HTTP %s\n", resp.Status)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		value := strings.ToValidUTF8(strings.Join(resp.Header[name], ", "), "\uFFFD")
		out.Headers[name] = value
		fmt.Fprintf(&text, "%s: %s\n", name, value)
	}
	switch k, media := classify(resp.Header.Get("Content-Type"), raw); {
	case len(raw) == 0:
	case k == plain, k == markup:
		out.Body = shorten(toUTF8(resp.Header.Get("Content-Type"), raw, k == markup))
		text.WriteString("\n" + out.Body + "\n")
	default:
		fmt.Fprintf(&text, "\n(%d bytes of %s, which is no text)\n", len(raw), media)
	}
	if out.Cut {
		fmt.Fprintf(&text, "\n[cut: the body is larger than max_page_size, %d bytes]\n", f.max)
	}
	structured, err := content(out)
	if err != nil {
		return sdk.Result{}, err
	}
	result := sdk.TextResult(text.String()).WithChunk(hint(u, b.conf.Get()))
	result.Structured = structured
	return result, nil
}

// content is v as JSON that is small enough to stand beside the text.
func content(v answer) (json.RawMessage, error) {
	if len(v.Body) > maxText/4 {
		v.Body = "" // it is in the text
	}
	return json.Marshal(v)
}

// withoutSecrets is the client for requests with headers of the caller's: what he
// meant for one host does not go on to another.
func (f *fetcher) withoutSecrets(stay bool) *http.Client {
	c := *f.client
	follow := c.CheckRedirect
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if stay {
			return http.ErrUseLastResponse
		}
		first := via[0].URL
		if req.URL.Host != first.Host || (first.Scheme == "https" && req.URL.Scheme != "https") {
			req.Header = http.Header{"User-Agent": req.Header["User-Agent"]}
			req.Body, req.GetBody, req.ContentLength = nil, nil, 0
			if req.Method != http.MethodGet && req.Method != http.MethodHead {
				return sdk.Errorf(sdk.ExecutionFailed, "it redirects a %s to another host, %s; send it there yourself if that is right", req.Method, req.URL.Host)
			}
		}
		return follow(req, via)
	}
	return &c
}
