package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

const (
	maxRendered = 16 << 20        // bytes of a render service's answer
	healthTime  = 3 * time.Second // for its word that it is there
)

// sidecar is a render service of the operator's, outside of the host.
type sidecar struct {
	base   *url.URL
	pages  *netguard.Guard // of what it is asked to open
	client *http.Client
}

// newSidecar gives nil without an address. The service may be private, for the
// operator wrote it; the pages it is asked for, and where it says they led, pass
// the plugin's guard, and what is on them is the service's own to guard.
func newSidecar(address string, pages *netguard.Guard) (*sidecar, error) {
	if address == "" {
		return nil, nil
	}
	base, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	guard, err := netguard.New(nil)
	if err != nil {
		return nil, err
	}
	guard.Admit(net.JoinHostPort(base.Hostname(), portOf(base)))
	return &sidecar{base, pages, &http.Client{
		Transport:     &http.Transport{DialContext: guard.Dial, MaxIdleConns: 4, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (s *sidecar) close() {
	if s != nil {
		s.client.CloseIdleConnections()
	}
}

// render asks for one page.
func (s *sidecar) render(ctx context.Context, u *url.URL, timeout time.Duration) (page renderedPage, err error) {
	if err := s.check(ctx, u); err != nil {
		return page, err
	}
	ask, err := json.Marshal(map[string]any{"url": u.String(), "timeoutMs": timeout.Milliseconds()})
	if err != nil {
		return page, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+5*time.Second) // it may say itself that time is up
	defer cancel()
	body, err := s.ask(ctx, http.MethodPost, "render", ask)
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return page, fmt.Errorf("the answer of the render service can't be read: %w", err)
	}
	// It need not say where it landed.
	page.FinalURL = cmp.Or(page.FinalURL, page.FinalURL2, u.String())
	landed, err := url.Parse(page.FinalURL)
	if err != nil {
		return page, errors.New("the render service landed at an address that is none")
	}
	return page, s.check(ctx, landed)
}

func (s *sidecar) check(ctx context.Context, u *url.URL) error {
	if err := checkURL(u); err != nil {
		return err
	}
	return s.pages.CheckTarget(ctx, u.Hostname(), portOf(u))
}

// health is what is wrong with the service, if anything.
func (s *sidecar) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	_, err := s.ask(ctx, http.MethodGet, "health", nil)
	return err
}

func (s *sidecar) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("the render service at %s: %w", s.base.Host, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxRendered+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the render service at %s: %w", s.base.Host, err)
	case len(got) > maxRendered:
		return nil, fmt.Errorf("the render service at %s sends more than %d bytes", s.base.Host, maxRendered)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		said := ""
		if k, _ := classify(resp.Header.Get("Content-Type"), got); k == plain {
			said = ": " + oneLine(clean(got))
		}
		return nil, fmt.Errorf("the render service at %s answered %d%s", s.base.Host, resp.StatusCode, said)
	}
	return got, nil
}

// state of the plugin: it works without its render service or its cache, but less well.
func (b *browser) state(ctx context.Context) sdk.Health {
	if f := b.fetch.Load(); f != nil && f.uncached != nil {
		return sdk.Health{Degraded: true, Detail: "the folder of the page cache can't be used, so no copies are kept: " + oneLine(f.uncached.Error())}
	}
	s := b.sidecar.Load()
	if s == nil {
		return sdk.Health{}
	}
	if err := s.health(ctx); err != nil {
		return sdk.Health{Degraded: true, Detail: oneLine(err.Error()) + "; pages that scripts build are not read (render_service_url)"}
	}
	return sdk.Health{}
}
