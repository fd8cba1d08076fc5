package config

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// notHost says why a text never equals the Host header of a request, empty if it may.
// Names are compared whole: a pattern would let in whoever can point a name here.
func notHost(s string) string {
	const rule = "a host is a name or an address, with a port or without: \"agents.example\", \"agents.example:8443\", \"192.0.2.7\""
	name := s
	if host, port, err := net.SplitHostPort(s); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return rule
		}
		name = host
	}
	switch {
	case strings.Contains(s, "*"):
		return "there are no patterns here: each name that is served stands by itself, since any page may use one that is not checked"
	case net.ParseIP(name) != nil:
		return ""
	case name == "" || len(name) > 253 || strings.HasSuffix(name, "."):
		return rule
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return rule
		}
	}
	return ""
}

// notOrigin says why a text never equals the Origin header of a browser, empty if it
// may.
func notOrigin(s string) string {
	const rule = "an origin is a scheme, a host and perhaps a port, as browsers write it: \"https://agents.example\", \"http://localhost:3000\""
	switch {
	case strings.Contains(s, "*"):
		return "there are no patterns here: each origin that may read answers stands by itself, since any page could else act with what the reader may do"
	case s == "null":
		return "every page without an address calls itself so"
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return rule
	}
	as := strings.ToLower(u.Scheme + "://" + u.Host)
	switch u.Scheme + ":" + u.Port() {
	case "http:80", "https:443":
		as = strings.TrimSuffix(as, ":"+u.Port())
	}
	if s != as {
		return rule + "; this one is \"" + as + "\""
	}
	return ""
}
