package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Class is the coarse kind of a fault: what a caller sees as the error's code.
type Class string

// The classes of the protocol. The last four occur between plugin and host only.
const (
	ToolNotFound     Class = "tool_not_found"
	ExecutionFailed  Class = "execution_failed"
	Timeout          Class = "timeout"
	InvalidArguments Class = "invalid_arguments"
	AuthRequired     Class = "auth_required"
	Denied           Class = "denied"
	Unavailable      Class = "unavailable"
	Interrupted      Class = "interrupted"

	Fenced   Class = "fenced"
	NotFound Class = "not_found"
	Conflict Class = "conflict"
	TooLarge Class = "too_large"
)

// Error is one occurrence of a known fault.
type Error struct {
	Class      Class
	Ref        Ref
	Message    string
	Retryable  bool
	RetryAfter time.Duration // 0 = unknown or now
	cause      error
}

// New makes an occurrence of the fault ref. Class and Retryable come from the
// table; the message is formatted as by fmt.Errorf, so %w keeps a cause.
func New(ref Ref, format string, args ...any) *Error {
	row := table[ref]
	err := fmt.Errorf(format, args...)
	return &Error{Class: row.Class, Ref: ref, Message: err.Error(), Retryable: row.Retryable, cause: errors.Unwrap(err)}
}

// After sets when the next attempt makes sense and marks the fault retryable.
func (e *Error) After(d time.Duration) *Error {
	e.Retryable, e.RetryAfter = true, d
	return e
}

// Result is the fault as the result of a call, which every caller understands.
func (e *Error) Result() *pluginv1.Result {
	return &pluginv1.Result{
		IsError: true,
		Error:   e.Proto(),
		Content: []*pluginv1.Content{{Block: &pluginv1.Content_Text{Text: e.Message}}},
	}
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.cause }

// Proto is the fault as it crosses the plugin protocol.
func (e *Error) Proto() *pluginv1.Error {
	return &pluginv1.Error{
		Code: string(e.Class), Message: e.Message, Retryable: e.Retryable,
		Ref: string(e.Ref), RetryAfterMs: e.RetryAfter.Milliseconds(),
	}
}

// From finds the fault in err; an error that carries none becomes an
// execution failure, a passed deadline a timeout and a cancel an interruption.
func From(err error) *Error {
	var f *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return f
	case errors.Is(err, context.DeadlineExceeded):
		return New(CallTimeout, "the deadline passed: %w", err)
	case errors.Is(err, context.Canceled):
		return New(CallCancelled, "the call was cancelled: %w", err)
	}
	return New(CallFailed, "%w", err)
}
