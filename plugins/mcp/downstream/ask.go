package downstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// TasksExtension is the name under which tasks are agreed on in the newer era.
const TasksExtension = "io.modelcontextprotocol/tasks"

// Methods by which a server asks its client.
const (
	Elicit = string(mcp.MethodElicitationCreate)
	// codeNeedsURL is an error that names pages to visit before the call is made again.
	codeNeedsURL = -32042
)

// maxInputs is how many things a server may ask in one result.
const maxInputs = 16

// Asks says which questions of the server are answered, and so told to it.
type Asks struct{ Form, URL bool }

// capabilities are what the client tells the server of itself; tasks = a call may
// become a task.
func (t *Target) capabilities(tasks bool) map[string]any {
	out := map[string]any{}
	if t.Asks.Form || t.Asks.URL {
		modes := map[string]any{}
		if t.Asks.Form {
			modes["form"] = map[string]any{}
		}
		if t.Asks.URL {
			modes["url"] = map[string]any{}
		}
		out["elicitation"] = modes
	}
	if tasks {
		out["extensions"] = map[string]any{TasksExtension: map[string]any{}}
	}
	return out
}

// legacyCapabilities are those of the handshake. Nobody can be led to a page while a
// request of this era waits.
func (c *Conn) legacyCapabilities() map[string]any {
	// The library's transport for the older HTTP hands no requests on.
	_, both := c.tr.(transport.BidirectionalInterface)
	if !both || !c.target.Asks.Form {
		return map[string]any{}
	}
	return map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}
}

// answer answers a request that came on a program's stdout.
func (c *Conn) answer(line json.RawMessage) {
	var req transport.JSONRPCRequest
	if json.Unmarshal(line, &req) != nil {
		return // an id of a kind that no answer could name
	}
	resp, err := c.asked(c.ctx, req)
	if err != nil || resp == nil {
		return
	}
	raw, err := json.Marshal(resp)
	if err == nil {
		_, err = c.prog.Write(append(raw, '\n'))
	}
	if err != nil {
		c.log.Debug("an answer was not taken", "method", req.Method, "error", err)
	}
}

// askedOverHTTP is asked for requests in streams, which the library hands on. They
// are counted where they are read; one is over when the tripper has sent its answer.
func (c *Conn) askedOverHTTP(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	resp, err := c.asked(ctx, req)
	if err != nil || resp == nil {
		c.flow.answered()
	}
	return resp, err
}

// asked answers a request of the server, which comes on the connection and not by
// a result. ctx is that of the request in whose stream it came, where there is one.
func (c *Conn) asked(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	switch {
	case req.Method == string(mcp.MethodPing):
		return transport.NewJSONRPCResultResponse(req.ID, json.RawMessage("{}")), nil
	case req.Method == Elicit && c.events.Asked != nil && (c.target.Asks.Form || c.target.Asks.URL):
		params, err := json.Marshal(req.Params)
		if err != nil {
			return transport.NewJSONRPCErrorResponse(req.ID, codeInvalidParams, "the parameters can't be read", nil), nil
		}
		return transport.NewJSONRPCResultResponse(req.ID, c.events.Asked(ctx, params)), nil
	}
	return transport.NewJSONRPCErrorResponse(req.ID, codeMethodNotFound, fmt.Sprintf("this client has no %s; its capabilities said so", clip(req.Method, 80)), nil), nil
}

// Input is what a server must know before it can answer a request.
type Input struct {
	Keys     []string // of the requests, in order
	Requests map[string]InputRequest
	State    json.RawMessage // to be sent back as it is; nil = none
}

// InputRequest is one of the things asked.
type InputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// NeedsInput reads a result that asks instead of answering; nil = it answers.
func (c *Conn) NeedsInput(raw json.RawMessage) (*Input, error) {
	if !c.modern() || !bytes.Contains(raw, []byte(`"input_required"`)) {
		return nil, nil
	}
	var r struct {
		Type     string                  `json:"resultType"`
		Requests map[string]InputRequest `json:"inputRequests"`
		State    json.RawMessage         `json:"requestState"`
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.Type != string(mcp.ResultTypeInputRequired) {
		return nil, nil // the words stand in the content, or result mapping says what is wrong
	}
	if len(r.Requests) > maxInputs {
		return nil, fmt.Errorf("it asks %d things at once; at most %d are answered", len(r.Requests), maxInputs)
	}
	if len(r.Requests) == 0 && len(r.State) == 0 {
		return nil, fmt.Errorf("it asks for input and says neither what nor how to go on")
	}
	if string(r.State) == "null" {
		r.State = nil
	}
	return &Input{Keys: slices.Sorted(maps.Keys(r.Requests)), Requests: r.Requests, State: r.State}, nil
}

// WithInput adds answers, and the server's state, to the parameters of a request.
func WithInput(params json.RawMessage, responses map[string]json.RawMessage, state json.RawMessage) (json.RawMessage, error) {
	if len(responses) == 0 && state == nil {
		return params, nil
	}
	inner := bytes.TrimSpace(params)
	inner = bytes.TrimSpace(inner[1 : len(inner)-1])
	var out bytes.Buffer
	out.WriteByte('{')
	out.Write(inner)
	if len(responses) > 0 {
		raw, err := json.Marshal(responses)
		if err != nil {
			return nil, err
		}
		if len(inner) > 0 {
			out.WriteByte(',')
		}
		out.WriteString(`"inputResponses":`)
		out.Write(raw)
	}
	if state != nil {
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.WriteString(`"requestState":`)
		out.Write(state)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// PagesFirst are the pages that a server's error says must be visited before the
// request can succeed, each with the server's words.
func PagesFirst(err error) []string {
	var rpc *RPCError
	var data struct {
		Elicitations []struct {
			URL     string `json:"url"`
			Message string `json:"message"`
		} `json:"elicitations"`
	}
	if !errors.As(err, &rpc) || rpc.Code != codeNeedsURL || json.Unmarshal(rpc.Data, &data) != nil {
		return nil
	}
	var out []string
	for _, e := range data.Elicitations[:min(len(data.Elicitations), 5)] {
		if strings.HasPrefix(e.URL, "https://") || strings.HasPrefix(e.URL, "http://") {
			out = append(out, fmt.Sprintf("%s (%s)", clip(e.URL, 2048), clip(strings.Join(strings.Fields(e.Message), " "), 500)))
		}
	}
	return out
}
