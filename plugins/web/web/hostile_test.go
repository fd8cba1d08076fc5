package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

const browseTime = 90 * time.Second // of the tool

// Pages made to cost: each ends with a text or an error within the time of a call,
// and the plugin answers the next one.
func TestHostilePages(t *testing.T) {
	const large = 50 << 20
	fill := func(unit string) string { return strings.Repeat(unit, large/len(unit)) }
	pages := map[string]func() string{
		"/paragraphs":  func() string { return "<html><body>" + fill("<p>"+sentences+"</p>") },
		"/tags":        func() string { return fill("<b>") },
		"/links":       func() string { return fill(`<a href="/x">x</a> `) },
		"/attributes":  func() string { return "<p " + fill("a=b ") + ">text</p>" },
		"/one tag":     func() string { return "<" + fill("a") },
		"/comment":     func() string { return "<p>text</p><!--" + fill("-x") },
		"/entities":    func() string { return "<p>" + fill("&amp;&lt;&#x0;") },
		"/tables":      func() string { return fill("<table><tr><td>") },
		"/lists":       func() string { return fill("<ul><li>") },
		"/quotes":      func() string { return fill("<blockquote>x") },
		"/formatting":  func() string { return fill("<b><i><a href=x><p>") },
		"/stray ends":  func() string { return fill("</p></br></div>") },
		"/notes":       func() string { return fill(`<sup><a href="#n">1</a></sup><li id="n">x</li>`) },
		"/definitions": func() string { return fill("<dl><dt>x<dd>y") },
		"/buttons":     func() string { return fill("<div>We use cookies <button>Accept</button> with our partners") },
		"/wide rows":   func() string { return "<table>" + fill("<tr><td>1<td>2<td colspan=1000>3") },
		"/spans":       func() string { return "<table><tr>" + strings.Repeat("<td rowspan=65534 colspan=1000>x", 1000) },
		"/backticks":   func() string { return "<pre>" + fill("`") },
		"/brackets":    func() string { return "<p>" + fill("[(*_") },
		// The parser repeats what is open in each block that follows.
		"/soup": func() string {
			var open strings.Builder
			for i := range 400 {
				fmt.Fprintf(&open, "<b id=%d>", i)
			}
			return "<p>" + open.String() + "</p>" + fill("<p>x")
		},
		// Each row would be filled up to the widest one.
		"/grid":     func() string { return "<table><tr>" + strings.Repeat("<td>x", 40_000) + fill("<tr><td>y") },
		"/captions": func() string { return "<article>" + fill(`<div class="caption">`+sentences+`</div>`) },
		"/inputs":   func() string { return fill(`<input title="t">Sentence with end. </input>x`) },
		"/pictures": func() string { return fill("<img>xRead more ") },
		"/breaks":   func() string { return fill(`<iframe></iframe><br class="caption">x<br>Read more </br><form>&lt;`) },
		"/stairs":   func() string { return strings.Repeat("<blockquote>", 300) + fill("<p>x") },
		"/class": func() string {
			return `<div class="` + strings.Repeat("comment-x ", 300_000) + `">` + fill("<p>"+sentences)
		},
		"/zeros": func() string { return fill("\x00<p>\xff\xfe") },
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if page := pages[r.URL.Path]; page != nil {
			_, _ = w.Write([]byte(page())) // a client that left is no fault
			return
		}
		_, _ = w.Write([]byte(article))
	}))
	defer srv.Close()
	s := start(t, srv, "")
	for path := range pages {
		begun := time.Now()
		r := s.Call("web_browse", `{"url":"`+srv.URL+strings.ReplaceAll(path, " ", "%20")+`"}`, sdktest.Within(browseTime))
		t.Logf("%s: %s, %d bytes", path, time.Since(begun).Round(time.Millisecond), len(r.Text))
		if len(r.Text) > maxText+4096 {
			t.Errorf("%s: %d bytes came of it", path, len(r.Text))
		}
		if !r.IsError && path != "/zeros" && !strings.Contains(r.Text, "[web_browse status: cut]") && path != "/spans" {
			t.Errorf("%s is not said to be cut: %.300s", path, r.Text)
		}
		if r.Code == "internal" {
			t.Errorf("%s: %s", path, r.Message)
		}
		browse(s, srv.URL+"/").WantText("") // it goes on
	}
}

// With the largest max_page_size a whole page of 50 MB is read.
func TestLargestPage(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		for range 50 {
			_, _ = w.Write([]byte(strings.Repeat("<p>"+sentences+"</p>", 1<<20/len(sentences)))) // a client that left is no fault
		}
	}))
	defer srv.Close()
	r := start(t, srv, `,"max_page_size":"64MiB"`).Call("web_browse", `{"url":"`+srv.URL+`"}`, sdktest.Within(browseTime))
	if r.IsError || !strings.Contains(r.Text, "too large or too deep to be laid out") || !strings.Contains(r.Text, "nobody on deck") || !strings.Contains(r.Text, "[Content truncated") {
		t.Errorf("%d bytes, %s %.300s", len(r.Text), r.Message, r.Text)
	}
}
