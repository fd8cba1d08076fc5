package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

type healthArgs struct {
	URL       string `json:"url" doc:"Address to check, http:// or https://."`
	Status    int    `json:"expected_status,omitempty" doc:"Status that counts as healthy; without it any from 200 to 399."`
	Contains  string `json:"contains,omitempty" doc:"Text that the body must have."`
	TimeoutMs int    `json:"timeout_ms,omitempty" doc:"Time for the check, 10000 by default, at most 60000."`
}

// health is the result of a check; times in milliseconds, 0 where a step was not
// needed. A certificate's days are those it is still valid.
type health struct {
	Healthy   bool   `json:"healthy"`
	Reason    string `json:"reason,omitempty"`
	Status    int    `json:"status,omitempty"`
	URL       string `json:"url"`
	DNSMs     int64  `json:"dns_ms"`
	ConnectMs int64  `json:"connect_ms"`
	TLSMs     int64  `json:"tls_ms"`
	FirstMs   int64  `json:"first_byte_ms"`
	TotalMs   int64  `json:"total_ms"`
	CertDays  *int   `json:"certificate_days,omitempty"`
}

func (b *browser) healthTool() *sdk.Tool {
	return sdk.NewTool("http_health_check",
		"Checks whether an address answers as it should, with the times of name look-up, connection, TLS and first byte, and how long its certificate lasts.",
		b.health,
		sdk.WithTitle("HTTP health check"),
		sdk.WithTier(sdk.Elevated), sdk.WithGroup("research"), sdk.WithSource("web"),
		sdk.WithTimeout(75*time.Second), sdk.ReadOnly(), sdk.OpenWorld(), sdk.WithOutput[health](),
	)
}

// stopwatch notes when the steps of a request happen.
type stopwatch struct{ dns, connect, tls, first step }

type step struct{ from, to time.Time }

func (s step) ms() int64 {
	if s.to.IsZero() || s.from.IsZero() {
		return 0
	}
	return max(s.to.Sub(s.from).Milliseconds(), 0)
}

func (s *stopwatch) trace(begun time.Time) *httptrace.ClientTrace {
	s.first.from = begun
	return &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { s.dns.from = time.Now() },
		DNSDone:              func(httptrace.DNSDoneInfo) { s.dns.to = time.Now() },
		ConnectStart:         func(string, string) { s.connect.from = time.Now() },
		ConnectDone:          func(string, string, error) { s.connect.to = time.Now() },
		TLSHandshakeStart:    func() { s.tls.from = time.Now() },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { s.tls.to = time.Now() },
		GotFirstResponseByte: func() { s.first.to = time.Now() },
	}
}

func (b *browser) health(ctx context.Context, _ *sdk.Call, in healthArgs) (sdk.Result, error) {
	u, err := parseURL(in.URL)
	if err != nil {
		return sdk.Result{}, err
	}
	f := b.fetch.Load()
	timeout := 10 * time.Second
	if in.TimeoutMs > 0 {
		timeout = time.Duration(min(in.TimeoutMs, maxRequestMs)) * time.Millisecond
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := f.check(within, u, in, timeout)
	if err != nil {
		if code := sdk.CodeOf(err); code == sdk.Denied || code == sdk.InvalidArguments || ctx.Err() != nil {
			return sdk.Result{}, err
		}
		out.Reason = strings.TrimPrefix(err.Error(), fetchFailed) // which is the answer
	}
	out.Healthy = out.Reason == ""
	result, err := sdk.JSON(out)
	if err != nil {
		return sdk.Result{}, err
	}
	state := "healthy"
	if !out.Healthy {
		state = "NOT healthy: " + out.Reason
	}
	text := fmt.Sprintf("%s is %s.\nstatus %d, total %d ms (name %d, connection %d, TLS %d, first byte %d)", out.URL, state, out.Status, out.TotalMs, out.DNSMs, out.ConnectMs, out.TLSMs, out.FirstMs)
	if out.CertDays != nil {
		text += fmt.Sprintf(", certificate valid for %d more days", *out.CertDays)
	}
	result.Content = []sdk.Content{sdk.Text(text)}
	return result, nil
}

// check sends one request on a connection of its own.
func (f *fetcher) check(ctx context.Context, u *url.URL, in healthArgs, timeout time.Duration) (health, error) {
	var watch stopwatch
	begun := time.Now()
	out := health{URL: u.Redacted()}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, watch.trace(begun)), http.MethodGet, u.String(), nil)
	if err != nil {
		return out, err
	}
	req.Header.Set("User-Agent", f.userAgent)
	req.Close = true
	client := *f.client
	if in.Status >= 300 && in.Status < 400 {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := client.Do(req)
	out.TotalMs = time.Since(begun).Milliseconds()
	if err != nil {
		return out, f.explainWithin(ctx, u, err, timeout)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, f.max))
	out.URL, out.Status, out.TotalMs = resp.Request.URL.Redacted(), resp.StatusCode, time.Since(begun).Milliseconds()
	out.DNSMs, out.ConnectMs, out.TLSMs, out.FirstMs = watch.dns.ms(), watch.connect.ms(), watch.tls.ms(), watch.first.ms()
	if err != nil {
		return out, f.explainWithin(ctx, u, err, timeout)
	}
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		days := int(time.Until(resp.TLS.PeerCertificates[0].NotAfter).Hours() / 24)
		out.CertDays = &days
	}
	switch {
	case in.Status != 0 && resp.StatusCode != in.Status:
		out.Reason = fmt.Sprintf("status %d, not %d", resp.StatusCode, in.Status)
	case in.Status == 0 && resp.StatusCode >= 400:
		out.Reason = fmt.Sprintf("status %d", resp.StatusCode)
	case in.Contains != "" && !strings.Contains(toUTF8(resp.Header.Get("Content-Type"), body, false), in.Contains):
		out.Reason = fmt.Sprintf("the body does not contain %q", in.Contains)
	}
	return out, nil
}

// explainWithin is explain for requests with a time of their own.
func (f *fetcher) explainWithin(ctx context.Context, u *url.URL, err error, timeout time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return sdk.Errorf(sdk.Timeout, "%s%s did not answer completely within %s", fetchFailed, u.Host, timeout).After(0)
	}
	return f.explain(ctx, u, err)
}
