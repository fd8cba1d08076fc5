package cache

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxFresh is how long a copy is shown without asking, whatever its server says.
const maxFresh = 15 * time.Minute

// credentials are headers by which a response is for one person.
var credentials = []string{"Authorization", "Cookie", "Proxy-Authorization"}

// asks reports whether a request may be answered from a copy, and its response kept.
func asks(req *http.Request) bool {
	if req.Method != http.MethodGet || req.URL.User != nil || req.Header.Get("Range") != "" || directives(req.Header)["no-store"] != nil {
		return false
	}
	for _, name := range credentials {
		if req.Header.Get(name) != "" {
			return false
		}
	}
	return true
}

// keeps reports whether a response may be kept and would be of any use.
func keeps(resp *http.Response, now time.Time) bool {
	d := directives(resp.Header)
	if resp.StatusCode != http.StatusOK || d["no-store"] != nil || d["private"] != nil || strings.Contains(strings.Join(resp.Header.Values("Vary"), ","), "*") {
		return false
	}
	return hasValidator(resp.Header) || freshFor(resp.Header, now) > 0
}

func hasValidator(h http.Header) bool { return h.Get("ETag") != "" || h.Get("Last-Modified") != "" }

// directives reads Cache-Control; what stands there twice counts as none of both,
// which for a number means zero.
func directives(h http.Header) map[string]*string {
	out := map[string]*string{}
	for part := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.Trim(strings.TrimSpace(value), `"`)
		if before, twice := out[name]; twice && *before != value {
			value = ""
		}
		out[name] = &value
	}
	return out
}

// freshFor tells how long after it came a response needs no question: what its
// server says, without the time it was already under way. Nothing is guessed.
func freshFor(h http.Header, now time.Time) time.Duration {
	d := directives(h)
	if d["no-cache"] != nil || h.Get("Pragma") == "no-cache" && len(h.Values("Cache-Control")) == 0 {
		return 0
	}
	var fresh time.Duration
	if age := d["max-age"]; age != nil {
		fresh = seconds(*age)
	} else if until, err := http.ParseTime(h.Get("Expires")); err == nil {
		date, err := http.ParseTime(h.Get("Date"))
		if err != nil {
			date = now
		}
		fresh = until.Sub(date)
	}
	return min(max(fresh-seconds(h.Get("Age")), 0), maxFresh)
}

func seconds(text string) time.Duration {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// kept are the headers of a response that its copy has. Cookies are none of them.
var kept = []string{"Cache-Control", "Content-Encoding", "Content-Language", "Content-Type", "Date", "ETag", "Expires", "Last-Modified", "Pragma", "Vary"}

// renewed are those that a server's confirmation replaces.
var renewed = []string{"Cache-Control", "Date", "ETag", "Expires", "Last-Modified", "Pragma", "Vary"}

func pick(from http.Header, names []string) http.Header {
	out := http.Header{}
	for _, name := range names {
		if v := from.Values(name); len(v) > 0 {
			out[http.CanonicalHeaderKey(name)] = v
		}
	}
	return out
}
