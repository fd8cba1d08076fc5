package browser

import (
	"strings"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"

	"github.com/bulkhead-dev/bulkhead/plugins/browser/proxy"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// maxAnswers is how many documents of a page are remembered.
const maxAnswers = 32

// visit is where a tab is: a page may go on to another address whenever it likes,
// and what is read then is that one's.
type visit struct {
	frame cdp.FrameID // the tab's own, around all others

	mu      sync.Mutex
	answers map[cdp.LoaderID]answer
	order   []cdp.LoaderID
	at      cdp.LoaderID // of the document that is shown
	lost    string       // the address, where an error page is shown
}

// answer is what came for one document.
type answer struct {
	status int64
	fault  string // why none came; in the browser's words, or in ours
}

func newVisit(frame cdp.FrameID) *visit {
	return &visit{frame: frame, answers: map[cdp.LoaderID]answer{}}
}

// hear takes the tab's events.
func (v *visit) hear(event any) {
	switch e := event.(type) {
	case *network.EventResponseReceived:
		if e.Type == network.ResourceTypeDocument && e.FrameID == v.frame && e.Response != nil {
			a := answer{status: e.Response.Status}
			if why, ok := e.Response.Headers[proxy.RefusedHeader].(string); ok && strings.HasPrefix(e.Response.URL, "http:") && !e.Response.FromServiceWorker {
				a.fault = why
			}
			v.note(e.LoaderID, a)
		}
	case *network.EventLoadingFailed:
		if e.Type == network.ResourceTypeDocument {
			v.note(cdp.LoaderID(e.RequestID), answer{fault: e.ErrorText})
		}
	case *page.EventFrameNavigated:
		if f := e.Frame; f != nil && f.ID == v.frame {
			v.mu.Lock()
			v.at, v.lost = f.LoaderID, f.UnreachableURL
			v.mu.Unlock()
		}
	}
}

func (v *visit) note(id cdp.LoaderID, a answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.answers[id]; !known {
		if v.order = append(v.order, id); len(v.order) > maxAnswers {
			delete(v.answers, v.order[0])
			v.order = v.order[1:]
		}
	} else if a.status == 0 {
		a.status = v.answers[id].status // a body that broke off
	}
	v.answers[id] = a
}

// status is that of the document that is shown, 0 where none is known. The error
// says that it is not what the page's address holds, but a word of the browser's
// or of our proxy's.
func (v *visit) status(at string) (int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.answers[v.at]
	switch {
	case v.lost != "":
		at = v.lost
		if a.fault == "" {
			a.fault = "it could not be opened"
		}
	case a.status == 0 || a.fault == "" || !refusedByUs(a):
		return a.status, nil
	}
	return 0, sdk.Errorf(sdk.ExecutionFailed, "the browser could not open %s: %s", brief(at), brief(a.fault))
}

// refusedByUs tells the proxy's word from that of the browser about a body that
// broke off, of which the beginning is shown.
func refusedByUs(a answer) bool { return !strings.HasPrefix(a.fault, "net::") }
