package search

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/bulkhead-dev/bulkhead/plugins/web/htmltree"
)

// duckduckgo reads the page that DuckDuckGo gives to browsers without scripts, or
// that of anything compatible.
type duckduckgo struct{ base *url.URL }

func (p duckduckgo) request(ctx context.Context, q Query) (*http.Request, error) {
	form := url.Values{"q": {onSite(q)}}
	setIf(form, "df", map[string]string{"day": "d", "week": "w", "month": "m", "year": "y"}[q.Freshness])
	setIf(form, "kp", map[string]string{"off": "-2", "moderate": "-1", "strict": "1"}[q.Safe])
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base.JoinPath("html/").String(), strings.NewReader(form.Encode()))
	if err == nil {
		req.Header.Set("Accept", "text/html")
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req, err
}

// errBots is a page that asks whether a person is there.
var errBots = errors.New("it takes us for a robot and shows a challenge instead of results")

func (duckduckgo) hits(body []byte) ([]Hit, error) {
	root, err := htmltree.Parse(strings.ToValidUTF8(string(body), "\uFFFD"))
	if err != nil {
		return nil, err
	}
	var hits []Hit
	challenge := false
	for n := range root.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case hasClass(n, "anomaly-modal__modal"), attr(n, "id") == "challenge-form":
			challenge = true
		case n.DataAtom == atom.A && hasClass(n, "result__a"):
			if !insideAd(n) {
				hits = append(hits, Hit{Title: text(n), URL: target(attr(n, "href"))})
			}
		case hasClass(n, "result__snippet") && len(hits) > 0 && !insideAd(n):
			hits[len(hits)-1].Snippet = text(n)
		}
	}
	if challenge && len(hits) == 0 {
		return nil, errBots
	}
	return hits, nil
}

// target is where a result leads, without the hop over the engine.
func target(href string) string {
	u, err := url.Parse(href)
	if err != nil {
		return href
	}
	if to := u.Query().Get("uddg"); to != "" {
		return to
	}
	if u.Scheme == "" && u.Host != "" {
		u.Scheme = "https"
	}
	return u.String()
}

func insideAd(n *html.Node) bool {
	for ; n != nil; n = n.Parent {
		if hasClass(n, "result--ad") {
			return true
		}
	}
	return false
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func hasClass(n *html.Node, class string) bool {
	return n.Type == html.ElementNode && slices.Contains(strings.Fields(attr(n, "class")), class)
}

func text(n *html.Node) string {
	var out strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			out.WriteString(d.Data)
		}
	}
	return html.EscapeString(out.String()) // clean reads it again
}
