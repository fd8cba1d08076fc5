package downstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

// JSON-RPC codes that decide something here.
const (
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeUnsupportedVersion = -32022
)

// RPCError is an error the server answered with.
type RPCError struct {
	Code    int
	Message string
	Data    json.RawMessage
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (JSON-RPC %d)", e.Message, e.Code) }

// MethodNotFound reports whether the server said it has no such method.
func MethodNotFound(err error) bool {
	var e *RPCError
	return errors.As(err, &e) && e.Code == codeMethodNotFound
}

// BadParams reports whether the server refused what it was sent: a call that
// would fail the same way again.
func BadParams(err error) bool {
	var e *RPCError
	return errors.As(err, &e) && (e.Code == codeMethodNotFound || e.Code == codeInvalidParams)
}

// AuthError says that the server wants other credentials.
type AuthError struct {
	Status   int
	Metadata string // address of the resource metadata, if the server named it
}

func (e *AuthError) Error() string {
	text := fmt.Sprintf("the server refuses the credentials (HTTP %d)", e.Status)
	if e.Metadata != "" {
		text += "; its resource metadata: " + e.Metadata
	}
	return text
}

// StatusError is an HTTP answer that holds no message.
type StatusError struct {
	Status     int
	Body       string // its beginning
	RetryAfter time.Duration
}

func (e *StatusError) Error() string {
	if e.Body == "" {
		return fmt.Sprintf("HTTP %d", e.Status)
	}
	return fmt.Sprintf("HTTP %d: %s", e.Status, e.Body)
}

// AnswerError says that the server answered, and that its answer can't be used. The
// connection is as good as before.
type AnswerError struct{ Why string }

func (e *AnswerError) Error() string { return "its answer can't be used: " + e.Why }

// ErrClosed says that the connection is over.
var ErrClosed = errors.New("the connection to the server is closed")

// ErrSessionLost says that the server does not know the session any more and ran
// nothing.
var ErrSessionLost = errors.New("the server does not know this session any more")

// sentError marks a failure after which nobody knows whether the server acted.
type sentError struct{ err error }

func (e *sentError) Error() string { return e.err.Error() }
func (e *sentError) Unwrap() error { return e.err }

// Unsent reports whether a failed request provably never ran: it was not sent, or
// the server refused it before looking at it.
func Unsent(err error) bool {
	var sent *sentError
	if errors.As(err, &sent) {
		return false
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	return errors.Is(err, ErrClosed) || errors.Is(err, ErrSessionLost) || errors.Is(err, syscall.ECONNREFUSED)
}

// Broken reports whether the failure means that the connection is of no more use.
func Broken(err error) bool {
	var rpc *RPCError
	var status *StatusError
	var auth *AuthError
	var answer *AnswerError
	switch {
	case err == nil, errors.As(err, &rpc), errors.As(err, &status), errors.As(err, &auth), errors.As(err, &answer):
		return false
	}
	return Unsent(err) || errors.As(err, new(*sentError)) || errors.Is(err, os.ErrDeadlineExceeded)
}

// classify turns what a transport says into the errors of this package.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var auth *AuthError
	var status *StatusError
	var answer *AnswerError
	var unauthorized *transport.AuthorizationRequiredError
	switch {
	case errors.As(err, &answer):
		return answer
	case errors.As(err, &auth):
		return auth
	case errors.As(err, &status):
		return status
	case errors.As(err, &unauthorized):
		return &AuthError{Status: 401, Metadata: unauthorized.ResourceMetadataURL}
	case errors.Is(err, transport.ErrSessionTerminated):
		return ErrSessionLost
	case errors.Is(err, transport.ErrLegacySSEServer):
		return &StatusError{Status: 404}
	}
	// The address may hold what is nobody's business.
	var address *url.Error
	if errors.As(err, &address) {
		err = address.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return op
	}
	return &sentError{err}
}
