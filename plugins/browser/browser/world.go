package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/css"
	"github.com/chromedp/cdproto/dom"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

//go:embed page.js
var pageState string

//go:embed read.js
var readPage string

//go:embed consent.js
var clickConsent string

// ask runs a script of ours on the page, in a world of its own: it sees the page's
// elements, but no function that the page's scripts have put in place of another.
func ask[T any](tab context.Context, script string) (T, error) {
	world, err := chromedp.Call(tab, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{
		FrameID: cdp.FrameID(chromedp.FromContext(tab).Target.TargetID), WorldName: "bulkhead"})
	if err != nil {
		var none T
		return none, err
	}
	return chromedp.Run(tab, chromedp.Evaluate[T](script, func(p *runtime.EvaluateParams) { p.ContextID = world.ExecutionContextID }))
}

// hush ends the events that nobody here listens to: a page decides how many they
// are, and how long what it writes into its console is.
func hush(tab context.Context) error {
	for _, off := range []cdp.Command[cdp.Empty, cdp.Empty]{css.Disable, dom.Disable, cdplog.Disable, runtime.Disable} {
		if _, err := chromedp.Call(tab, off, cdp.Empty{}); err != nil {
			return err
		}
	}
	return nil
}

// read takes the page as it stands, down to what fits into a message.
func (out *rendered) read(tab context.Context, asked *url.URL) error {
	got, err := ask[struct {
		URL, Title, HTML string
		Cut              bool
	}](tab, fmt.Sprintf("%s(%d)", strings.TrimSpace(readPage), maxHTML))
	if err != nil {
		return err
	}
	out.FinalURL, out.Title = shortURL(valid(got.URL), asked), valid(got.Title)
	out.HTML, out.Cut = valid(got.HTML), got.Cut
	return nil
}

// there says whether an element is on the page.
func (o order) there(tab context.Context, selector string) (bool, error) {
	quoted, err := json.Marshal(selector)
	if err != nil {
		return false, err
	}
	found, err := ask[bool](tab, "!!Document.prototype.querySelector.call(document, "+string(quoted)+")")
	if thrown := (*chromedp.ExceptionError)(nil); errors.As(err, &thrown) {
		return false, sdk.Errorf(sdk.InvalidArguments, "wait %q is neither load nor idle, and no CSS selector: %s", brief(o.wait), brief(thrown.Error()))
	} else if err != nil && tab.Err() != nil {
		return false, err
	}
	return found, nil // between two documents nothing is there
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// brief is the beginning of what others worded.
func brief(s string) string {
	if r := []rune(valid(s)); len(r) > maxBrief {
		return string(r[:maxBrief]) + "…"
	}
	return valid(s)
}

// shortURL is a page's address without what makes it too long, else the one that
// was asked for.
func shortURL(text string, asked *url.URL) string {
	for _, mark := range []string{"#", "?"} {
		if len(text) <= maxURL {
			return text
		}
		text, _, _ = strings.Cut(text, mark)
	}
	if len(text) > maxURL {
		return asked.String()
	}
	return text
}
