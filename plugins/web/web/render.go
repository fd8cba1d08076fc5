package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// headless has pages rendered: by the operator's render service, if there is one,
// else by the browser plugin.
type headless struct {
	service *sidecar // nil = none
	host    *sdk.Host
	work    *workshop
	timeout time.Duration
}

// noBrowser is what a result says where pages are not rendered at all.
const noBrowser = "Headless rendering is not available in this deployment."

// renderedShell is what it says where a browser did not find more.
const renderedShell = "Rendered in a headless browser it has no text of its own either."

// failedToo begins what a result says where rendering did not help.
const failedToo = "Headless rendering also failed: "

// renderedPage is what either gives, in the words of the one or the other.
type renderedPage struct {
	FinalURL  string `json:"final_url"`
	FinalURL2 string `json:"finalUrl"`
	Status    int    `json:"status"`
	HTML      string `json:"html"`
	Title     string `json:"title"`
	Cut       bool   `json:"cut"`
}

// errNoBrowser is that nothing renders pages here.
var errNoBrowser = errors.New("there is no browser")

// page renders one page. why is empty on success, else a sentence for the model.
func (h headless) page(ctx context.Context, u *url.URL) (doc document, at *url.URL, why string) {
	got, err := h.render(ctx, u)
	switch {
	case errors.Is(err, errNoBrowser):
		return doc, nil, noBrowser
	case err != nil:
		return doc, nil, failedToo + oneLine(err.Error())
	case got.Status >= http.StatusBadRequest:
		return doc, nil, fmt.Sprintf("%sthe page answered it with status %d.", failedToo, got.Status)
	}
	at, err = url.Parse(got.FinalURL)
	if err != nil || (at.Scheme != "http" && at.Scheme != "https") {
		return doc, nil, failedToo + "the page could not be opened."
	}
	if doc, err = h.work.html(ctx, got.HTML, at); err != nil {
		return doc, nil, failedToo + err.Error()
	}
	if got.Cut {
		doc.note = "the rendered page is longer than what can be passed on; this is its beginning"
	}
	if doc.title == "" {
		doc.title = oneLine(got.Title)
	}
	return doc, at, ""
}

func (h headless) render(ctx context.Context, u *url.URL) (page renderedPage, err error) {
	if h.service != nil {
		return h.service.render(ctx, u, h.timeout)
	}
	args, err := json.Marshal(map[string]any{"url": u.String(), "timeout_ms": h.timeout.Milliseconds()})
	if err != nil {
		return page, err
	}
	r, err := h.host.CallTool(ctx, "browser_render", args, h.timeout+10*time.Second)
	if err == nil && r.Error != nil {
		err = r.Error
	}
	switch code := sdk.CodeOf(err); {
	case err == nil && r.IsError:
		return page, errors.New(r.Text())
	case err == nil:
	case code == sdk.ToolNotFound, code == sdk.Denied:
		return page, errNoBrowser
	default:
		return page, err
	}
	if err := json.Unmarshal(r.Structured, &page); err != nil {
		return page, errors.New("its answer can't be read")
	}
	return page, nil
}
