package httpapi

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// bodyTime is how long a client may take to send a request's body.
const bodyTime = 30 * time.Second

// guards are the headers of every answer; their names are in the canonical form.
var guards = http.Header{
	"X-Content-Type-Options":  {"nosniff"},
	"X-Frame-Options":         {"DENY"},
	"Referrer-Policy":         {"no-referrer"},
	"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
	"Cache-Control":           {"no-store"},
}

// door is what every request on TCP passes before anything of it is believed: the
// host name and the origin must be ours, the body has a size and a time, and the
// answer carries what keeps browsers from making more of it than it is.
func (a *API) door(h http.Handler) http.Handler {
	return paced(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), guards)
		refuse := refused
		if strings.HasPrefix(r.URL.Path, "/v1/tools/") && strings.HasSuffix(r.URL.Path, "/call") {
			refuse = refuseCall
		}
		if !a.hostAllowed(r.Host) {
			refuse(w, r, http.StatusForbidden, fault.New(fault.ForeignRequest, "host %.100q is not served here; name it in frontend \"http\" { hosts = [...] }", r.Host))
			return
		}
		if !a.originAllowed(r) {
			refuse(w, r, http.StatusForbidden, fault.New(fault.ForeignRequest, "origin %.100q may not call; name it in frontend \"http\" { origins = [...] }", r.Header.Get("Origin")))
			return
		}
		if a.shares(w, r) {
			return
		}
		limitBody(w, r)
		h.ServeHTTP(w, r)
	}))
}

// limitBody gives the body a size and a time. The time ends with the body: what
// the server reads after it is only whether the client is still there.
func limitBody(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if r.Body == nil || r.Body == http.NoBody {
		_ = control.SetReadDeadline(time.Time{}) // a connection without deadlines has nothing to end
		return
	}
	_ = control.SetReadDeadline(time.Now().Add(bodyTime))
	r.Body = &timedBody{ReadCloser: http.MaxBytesReader(w, r.Body, maxBody), control: control}
}

type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// hostAllowed keeps names out that a foreign DNS points here.
func (a *API) hostAllowed(host string) bool {
	name, port := host, ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		name, port = h, ":"+p
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		name = host[1 : len(host)-1]
	}
	if ip := net.ParseIP(name); ip != nil {
		// No DNS stands behind an address.
		return !a.Loopback || ip.IsLoopback() || slices.Contains(a.Hosts, name)
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if name == "" {
		return false
	}
	if slices.ContainsFunc(a.Hosts, func(h string) bool { return strings.EqualFold(h, name) || strings.EqualFold(h, name+port) }) {
		return true
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// originAllowed admits what is no page at all, pages of our own address, and those
// the config names. A browser that sends no origin still says where it comes from.
func (a *API) originAllowed(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		site := r.Header.Get("Sec-Fetch-Site")
		return site == "" || site == "none" || site == "same-origin"
	}
	if len(origins) > 1 {
		return false
	}
	if a.listedOrigin(origins[0]) {
		return true
	}
	u, err := url.Parse(origins[0])
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == "" &&
		u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

func (a *API) listedOrigin(origin string) bool { return slices.Contains(a.Origins, origin) }

// shares lets pages of the origins that the config names read answers; no other
// page ever may. It reports whether the request was a browser's question whether
// it may ask, which is then answered.
func (a *API) shares(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(a.Origins) > 0 {
		w.Header().Add("Vary", "Origin")
	}
	origin := r.Header.Get("Origin")
	if origin == "" || !a.listedOrigin(origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Retry-After, WWW-Authenticate")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
