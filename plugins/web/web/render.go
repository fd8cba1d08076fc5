package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// headless asks the browser plugin for pages, if there is one.
type headless struct {
	host    *sdk.Host
	work    *workshop
	timeout time.Duration
}

// noBrowser is what a result says where pages are not rendered at all.
const noBrowser = "Headless rendering is not available in this deployment."

// page renders one page. why is empty on success, else a sentence for the model.
func (h headless) page(ctx context.Context, u *url.URL) (doc document, at *url.URL, why string) {
	args, err := json.Marshal(map[string]any{"url": u.String(), "timeout_ms": h.timeout.Milliseconds()})
	if err != nil {
		return doc, nil, noBrowser
	}
	r, err := h.host.CallTool(ctx, "browser_render", args, h.timeout+10*time.Second)
	if err == nil && r.Error != nil {
		err = r.Error
	}
	switch code := sdk.CodeOf(err); {
	case err == nil && r.IsError:
		return doc, nil, "Headless rendering also failed: " + oneLine(r.Text())
	case err == nil:
	case code == sdk.ToolNotFound, code == sdk.Denied:
		return doc, nil, noBrowser
	default:
		return doc, nil, "Headless rendering also failed: " + oneLine(err.Error())
	}
	var got struct {
		FinalURL string   `json:"final_url"`
		Status   int      `json:"status"`
		HTML     string   `json:"html"`
		Title    string   `json:"title"`
		Blocked  []string `json:"blocked_requests"`
		Cut      bool     `json:"cut"`
	}
	if err := json.Unmarshal(r.Structured, &got); err != nil {
		return doc, nil, "Headless rendering also failed: its answer can't be read."
	}
	at, err = url.Parse(got.FinalURL)
	if err != nil || (at.Scheme != "http" && at.Scheme != "https") {
		return doc, nil, "Headless rendering also failed: the page could not be opened."
	}
	if got.Status >= http.StatusBadRequest {
		return doc, nil, fmt.Sprintf("Headless rendering also failed: the page answered it with status %d.", got.Status)
	}
	if doc, err = h.work.html(ctx, got.HTML, at); err != nil {
		return doc, nil, "Headless rendering also failed: " + err.Error()
	}
	if got.Cut {
		doc.note = "the rendered page is longer than what can be passed on; this is its beginning"
	}
	if doc.title == "" {
		doc.title = oneLine(got.Title)
	}
	return doc, at, ""
}
