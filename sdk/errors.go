package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Code is the coarse kind of an error, the same for every caller of the host.
type Code string

// The codes of the protocol. The last four are answers of host services.
const (
	ToolNotFound     Code = "tool_not_found"
	ExecutionFailed  Code = "execution_failed"
	Timeout          Code = "timeout"
	InvalidArguments Code = "invalid_arguments"
	AuthRequired     Code = "auth_required"
	Denied           Code = "denied"
	Unavailable      Code = "unavailable"
	Interrupted      Code = "interrupted"

	Fenced   Code = "fenced"
	NotFound Code = "not_found"
	Conflict Code = "conflict"
	TooLarge Code = "too_large"
)

// References of the host's fault table which this package itself gives.
const (
	refUnknownTool  = "BH1001"
	refBadJSON      = "BH1002"
	refBadArguments = "BH1003"
	refTimeout      = "BH1005"
	refCancelled    = "BH1006"
	refFailed       = "BH1007"
	refMessageSize  = "BH2010"
	refPanic        = "BH2013"
	refStopped      = "BH2004"
)

// Error is a failure as callers see it. Decide by Code and Ref, never by Message.
type Error struct {
	Code       Code
	Message    string
	Ref        string        // BHnnnn of the host's fault table; may be empty
	Retryable  bool          // the same call may succeed later
	RetryAfter time.Duration // when it makes sense; 0 = unknown or now
	cause      error
}

// Errorf makes an error with a code. %w keeps a cause for errors.Is and errors.As.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// After marks the error retryable, sensible after d (0 = at any time).
func (e *Error) After(d time.Duration) *Error {
	e.Retryable, e.RetryAfter = true, d
	return e
}

// WithRef sets the reference into the fault table.
func (e *Error) WithRef(ref string) *Error {
	e.Ref = ref
	return e
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause, if one was wrapped.
func (e *Error) Unwrap() error { return e.cause }

// CodeOf is the code of err: that of an *Error in its chain, else timeout or
// interrupted for the errors of a context, else execution_failed.
func CodeOf(err error) Code { return asError(err).Code }

func asError(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return Errorf(Timeout, "the deadline passed: %w", err).WithRef(refTimeout).After(0)
	case errors.Is(err, context.Canceled):
		return Errorf(Interrupted, "the call was cancelled: %w", err).WithRef(refCancelled)
	}
	return Errorf(ExecutionFailed, "%w", err).WithRef(refFailed)
}

func (e *Error) proto() *pluginv1.Error {
	return &pluginv1.Error{
		Code: utf8(string(e.Code)), Message: utf8(e.Message), Retryable: e.Retryable,
		Ref: utf8(e.Ref), RetryAfterMs: e.RetryAfter.Milliseconds(),
	}
}

func errorFromProto(p *pluginv1.Error) *Error {
	if p == nil {
		return nil
	}
	return &Error{
		Code: Code(p.GetCode()), Message: p.GetMessage(), Ref: p.GetRef(),
		Retryable: p.GetRetryable(), RetryAfter: time.Duration(p.GetRetryAfterMs()) * time.Millisecond,
	}
}

// errorFromStatus reads what a host service answered: the error in the details
// of the status, else the best code for a bare one.
func errorFromStatus(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	for _, detail := range st.Details() {
		if p, ok := detail.(*pluginv1.Error); ok {
			return errorFromProto(p)
		}
	}
	switch st.Code() {
	case codes.DeadlineExceeded:
		return &Error{Code: Timeout, Message: "the host did not answer in time", Ref: refTimeout, Retryable: true, cause: context.DeadlineExceeded}
	case codes.Canceled:
		return &Error{Code: Interrupted, Message: "the request to the host was cancelled", Ref: refCancelled, cause: context.Canceled}
	case codes.PermissionDenied, codes.Unauthenticated:
		return Errorf(Denied, "the host refused: %s", st.Message())
	case codes.NotFound:
		return Errorf(NotFound, "%s", st.Message())
	case codes.InvalidArgument:
		return Errorf(InvalidArguments, "%s", st.Message())
	case codes.ResourceExhausted:
		return Errorf(TooLarge, "%s", st.Message()).WithRef(refMessageSize)
	case codes.Unavailable, codes.Unimplemented:
		return Errorf(Unavailable, "the host does not serve this: %s", st.Message()).After(0)
	}
	return Errorf(ExecutionFailed, "the host failed: %s", st.Message()).WithRef(refFailed)
}
