package browser

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	settled   = 500 * time.Millisecond // without a change: the page stands
	look      = 100 * time.Millisecond // between two looks at it
	maxHTML   = 2 << 20                // characters of a page's HTML
	maxPacked = 3 << 20                // bytes of a page as JSON
	maxURL    = 8 << 10                // bytes of an address
	maxBrief  = 500                    // characters of what others worded, in an error
	maxHeight = 16_000                 // pixels of a screenshot
	maxWidth  = 4_000                  // likewise
	maxPixels = 24_000_000             // of one in all
	closeTime = 4 * time.Second        // for a page to be gone; chromedp gives up after five
)

// order is one page to render.
type order struct {
	url        *url.URL
	timeout    time.Duration
	wait       string // load, idle, or a CSS selector
	screenshot bool
	fullPage   bool
}

// rendered is what came of it.
type rendered struct {
	FinalURL  string   `json:"final_url"`
	Status    int64    `json:"status"`
	Title     string   `json:"title"`
	HTML      string   `json:"html"`
	Blocked   []string `json:"blocked_requests"`
	Shot      string   `json:"screenshot_path,omitempty"`
	Unsettled bool     `json:"unsettled,omitempty"` // it was still changing when time was up
	Cut       bool     `json:"cut,omitempty"`       // there was more HTML
	Consent   string   `json:"consent_clicked,omitempty"`
	png       []byte
}

// parseURL reads the address of a page.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil:
		return nil, sdk.Errorf(sdk.InvalidArguments, "%q is not a web address", brief(text))
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, sdk.Errorf(sdk.InvalidArguments, "only http:// and https:// addresses are rendered, not %q", u.Scheme+":")
	case u.User != nil:
		return nil, sdk.Errorf(sdk.InvalidArguments, "an address with a user name or password in it is not rendered")
	case u.Hostname() == "":
		return nil, sdk.Errorf(sdk.InvalidArguments, "the address names no host")
	case len(u.String()) > maxURL:
		return nil, sdk.Errorf(sdk.InvalidArguments, "the address has %d bytes; %d are the most", len(u.String()), maxURL)
	}
	return u, nil
}

// render opens a page, lets it settle, clicks its consent banner away, and reads it.
func (s *stable) render(ctx context.Context, o order) (out rendered, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	b, release, err := s.take(ctx)
	if err != nil {
		return out, s.explain(ctx, nil, o, err)
	}
	how := fine
	defer func() { release(how) }()

	server, tag := b.Page()
	traffic := s.proxy.Open(tag, s.set.PageBytes.Bytes())
	defer s.proxy.End(traffic)
	tab, closeTab := chromedp.NewContext(b.Context, chromedp.WithNewBrowserContext(func(p *target.CreateBrowserContextParams) {
		p.ProxyServer, p.ProxyBypassList = server, "<-loopback>"
	}))
	stop := context.AfterFunc(ctx, closeTab) // the call's end is the page's
	defer func() {
		stop()
		if !ended(closeTab) {
			how = broken
			s.examine(b)
		}
	}()
	var crashed atomic.Bool
	err = out.fill(tab, o, func() {
		crashed.Store(true)
		go closeTab() // its commands would wait for answers
	})
	out.Blocked = append([]string{}, traffic.Refused()...)
	if traffic.Over() {
		return out, sdk.Errorf(sdk.TooLarge, "the page moved more than %s over the network (page_bytes)", s.set.PageBytes)
	}
	if err == nil {
		return out, nil
	}
	if crashed.Load() {
		return out, sdk.Errorf(sdk.ExecutionFailed, "%s crashed the page that the browser opened for it", o.url.Redacted())
	}
	if ctx.Err() != nil {
		how = tardy
	}
	s.examine(b)
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-b.Done():
	case <-b.Lost():
		select { // its end follows at once
		case <-b.Done():
		case <-timer.C:
		}
	default:
	}
	return out, s.explain(ctx, b, o, err)
}

// pack is the page as JSON that fits into a message; the HTML is cut until it does,
// since all else is bounded.
func (out rendered) pack() (json.RawMessage, error) {
	for {
		raw, err := json.Marshal(out)
		if err != nil || len(raw) <= maxPacked {
			return raw, err
		}
		if out.HTML == "" {
			return nil, sdk.Errorf(sdk.TooLarge, "what is known of the page has %d bytes without its HTML", len(raw))
		}
		out.Cut = true
		out.HTML = strings.ToValidUTF8(out.HTML[:len(out.HTML)*3/4], "")
	}
}

// ended closes a page and says whether that worked in time.
func ended(closeTab context.CancelFunc) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		closeTab()
	}()
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// explain words what went wrong, for a model.
func (s *stable) explain(ctx context.Context, b *stall, o order, err error) error {
	var own *sdk.Error
	var load *chromedp.LoadError
	switch {
	case errors.As(err, &own):
		return own
	case b != nil && b.hung.Load():
		return sdk.Errorf(sdk.Unavailable, "the browser stopped answering while it rendered %s, and was ended; the next call starts a new one", o.url.Redacted()).After(0)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return sdk.Errorf(sdk.Timeout, "%s was not rendered within %s", o.url.Redacted(), o.timeout).After(0)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if b != nil {
		select {
		case <-b.Done():
			return sdk.Errorf(sdk.Unavailable, "the browser ended while it rendered %s; the next call starts a new one", o.url.Redacted()).After(0)
		default:
		}
	}
	if errors.As(err, &load) {
		return sdk.Errorf(sdk.ExecutionFailed, "the browser could not open %s: %s", o.url.Redacted(), brief(load.Error()))
	}
	return sdk.Errorf(sdk.ExecutionFailed, "%s was not rendered: %s", o.url.Redacted(), brief(err.Error()))
}

// fill opens the page in the tab and reads it. crash is called when the page's
// process ends.
func (out *rendered) fill(tab context.Context, o order, crash func()) error {
	// The first command makes the tab.
	if _, err := chromedp.Call(tab, page.Enable, page.EnableParams{}); err != nil {
		return err
	}
	id := chromedp.FromContext(tab).BrowserContextID
	if _, err := chromedp.CallBrowser(tab, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{Behavior: cdpbrowser.SetDownloadBehaviorBehaviorDeny, BrowserContextID: id}); err != nil {
		return err
	}
	if err := hush(tab); err != nil {
		return err
	}
	v := newVisit(cdp.FrameID(chromedp.FromContext(tab).Target.TargetID))
	if err := chromedp.Listen(tab, func(event any) {
		v.hear(event)
		switch event.(type) {
		case *inspector.EventTargetCrashed:
			crash()
		case *page.EventJavascriptDialogOpening:
			go func() { // a dialog holds up the page until somebody answers
				_, _ = chromedp.Call(tab, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: false}) // gone with the page
			}()
		}
	}); err != nil {
		return err
	}
	if _, err := chromedp.Run(tab, chromedp.NavigateResponse(o.url.String())); err != nil {
		return err
	}
	if err := out.settle(tab, o); err != nil {
		return err
	}
	var err error
	if out.Consent, err = ask[string](tab, clickConsent); err != nil {
		out.Consent = "" // a page that goes on meanwhile is read as it is
	}
	if out.Consent != "" {
		if err := out.settle(tab, o); err != nil {
			return err
		}
	}
	if err := out.read(tab, o.url); err != nil {
		return err
	}
	if out.Status, err = v.status(out.FinalURL); err != nil || !o.screenshot {
		return err
	}
	if err := out.shoot(tab, o.fullPage); err != nil {
		return err
	}
	_, err = v.status(out.FinalURL) // it may have gone on in between
	return err
}

// settle waits until what the order waits for is there and the page stands still,
// at most half of the time there is: a page that never rests is read as it is.
func (out *rendered) settle(tab context.Context, o order) error {
	limit := time.Now().Add(o.timeout / 2)
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	last, since := "", time.Now()
	for {
		state, err := ask[string](tab, pageState)
		if err != nil && tab.Err() != nil {
			return err
		}
		if err != nil { // between two documents there is nothing to look at
			state = ""
		}
		if state != last || state == "" {
			last, since = state, time.Now()
		}
		ready := strings.HasPrefix(state, "complete")
		if selector := o.selector(); ready && selector != "" {
			if ready, err = o.there(tab, selector); err != nil {
				return err
			}
		}
		if ready && (o.wait == "load" || time.Since(since) >= settled) {
			return nil
		}
		if time.Now().After(limit) {
			out.Unsettled = true
			return nil
		}
		select {
		case <-ticker.C:
		case <-tab.Done():
			return tab.Err()
		}
	}
}

func (o order) selector() string {
	if o.wait == "load" || o.wait == "idle" || o.wait == "" {
		return ""
	}
	return o.wait
}

// shoot takes a picture of the window, or of the whole page down to maxHeight.
func (out *rendered) shoot(tab context.Context, full bool) error {
	p := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}
	if full {
		size, err := chromedp.Call(tab, page.GetLayoutMetrics, cdp.Empty{})
		if err != nil {
			return err
		}
		if c := size.CSSContentSize; c != nil {
			yes := true
			p.CaptureBeyondViewport = &yes
			p.Clip = &page.Viewport{Width: min(max(c.Width, 1), maxWidth), Height: min(max(c.Height, 1), maxHeight), Scale: 1}
			p.Clip.Height = min(p.Clip.Height, maxPixels/p.Clip.Width)
		}
	}
	shot, err := chromedp.Call(tab, page.CaptureScreenshot, p)
	out.png = shot.Data
	return err
}
