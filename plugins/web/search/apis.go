package search

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
)

// get builds a GET request for a JSON answer.
func get(ctx context.Context, base *url.URL, path string, query url.Values) (*http.Request, error) {
	u := base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err == nil {
		req.Header.Set("Accept", "application/json")
	}
	return req, err
}

// onSite adds a site to a query for engines that know it as an operator only.
func onSite(q Query) string {
	if q.Site == "" {
		return q.Text
	}
	return q.Text + " site:" + q.Site
}

func setIf(v url.Values, key, value string) {
	if value != "" {
		v.Set(key, value)
	}
}

// list is an answer's results, each read by itself: one that is not as its
// provider describes it costs itself, or its snippet, and not the others.
type list []json.RawMessage

func (l list) hits(address, snippet string) []Hit {
	var hits []Hit
	for _, raw := range l {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			continue
		}
		text := func(name string) (s string) {
			if json.Unmarshal(fields[name], &s) != nil {
				return ""
			}
			return s
		}
		hits = append(hits, Hit{text("title"), text(address), text(snippet)})
	}
	return hits
}

// brave is the Brave Search API.
type brave struct {
	c    Config
	base *url.URL
}

func (p brave) request(ctx context.Context, q Query) (*http.Request, error) {
	v := url.Values{"q": {onSite(q)}, "count": {strconv.Itoa(q.Count)}}
	setIf(v, "freshness", map[string]string{"day": "pd", "week": "pw", "month": "pm", "year": "py"}[q.Freshness])
	setIf(v, "safesearch", q.Safe)
	req, err := get(ctx, p.base, "res/v1/web/search", v)
	if err == nil {
		req.Header.Set("X-Subscription-Token", p.c.Key)
	}
	return req, err
}

func (brave) hits(body []byte) ([]Hit, error) {
	var a struct{ Web struct{ Results list } }
	err := json.Unmarshal(body, &a)
	return a.Web.Results.hits("url", "description"), err
}

// searxng is an instance of SearXNG with its JSON format switched on.
type searxng struct {
	c    Config
	base *url.URL
}

func (p searxng) request(ctx context.Context, q Query) (*http.Request, error) {
	v := url.Values{"q": {onSite(q)}, "format": {"json"}}
	setIf(v, "time_range", q.Freshness)
	setIf(v, "safesearch", map[string]string{"off": "0", "moderate": "1", "strict": "2"}[q.Safe])
	req, err := get(ctx, p.base, "search", v)
	if err == nil && p.c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+p.c.Key)
	}
	return req, err
}

func (searxng) hits(body []byte) ([]Hit, error) {
	var a struct{ Results list }
	err := json.Unmarshal(body, &a)
	return a.Results.hits("url", "content"), err
}

// tavily is the Tavily search API.
type tavily struct {
	c    Config
	base *url.URL
}

func (p tavily) request(ctx context.Context, q Query) (*http.Request, error) {
	ask := struct {
		Query   string   `json:"query"`
		Max     int      `json:"max_results"`
		Range   string   `json:"time_range,omitempty"`
		Domains []string `json:"include_domains,omitempty"`
		Safe    bool     `json:"safe_search,omitempty"`
	}{Query: q.Text, Max: q.Count, Range: q.Freshness, Safe: q.Safe == "strict"}
	if q.Site != "" {
		ask.Domains = []string{q.Site}
	}
	raw, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base.JoinPath("search").String(), bytes.NewReader(raw))
	if err == nil {
		req.Header.Set("Accept", "application/json")
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+p.c.Key)
	}
	return req, err
}

func (tavily) hits(body []byte) ([]Hit, error) { return searxng{}.hits(body) }

// google is Google's Programmable Search Engine, which gives ten hits at most.
type google struct {
	c    Config
	base *url.URL
}

func (p google) request(ctx context.Context, q Query) (*http.Request, error) {
	v := url.Values{"q": {q.Text}, "num": {strconv.Itoa(min(q.Count, 10))}, "cx": {p.c.Engine}}
	setIf(v, "dateRestrict", map[string]string{"day": "d1", "week": "w1", "month": "m1", "year": "y1"}[q.Freshness])
	setIf(v, "safe", map[string]string{"off": "off", "moderate": "active", "strict": "active"}[q.Safe])
	setIf(v, "siteSearch", q.Site)
	req, err := get(ctx, p.base, "customsearch/v1", v)
	if err == nil {
		req.Header.Set("X-Goog-Api-Key", p.c.Key) // not in the address, which ends up in logs
	}
	return req, err
}

func (google) hits(body []byte) ([]Hit, error) {
	var a struct{ Items list }
	err := json.Unmarshal(body, &a)
	return a.Items.hits("link", "snippet"), err
}
