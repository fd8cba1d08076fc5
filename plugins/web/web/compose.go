package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/plugins/web/cache"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// ageNote tells of a copy how old it is and what stands for it.
func ageNote(use cache.Use, now time.Time) string {
	if use.Fetched.IsZero() {
		return ""
	}
	ago := func(t time.Time) string { return now.Sub(t).Round(time.Second).String() }
	note := fmt.Sprintf("from the cache: fetched %s ago", ago(use.Fetched))
	switch {
	case use.Validated:
		return note + " and unchanged since, as the server says now"
	case use.Checked.After(use.Fetched):
		note += fmt.Sprintf(", unchanged %s ago", ago(use.Checked))
	}
	return note + fmt.Sprintf("; the server was not asked now, as its copies may stand for %s", use.Fresh)
}

func remarks(note string) []string {
	if note == "" {
		return nil
	}
	return []string{"[web_browse note] " + note}
}

// maxWait is the longest wait that a server's Retry-After becomes a hint for.
const maxWait = time.Hour

// statusError tells of a page the server refused, with the first of what it said.
func statusError(p *fetched, doc document) error {
	said := oneLine(strings.TrimSpace(doc.title + " " + doc.markdown))
	if said != "" {
		said = "; it says: " + said
	}
	again := p.status == http.StatusTooManyRequests || p.status >= http.StatusInternalServerError
	var wait time.Duration
	if again && p.wait != nil && *p.wait > 0 {
		wait = min(*p.wait, maxWait)
		said = fmt.Sprintf(" and asks to wait %s%s", p.wait.Round(time.Second), said)
	}
	err := sdk.Errorf(sdk.ExecutionFailed, "Failed to fetch page: %s answered %d %s%s", p.url, p.status, http.StatusText(p.status), said)
	if again {
		return err.After(wait)
	}
	return err
}

func shellNote(status, why string) string {
	what := map[string]string{
		consentWall: "The site answered with a cookie-consent wall; the page body was NOT read.",
		needsJS:     "The page is built by scripts, which were not run; the page body was NOT read.",
		emptyPage:   "The page has no text; nothing was read.",
	}[status]
	return "[web_browse status: " + status + "] " + what +
		" " + why + " Do not present facts about this page as confirmed."
}

// told is a result: first lines that say where a page came from and what to know
// about it, which differ from call to call, and the page, which does not.
type told struct{ head, body string }

func (t told) text() string { return t.head + t.body }

// compose writes a result: where it came from, what to know about it, the title,
// the text.
func compose(at *url.URL, via string, notes []string, doc document) told {
	head := fmt.Sprintf("Source: %s (via %s)\n", at.Redacted(), via)
	for _, n := range notes {
		head += n + "\n"
	}
	var out strings.Builder
	if doc.title != "" {
		out.WriteString("\n# " + doc.title + "\n")
	}
	if doc.about != "" {
		out.WriteString("\n" + doc.about + "\n")
	}
	if doc.markdown != "" {
		out.WriteString("\n" + shorten(doc.markdown) + "\n")
	}
	return told{head, out.String()}
}

// shorten cuts a text that no message can carry and says by how much.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s\n\n[Content truncated — %d chars omitted]", text[:end], utf8.RuneCountInString(text[end:]))
}
