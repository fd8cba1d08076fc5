package sites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Page is what a site tells: either Markdown, or HTML to be converted.
type Page struct {
	Title    string
	Markdown string
	HTML     string
	Note     string // what is left out, if anything
}

// Get fetches an address of an interface; its errors name the address.
type Get func(ctx context.Context, address string, header http.Header) (body []byte, status int, err error)

// Site is one site's interface.
type Site interface {
	// Match tells how to read the page at u, or returns nil.
	Match(u *url.URL) func(ctx context.Context, get Get) (Page, error)
}

// Find is how the first of the sites that knows u reads it, or nil.
func Find(all []Site, u *url.URL) func(ctx context.Context, get Get) (Page, error) {
	for _, s := range all {
		if read := s.Match(u); read != nil {
			return read
		}
	}
	return nil
}

// ErrMissing is that the interface does not know the page.
var ErrMissing = errors.New("the site's interface does not know the page")

// fetch gets an address and checks its status.
func fetch(ctx context.Context, get Get, address string, header http.Header) ([]byte, error) {
	body, status, err := get(ctx, address, header)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound, status == http.StatusGone:
		return nil, ErrMissing
	case status != http.StatusOK:
		var said struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(body, &said) // it may be no JSON; the status says enough
		return nil, fmt.Errorf("the site's interface answered %d %s", status, strings.TrimSpace(said.Message))
	}
	return body, nil
}

func fetchJSON(ctx context.Context, get Get, address string, header http.Header, into any) error {
	body, err := fetch(ctx, get, address, header)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// segments are the parts of a path, unescaped; empty ones don't count. There are
// none where a part leads elsewhere than it says: an interface is asked with the
// operator's token, and only for what stands below the address it was written for.
func segments(u *url.URL) []string {
	var out []string
	for s := range strings.SplitSeq(u.EscapedPath(), "/") {
		if s == "" {
			continue
		}
		if plain, err := url.PathUnescape(s); err == nil {
			s = plain
		}
		if strays(s) {
			return nil
		}
		out = append(out, s)
	}
	return out
}

// strays says whether a part of a path goes up or stays, as often as somebody on
// the way may unescape it.
func strays(s string) bool {
	for {
		for part := range strings.SplitSeq(s, "/") {
			if part == "." || part == ".." {
				return true
			}
		}
		if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
			return true
		}
		plain, err := url.PathUnescape(s)
		if err != nil || plain == s {
			return false
		}
		s = plain
	}
}

func isHost(u *url.URL, host string) bool {
	name := strings.TrimPrefix(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), "www.")
	return name == host && (u.Port() == "" || u.Port() == "443" || u.Port() == "80")
}

// oneOf is the first text that is not empty.
func oneOf(texts ...string) string {
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}
