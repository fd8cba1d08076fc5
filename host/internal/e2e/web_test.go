package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// The tools of plugin web, in its sandbox, behind the whole of the host.
func TestWeb(t *testing.T) {
	var loads atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		loads.Add(1)
		switch r.URL.Path {
		case "/paper.pdf":
			w.Header().Set("Content-Type", "application/pdf")
			_, _ = io.WriteString(w, "%PDF-1.4\nnot much of one") // the client is us
		case "/long":
			w.Header().Set("Content-Type", "text/markdown")
			w.Header().Set("Cache-Control", "max-age=600")
			for i := range 12 {
				_, _ = fmt.Fprintf(w, "# Part %d\n\n%s\n\n## Detail %d\n\n%s\n\n", i, strings.Repeat("wind ", 200), i, strings.Repeat("tide ", 100))
			}
		default:
			_, _ = fmt.Fprintf(w, "key=%s accept=%s", r.Header.Get("X-Api-Key"), r.Header.Get("Accept"))
		}
	}))
	defer srv.Close()
	w := newWorld(t, fmt.Sprintf("plugin \"web\" {\n  grants = [\"shared\"]\n  config {\n    allow_hosts = [%q]\n  }\n}\n", srv.Listener.Addr()), "web")
	w.serve()

	t.Run("headers as text and as an object", func(t *testing.T) {
		for _, headers := range []string{`{"X-Api-Key":"k1","Accept":"text/plain"}`, `"{\"X-Api-Key\":\"k1\",\"Accept\":\"text/plain\"}"`} {
			if got := w.ok("call", "http_request", fmt.Sprintf(`{"url":%q,"headers":%s}`, srv.URL, headers)); !strings.Contains(got, "key=k1 accept=text/plain") {
				t.Errorf("%s: %s", headers, got)
			}
		}
		w.fails(1, []string{"object of strings"}, "call", "http_request", fmt.Sprintf(`{"url":%q,"headers":{"X-Api-Key":7}}`, srv.URL))
	})

	// The host asks whether the tool may run, the tool whether this file may be
	// saved. One yes saves nothing, whichever it is.
	t.Run("a download is asked about twice", func(t *testing.T) {
		before := loads.Load()
		saved := filepath.Join(w.dir, "shared", "downloads", "paper.pdf")
		call := []string{"call", "--session", "reader", "download_pdf", "url=" + srv.URL + "/paper.pdf"}
		untouched := func() {
			t.Helper()
			if _, err := os.Stat(saved); err == nil || loads.Load() != before {
				t.Error("it was opened or saved before both had said yes")
			}
		}
		for _, second := range []string{"deny", "approve"} {
			w.fails(1, []string{"q_"}, call...)
			untouched()
			first := w.openQuestions()
			if len(first) != 1 || first[0].Kind != "approval" {
				t.Fatalf("%+v", first)
			}
			w.ok("approve", first[0].ID)
			w.fails(1, []string{"q_"}, call...)
			untouched()
			own := w.openQuestions()
			if len(own) != 1 || own[0].ID == first[0].ID || !strings.Contains(own[0].Message, "wants to save the PDF at "+srv.URL) {
				t.Fatalf("%+v", own)
			}
			w.ok(second, own[0].ID)
			if second == "deny" {
				w.fails(1, []string{"the call was denied"}, call...)
				untouched()
			}
		}
		if got := w.ok(call...); !strings.Contains(got, "/shared/downloads/paper.pdf") {
			t.Error(got)
		}
		if raw, err := os.ReadFile(saved); err != nil || !strings.HasPrefix(string(raw), "%PDF-") {
			t.Errorf("%v %.20q", err, raw)
		}
		w.fails(1, []string{"q_"}, call...) // both permits are spent
		for _, q := range w.openQuestions() {
			w.ok("deny", q.ID)
		}
	})

	// A long page is stored in parts, under the names and in the sizes of the spec,
	// and each part is there to be read.
	t.Run("long pages come in parts", func(t *testing.T) {
		got := w.ok("call", "--session", "reader", "web_browse", "url="+srv.URL+"/long")
		base := regexp.MustCompile(`session/reader/web-http___127\.0\.0\.1_\d+_long-[0-9a-f]{8}`).FindString(got)
		if base == "" || !strings.Contains(got, base+"-index") || !strings.Contains(got, "| # | Heading | Key ") || !strings.Contains(got, base+"-chunk0") || len(got) > 8000 {
			t.Fatalf("%d characters: %s", len(got), got)
		}
		keys := regexp.MustCompile(regexp.QuoteMeta(base)+`-chunk\d+`).FindAllString(got, -1)
		for _, key := range keys {
			part := w.ok("call", "--session", "reader", "get_from_working_memory", "key="+key)
			if n := len([]rune(part)); n > 4200 || n < 20 {
				t.Errorf("%s has %d characters", key, n)
			}
		}
		outline := w.ok("call", "--session", "reader", "get_from_working_memory", "key="+base+"-index")
		if len(keys) < 4 || !strings.Contains(outline, "**Part 11**") || !strings.Contains(outline, "  - **Detail 3**") {
			t.Errorf("%d parts, outline:\n%s", len(keys), outline)
		}
	})

	// A copy outlives plugin and host, in the plugin's own folder.
	t.Run("copies outlive the host", func(t *testing.T) {
		w.stop()
		w.serve()
		before := loads.Load()
		if got := w.ok("call", "web_fetch", fmt.Sprintf(`{"url":%q,"max_chars":500}`, srv.URL+"/long")); !strings.Contains(got, "[web_browse note] from the cache: fetched ") || loads.Load() != before {
			t.Errorf("loaded %d times: %s", loads.Load()-before, got)
		}
	})
}

// A document of three hundred full pages is read by a plugin that has the memory a
// plugin without a block would get, and the plugin is still the same afterwards.
func TestLargePDF(t *testing.T) {
	document := longPDF(300)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/pdf")
		_, _ = w.Write(document) // the client is us
	}))
	defer srv.Close()
	w := newWorld(t, fmt.Sprintf("plugin \"web\" {\n  limits {\n    memory = \"512MiB\"\n  }\n  config {\n    allow_hosts = [%q]\n    max_page_size = \"32MiB\"\n  }\n}\n", srv.Listener.Addr()), "web")
	w.serve()
	before := w.plugin("web")
	for i := range 3 {
		got := w.ok("call", "--session", "reader", "web_browse", fmt.Sprintf("url=%s/%d", srv.URL, i))
		last := regexp.MustCompile(`session/reader/\S+-chunk299`).FindString(got)
		if part := w.ok("call", "--session", "reader", "get_from_working_memory", "key="+last); !strings.Contains(part, "Line 60 of page 300") {
			t.Fatalf("%.500s\n%.500s", got, part)
		}
	}
	after := w.plugin("web")
	if after.PID != before.PID || after.Generation != before.Generation {
		t.Errorf("the plugin was %+v and is %+v", before, after)
	}
	if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", after.PID)); err == nil {
		t.Logf("%d bytes of PDF; %s", len(document), regexp.MustCompile(`Vm(HWM|Data):\s+\d+ kB`).FindAllString(string(raw), -1))
	}
}

// longPDF writes a document of so many pages with sixty lines each.
func longPDF(pages int) []byte {
	var out bytes.Buffer
	var offsets []int
	object := func(format string, args ...any) {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n", len(offsets))
		fmt.Fprintf(&out, format, args...)
		out.WriteString("\nendobj\n")
	}
	out.WriteString("%PDF-1.4\n")
	var kids strings.Builder
	for i := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 4+2*i)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object("<< /Type /Pages /Kids [%s] /Count %d >>", kids.String(), pages)
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	for i := range pages {
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>", 5+2*i)
		var text strings.Builder
		text.WriteString("BT /F1 9 Tf 40 770 Td 12 TL")
		for line := range 60 {
			fmt.Fprintf(&text, " (Line %d of page %d: the wind was fair, and nobody on deck.) Tj T*", line+1, i+1)
		}
		text.WriteString(" ET")
		object("<< /Length %d >>\nstream\n%s\nendstream", text.Len(), text.String())
	}
	at := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, o := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&out, "trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, at)
	return out.Bytes()
}
