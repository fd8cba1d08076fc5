package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Tool is one tool a plugin offers: made by NewTool or RawTool.
type Tool struct {
	spec    toolSpec
	handler func(ctx context.Context, call *Call) (Result, error)
	err     error // a mistake found while making it; reported by Check
}

type toolSpec struct {
	name, title, description string
	inputSchema              json.RawMessage
	outputSchema             json.RawMessage
	annotations              map[string]bool
	rawAnnotations           json.RawMessage
	meta                     json.RawMessage
	source, group            string
	tier                     Tier
	exposure                 Exposure
	exposureFor              map[string]Exposure
	internal, unshaped       bool
	timeout                  time.Duration
	argAliases               [][2]string
	argDefaults              json.RawMessage
	downstream               string
	nameAliases              []string
}

// Tier is the security tier a tool proposes; the host may raise it.
type Tier int

const (
	TierUnspecified Tier = iota // the host decides: elevated
	Standard
	Elevated
	Restricted
)

// Exposure says when a tool is listed.
type Exposure int

const (
	Always   Exposure = iota + 1 // in every list
	Fit                          // while the whole list stays within the caller's budget
	OnDemand                     // only when activated; found through find tools
)

// NewTool makes a tool from a typed handler. Args is a struct: its fields give
// the JSON Schema (see Schema), and arguments are decoded into it from the bytes
// that came in, so 64-bit integers stay exact. call.Arguments has the bytes
// themselves.
//
// An error from the handler becomes a failed result: an *Error with its own code,
// any other as execution_failed. A panic becomes execution_failed and is logged.
func NewTool[Args any](name, description string, handler func(ctx context.Context, call *Call, in Args) (Result, error), opts ...ToolOption) *Tool {
	schema, err := Schema[Args]()
	required := requiredArgs(schema)
	t := RawTool(name, description, schema, func(ctx context.Context, call *Call) (Result, error) {
		var in Args
		if err := missingArg(required, call.Arguments); err != nil {
			return Result{}, err
		}
		if err := decodeArgs(call.Arguments, &in); err != nil {
			return Result{}, err
		}
		return handler(ctx, call, in)
	}, opts...)
	t.err = errors.Join(t.err, err)
	return t
}

// RawTool makes a tool whose schema is given and whose handler reads
// call.Arguments itself; for bridges that pass both on.
func RawTool(name, description string, inputSchema json.RawMessage, handler func(ctx context.Context, call *Call) (Result, error), opts ...ToolOption) *Tool {
	t := &Tool{handler: handler, spec: toolSpec{name: name, description: description, inputSchema: inputSchema}}
	for _, o := range opts {
		o(t)
	}
	return t
}

// Name is the tool's name.
func (t *Tool) Name() string { return t.spec.name }

// InputSchema is the schema of the tool's arguments.
func (t *Tool) InputSchema() json.RawMessage { return t.spec.inputSchema }

// decodeArgs reads arguments strictly: the schema admits no unknown key, so
// neither does this, for callers that come without the host's check.
func decodeArgs(raw []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	err := dec.Decode(into)
	if err == nil {
		if _, end := dec.Token(); end != io.EOF {
			return Errorf(InvalidArguments, "the arguments are more than one JSON value").WithRef(refBadJSON)
		}
		return nil
	}
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong):
		return Errorf(InvalidArguments, "argument %q: %s sent, %s expected", wrong.Field, wrong.Value, wrong.Type).WithRef(refBadArguments)
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
		return Errorf(InvalidArguments, "the arguments are not valid JSON: %v", err).WithRef(refBadJSON)
	}
	return Errorf(InvalidArguments, "arguments: %s", strings.TrimPrefix(err.Error(), "json: ")).WithRef(refBadArguments)
}

// requiredArgs names the properties the schema's root requires.
func requiredArgs(schema json.RawMessage) []string {
	var root struct {
		Required []string `json:"required"`
	}
	if json.Unmarshal(schema, &root) != nil {
		return nil
	}
	return root.Required
}

// missingArg gives the first required property the arguments lack.
func missingArg(required []string, raw json.RawMessage) error {
	if len(required) == 0 {
		return nil
	}
	var have map[string]json.RawMessage
	if err := json.Unmarshal(raw, &have); err != nil {
		return Errorf(InvalidArguments, "the arguments are not a JSON object").WithRef(refBadJSON)
	}
	for _, name := range required {
		if _, ok := have[name]; !ok {
			return Errorf(InvalidArguments, "argument %q is required", name).WithRef(refBadArguments)
		}
	}
	return nil
}

func (t *Tool) check() error {
	s := &t.spec
	var errs []error
	if t.err != nil {
		errs = append(errs, t.err)
	}
	if !toolName.MatchString(s.name) {
		errs = append(errs, fmt.Errorf("the name does not match %s", toolName))
	}
	if t.handler == nil {
		errs = append(errs, errors.New("no handler"))
	}
	var root map[string]json.RawMessage
	if t.err == nil && json.Unmarshal(s.inputSchema, &root) != nil {
		errs = append(errs, errors.New("the input schema is not a JSON object"))
	}
	for what, raw := range map[string]json.RawMessage{
		"output schema": s.outputSchema, "annotations": s.rawAnnotations,
		"meta": s.meta, "argument defaults": s.argDefaults,
	} {
		if len(raw) > 0 && json.Unmarshal(raw, &map[string]json.RawMessage{}) != nil {
			errs = append(errs, fmt.Errorf("%s: not a JSON object", what))
		}
	}
	if n := len(s.description) + len(s.inputSchema) + len(s.outputSchema) + len(s.rawAnnotations) + len(s.meta) + len(s.argDefaults); n > maxOffered {
		errs = append(errs, fmt.Errorf("description and schemas have %d bytes; at most %d are allowed", n, maxOffered))
	}
	if len(errs) > 0 {
		return fmt.Errorf("tool %q: %w", s.name, errors.Join(errs...))
	}
	return nil
}
