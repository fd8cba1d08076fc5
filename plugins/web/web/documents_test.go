package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// pdf writes a document with one page for each text.
func pdf(title string, pages ...string) []byte {
	var out bytes.Buffer
	var offsets []int
	object := func(body string) {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", len(offsets), body)
	}
	out.WriteString("%PDF-1.4\n")
	var kids []string
	for i := range pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", 5+2*i))
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages)))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	object("<< /Title (" + title + ") >>")
	for i, text := range pages {
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>", 6+2*i))
		stream := "BT /F1 12 Tf 72 700 Td (" + text + ") Tj ET"
		object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream))
	}
	at := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, o := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&out, "trailer << /Size %d /Root 1 0 R /Info 4 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, at)
	return out.Bytes()
}

const rss = `<?xml version="1.0"?><rss version="2.0"><channel><title>Tides</title><link>http://t.example/</link><description>High &amp; low</description>
<item><title>Monday [new]</title><link>/mon</link><pubDate>Mon, 05 Jan 2026 06:00:00 GMT</pubDate><description>&lt;p&gt;High at &lt;b&gt;noon&lt;/b&gt;&lt;/p&gt;</description></item>
<item><title></title><link>javascript:alert(1)</link><description>plain</description></item></channel></rss>`

const atomFeed = `<feed xmlns="http://www.w3.org/2005/Atom"><title>Log</title><entry><title>Day 1</title><link href="http://t.example/1"/><updated>2026-01-05T06:00:00Z</updated><content type="html">&lt;p&gt;Sailed&lt;/p&gt;</content></entry></feed>`

const bomb = `<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><rss version="2.0"><channel><title>&c;</title></channel></rss>`

// serveFiles serves bodies by path, with a type.
func serveFiles(t *testing.T, files map[string][2]string) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", f[0])
		_, _ = io.WriteString(w, f[1]) // the client is us
	}))
	t.Cleanup(srv.Close)
	return srv
}

func TestPDF(t *testing.T) {
	whole := pdf("The Log", "The ship left at dawn.", "The wind was fair.")
	srv := serveFiles(t, map[string][2]string{
		"/log.pdf":   {"application/pdf", string(whole)},
		"/liar":      {"text/html", string(whole)},
		"/blank.pdf": {"application/pdf", string(pdf("", ""))},
		"/cut.pdf":   {"application/pdf", string(whole[:300])},
		"/many.pdf":  {"application/pdf", string(pdf("Many", make([]string, maxPDFPages+1)...))},
		"/big.pdf":   {"application/pdf", string(whole) + strings.Repeat("\n%", 1<<20)},
		"/random":    {"application/pdf", "%PDF-1.7\n" + strings.Repeat("1 0 obj << /Type /Pages /Kids [1 0 R] >> endobj\n", 2000)},
	})
	s := start(t, srv, `,"max_page_size":"1MiB"`)
	for _, path := range []string{"/log.pdf", "/liar"} {
		r := s.Call("web_browse", fmt.Sprintf(`{"url":%q}`, srv.URL+path), sdktest.Within(pdfTime))
		if want := "Source: " + srv.URL + path + " (via http)\n\n# The Log\n\n## Page 1\n\nThe ship left at dawn.\n\n## Page 2\n\nThe wind was fair.\n"; r.IsError || r.Text != want {
			t.Errorf("%s%s", r.Message, r.Text)
		}
	}
	for path, want := range map[string]string{"/blank.pdf": "its 1 pages hold no text", "/many.pdf": "the first 500 of 501 pages"} {
		if r := browse(s, srv.URL+path); r.IsError || !strings.Contains(r.Text, want) {
			t.Errorf("%s: %s%s", path, r.Message, r.Text)
		}
	}
	browse(s, srv.URL+"/cut.pdf").WantError("execution_failed", "is a PDF that can't be read")
	browse(s, srv.URL+"/random").WantError("execution_failed", "is a PDF that can't be read")
	browse(s, srv.URL+"/big.pdf").WantError("execution_failed", "larger than max_page_size")
}

// A caller that leaves ends the machine that reads for it, and the next reads on.
func TestPDFCancel(t *testing.T) {
	p := newPDFReader()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.read(ctx, pdf("x", "y")); err == nil {
		t.Error("a cancelled read gave a document")
	}
	if doc, err := p.read(t.Context(), pdf("x", "y")); err != nil || !strings.Contains(doc.markdown, "y") {
		t.Error(doc, err)
	}
}

func TestFeeds(t *testing.T) {
	srv := serveFiles(t, map[string][2]string{
		"/rss":  {"application/rss+xml", rss},
		"/atom": {"text/xml", atomFeed},
		"/json": {"application/feed+json", `{"version":"https://jsonfeed.org/version/1.1","title":"J","items":[{"id":"1","title":"One","url":"http://t.example/1","content_text":"text"}]}`},
		"/not":  {"application/json", `{"title":"no feed","items":[1]}`},
		"/xml":  {"application/xml", `<config><a>1</a></config>`},
		"/bomb": {"application/rss+xml", bomb},
		"/many": {"application/rss+xml", `<rss version="2.0"><channel><title>M</title>` + strings.Repeat("<item><title>e</title></item>", 51) + `</channel></rss>`},
	})
	s := start(t, srv, "")
	for path, want := range map[string]string{
		"/rss":  "# Tides\n\nHigh & low\n\n## [Monday \\[new\\]](" + srv.URL + "/mon)\n\n2026-01-05 06:00 UTC\n\nHigh at **noon**\n\n## (no title)\n\nplain\n",
		"/atom": "# Log\n\n## [Day 1](http://t.example/1)\n\n2026-01-05 06:00 UTC\n\nSailed\n",
		"/json": "# J\n\n## [One](http://t.example/1)\n\ntext\n",
		"/not":  `{"title":"no feed","items":[1]}`,
		"/xml":  "<config><a>1</a></config>",
		"/bomb": "Source: ",
		"/many": "[web_browse note] the first 50 of 51 entries are here",
	} {
		r := browse(s, srv.URL+path)
		if r.IsError || !strings.Contains(r.Text, want) || len(r.Text) > 4000 || strings.Contains(r.Text, strings.Repeat("a", 100)) {
			t.Errorf("%s: %s%s", path, r.Message, r.Text)
		}
	}
}
