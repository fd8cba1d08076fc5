package httpapi

import (
	"mime"
	"net/http"
	"strings"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// media refuses a body that says it is something else than plain JSON: read as
// JSON it would be misunderstood. One that says nothing is taken for JSON, unless
// must is set.
func media(r *http.Request, must bool) *fault.Error {
	if r.Method != http.MethodPost || r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	for _, coding := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return fault.New(fault.BadMedia, "a body is sent as it is, not with Content-Encoding: %.40s", coding)
		}
	}
	kind := r.Header.Get("Content-Type")
	if kind == "" && !must {
		return nil
	}
	if parsed, _, err := mime.ParseMediaType(kind); err != nil || parsed != plainJSON {
		return fault.New(fault.BadMedia, "a body is JSON, and so says Content-Type: application/json, not %.60q", kind)
	}
	return nil
}
