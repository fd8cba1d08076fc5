package sdk

import (
	"encoding/json"
	"fmt"
	"time"
)

// Kind of an InputRequest.
const (
	AskForm     = "form"     // values by a JSON Schema
	AskURL      = "url"      // something to do in a browser
	AskApproval = "approval" // a person's yes or no before the call goes on
	AskModel    = "model"    // a turn of a language model
)

// Audience of an InputRequest.
const (
	ToPerson = "person"
	ToAgent  = "agent"
	ToAny    = "any"
)

// InputRequest is one thing a call must know before it can go on.
type InputRequest struct {
	ID         string          // the key of its answer in Call.Input
	Kind       string          // AskForm, AskURL, AskApproval or AskModel
	Message    string          // what the one who answers reads
	Schema     json.RawMessage // of a form
	Audience   string          // ToPerson, ToAgent or ToAny; empty = as policy says
	NoFallback bool            // never answered by anything but the audience
	Decision   bool            // a yes/no that only a person may settle
	TTL        time.Duration   // 0 = as the host says
	URL        string          // of AskURL
	Model      json.RawMessage // of AskModel
}

// Answer to an InputRequest.
type Answer struct {
	Action     string // accept, decline, cancel, approve or deny
	Content    json.RawMessage
	AnsweredBy string
	Reason     string
}

// Accepted reports whether the answer is a yes.
func (a Answer) Accepted() bool { return a.Action == "accept" || a.Action == "approve" }

// Decode reads the answer's values into v.
func (a Answer) Decode(v any) error {
	if err := json.Unmarshal(a.Content, v); err != nil {
		return fmt.Errorf("the answer: %w", err)
	}
	return nil
}

type needsInput struct {
	requests []InputRequest
	state    []byte
}

// NeedInput is a result that asks. The host keeps the call and state (opaque, at
// most 64 KiB), gets the answers, however long that takes, and runs the same tool
// again with them in Call.Input and the state in Call.State. Nothing in memory
// survives in between: the next round may run in another process.
func NeedInput(requests []InputRequest, state []byte) Result {
	return Result{needs: &needsInput{requests: requests, state: state}}
}

// Form is an InputRequest for the fields of T, whose JSON Schema is derived like
// that of a tool's arguments.
func Form[T any](id, message string) InputRequest {
	schema, err := Schema[T]()
	if err != nil {
		panic(fmt.Sprintf("sdk.Form %q: %v", id, err)) // a type known at compile time
	}
	return InputRequest{ID: id, Kind: AskForm, Message: message, Schema: schema}
}

// Approval is an InputRequest that only a person may approve.
func Approval(id, message string) InputRequest {
	return InputRequest{ID: id, Kind: AskApproval, Message: message, Audience: ToPerson, NoFallback: true, Decision: true}
}
