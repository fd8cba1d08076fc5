package downstream

import "net/http"

// FileClient is an HTTP client for what a server has beside the protocol: with the
// target's headers, its rule for addresses and its redirects. done gives back what
// it holds.
func FileClient(t *Target) (client *http.Client, done func()) {
	client, trip, free := t.httpClient(nil)
	client.Transport = withHeaders{trip.base, t.Headers}
	return client, free
}

// withHeaders sends the target's headers and lets answers be.
type withHeaders struct {
	base    http.RoundTripper
	headers map[string]string
}

func (w withHeaders) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	setHeaders(req, w.headers)
	return w.base.RoundTrip(req)
}
