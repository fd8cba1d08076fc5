package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

func write(w http.ResponseWriter, status int, v any) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // what tools sent leaves as it came
	if err := enc.Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // a reader that left needs no word
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	f := fault.From(err)
	refused(w, nil, statusFor(err, f), f)
}

// refused is the plain form of an error.
func refused(w http.ResponseWriter, _ *http.Request, status int, f *fault.Error) {
	retryAfter(w, status, f.RetryAfter)
	write(w, status, map[string]any{"error": errorView(f)})
}

// retryAfter tells when a later attempt makes sense: at once is a second.
func retryAfter(w http.ResponseWriter, status int, d time.Duration) {
	if d > 0 || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int((d+time.Second-1)/time.Second))))
	}
}

func errorView(f *fault.Error) *api.Error {
	return &api.Error{Code: string(f.Class), Message: f.Message, Retryable: f.Retryable, Ref: string(f.Ref), RetryAfterMs: f.RetryAfter.Milliseconds()}
}

func statusFor(err error, f *fault.Error) int {
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return http.StatusRequestEntityTooLarge
	}
	switch f.Ref {
	case fault.BadMedia:
		return http.StatusUnsupportedMediaType
	case fault.NotAcceptable:
		return http.StatusNotAcceptable
	}
	return statusOf(f.Class)
}

func statusOf(c fault.Class) int {
	switch c {
	case fault.InvalidArguments:
		return http.StatusBadRequest
	case fault.Denied:
		return http.StatusForbidden
	case fault.ToolNotFound, fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Timeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// number is a query parameter that counts.
func number(r *http.Request, name string) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fault.New(fault.BadArguments, "%s is a number, not %.40q", name, text)
	}
	return n, nil
}

// flag is a query parameter that is true or false, or left out.
func flag(r *http.Request, name string, otherwise bool) (bool, error) {
	switch text := r.URL.Query().Get(name); text {
	case "":
		return otherwise, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, fault.New(fault.BadArguments, "%s is true or false, not %.40q", name, text)
	}
}
