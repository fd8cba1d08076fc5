package search

import (
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// usable are the hits that have a title and an address that can be opened, once
// each; their texts are cleaned of what engines put in for browsers.
func usable(found []Hit) []Hit {
	hits := make([]Hit, 0, len(found))
	seen := map[string]bool{}
	for _, h := range found {
		h = Hit{Title: clean(h.Title), URL: strings.TrimSpace(h.URL), Snippet: clean(h.Snippet)}
		u, err := url.Parse(h.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || h.Title == "" || seen[h.URL] {
			continue
		}
		seen[h.URL] = true
		hits = append(hits, h)
	}
	return hits
}

// clean takes tags out of a text, reads its entities and puts it on one line.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "")
	if strings.ContainsAny(text, "<&") {
		var out strings.Builder
		z := html.NewTokenizer(strings.NewReader(text))
		for z.Next() != html.ErrorToken {
			if t := z.Token(); t.Type == html.TextToken {
				out.WriteString(t.Data)
			}
		}
		text = out.String()
	}
	return strings.Join(strings.Fields(text), " ")
}
