package web

import (
	"net/url"
	"testing"
	"unicode/utf8"
)

func FuzzConvert(f *testing.F) {
	for _, seed := range []string{
		article, "", "<", "<table><tr><td><table>", "<a href=\"javascript:x\">y</a>", "<base href=\"://\"><img src=\"%zz\">",
		"<p><b id=1><b id=2><b id=3></p><p>x</p><p>y", "<table><tr><td>x<td>x<td>x<tr><td>y<tr><td>y", `<article><div class="caption">x</div><div class="caption">y</div>`,
		"<img>xRead more <img>xRead more ", `<sup><a href="#n">1</a></sup><li id="n">x</li>`, "<table><tr><td rowspan=9999 colspan=9999>x",
		"<svg><title>t</title></svg>", "\xff\xfe<p>", "<p>a<!--", "<ul><li><ol><li><pre>```</pre>", "<h1></h1><h1>x</h1>",
	} {
		f.Add([]byte(seed), "text/html")
	}
	f.Add([]byte("{\"a\":1}"), "application/json; charset=utf-16")
	at := &url.URL{Scheme: "https", Host: "example.com", Path: "/a/b"}
	b := newBrowser()
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		doc, err := b.read(t.Context(), &fetched{url: at, status: 200, contentType: contentType, body: body})
		if err != nil {
			return
		}
		if text := compose(at, "http", nil, doc).text(); !utf8.ValidString(text) {
			t.Errorf("not UTF-8: %q", text)
		}
	})
}
