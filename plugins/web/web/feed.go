package web

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"github.com/mmcdole/gofeed"
)

// maxEntries is how many entries of a feed are written.
const maxEntries = 50

// readFeed writes an RSS, Atom or JSON feed; false when body is none.
func readFeed(body []byte, at *url.URL) (document, bool) {
	switch gofeed.DetectFeedType(bytes.NewReader(body)) {
	case gofeed.FeedTypeUnknown:
		return document{}, false
	case gofeed.FeedTypeJSON: // any JSON, that is
		if !bytes.Contains(body, []byte("jsonfeed.org/version/")) {
			return document{}, false
		}
	}
	feed, err := gofeed.NewParser().Parse(bytes.NewReader(body))
	if err != nil {
		return document{}, false // its bytes say what they say
	}
	doc := document{title: oneLine(feed.Title)}
	var out strings.Builder
	if feed.Description != "" {
		out.WriteString(fragment(feed.Description, at) + "\n\n")
	}
	for i, e := range feed.Items {
		if i == maxEntries {
			doc.note = fmt.Sprintf("the first %d of %d entries are here", maxEntries, len(feed.Items))
			break
		}
		title := linkText.Replace(oneLine(e.Title))
		if title == "" {
			title = "(no title)"
		}
		if to, err := at.Parse(strings.TrimSpace(e.Link)); err == nil && e.Link != "" && (to.Scheme == "http" || to.Scheme == "https") {
			title = "[" + title + "](" + linkURL.Replace(to.String()) + ")"
		}
		out.WriteString("## " + title + "\n\n")
		if when := e.PublishedParsed; when != nil {
			out.WriteString(when.UTC().Format("2006-01-02 15:04 MST") + "\n\n")
		}
		text := e.Content
		if text == "" {
			text = e.Description
		}
		if text = fragment(text, at); text != "" {
			out.WriteString(text + "\n\n")
		}
	}
	doc.markdown = strings.TrimSpace(out.String())
	return doc, true
}
