package mcpserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
)

func (cl *client) canElicit() bool { return cl.GetClientCapabilities().Elicitation != nil }

// by is who answers through this client: its agent, never a person we know of.
func (cl *client) by() question.By {
	return question.By{Name: cl.agent.Name, Approver: cl.agent.Approver}
}

// askable are the questions that may go to this client. An approval never goes to
// the agent that wants it, unless that agent is an approver itself.
func (cl *client) askable(questions []store.Question) []store.Question {
	return slices.DeleteFunc(slices.Clone(questions), func(q store.Question) bool {
		switch q.Kind {
		case "form", "url":
			return q.Audience == "person" && q.NoFallback
		case "approval":
			return !cl.agent.Approver
		}
		return true
	})
}

// params is a question as an elicitation.
func params(q store.Question) map[string]any {
	p := map[string]any{"message": q.Message}
	switch {
	case q.Kind == "url":
		p["mode"], p["url"], p["elicitationId"] = "url", q.URL, q.ID
	case q.Kind == "approval":
		p["requestedSchema"] = json.RawMessage(`{"type":"object","properties":{"approve":{"type":"boolean","description":"Let the call run"}},"required":["approve"]}`)
	case len(q.Schema) > 0 && json.Valid(q.Schema):
		p["requestedSchema"] = json.RawMessage(q.Schema)
	default:
		p["requestedSchema"] = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return p
}

// elicit puts questions to a client of the session era while its call waits. Each
// runs on its own until answered or the call ends.
func (cl *client) elicit(ctx context.Context, questions []store.Question) {
	for _, q := range cl.askable(questions) {
		cl.conn.running.Add(1)
		go func() {
			defer cl.conn.running.Done()
			raw, err := cl.conn.ask(ctx, "elicitation/create", params(q))
			if err == nil {
				err = cl.settle(ctx, q, raw)
			}
			if err != nil && ctx.Err() == nil {
				cl.core.Log.Info("a client did not answer a question", "question", q.ID, "error", err)
			}
		}()
	}
}

// settle hands a client's answer to the desk.
func (cl *client) settle(ctx context.Context, q store.Question, raw json.RawMessage) error {
	action, content := gjson.GetBytes(raw, "action").Str, gjson.GetBytes(raw, "content")
	if q.Kind == "approval" {
		verdict := "deny"
		if action == "accept" && content.Get("approve").Bool() {
			verdict = "approve"
		}
		action, content = verdict, gjson.Result{}
	}
	_, err := cl.core.Questions.Answer(ctx, q.ID, cl.by(), action, []byte(content.Raw), "")
	return err
}

// inputRequired asks a client of 2026-07-28 by the call's result. What the client
// carries back is sealed, so that it can't be made up.
func (cl *client) inputRequired(questions []store.Question) *mcp.CallToolResult {
	open := cl.askable(questions)
	if len(open) == 0 || len(open) < len(questions) {
		return nil // some of it must be settled elsewhere
	}
	requests := mcp.InputRequests{}
	for _, q := range open {
		var p mcp.ElicitationParams
		raw, err := json.Marshal(params(q))
		if err != nil || json.Unmarshal(raw, &p) != nil {
			return nil
		}
		requests[q.ID] = mcp.NewElicitationInputRequest(p)
	}
	r := &mcp.CallToolResult{Content: []mcp.Content{}}
	r.ResultType = mcp.ResultTypeInputRequired
	state, err := cl.sign(strings.Join(ids(open), ","))
	if err != nil {
		cl.core.Log.Error("a request state could not be sealed", "error", err)
		return nil
	}
	r.InputRequests, r.RequestState = requests, state
	return r
}

// takeAnswers settles the questions a retried call brings answers for.
func (cl *client) takeAnswers(ctx context.Context, params gjson.Result) error {
	state, responses := params.Get("requestState"), params.Get("inputResponses")
	if !state.Exists() {
		return nil
	}
	known, ok := cl.verify(state.Str)
	if !ok {
		return fault.New(fault.BadArguments, "requestState was not issued to this agent, or was changed on the way")
	}
	for id := range strings.SplitSeq(known, ",") {
		raw := responses.Get(id)
		if !raw.Exists() {
			continue // still open: the call asks again
		}
		q, err := cl.core.Questions.Get(ctx, cl.by(), id)
		if err != nil {
			return err
		}
		if q.Outcome != "" {
			continue // a retry of the retry
		}
		if err := cl.settle(ctx, q, json.RawMessage(raw.Raw)); err != nil {
			return err
		}
	}
	return nil
}

// sign seals text for this agent, so that it can be neither read nor made up.
func (cl *client) sign(text string) (string, error) {
	sealed, err := cl.core.Store.Seal(sealScope, []byte(cl.agent.Name), []byte(text))
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

func (cl *client) verify(state string) (text string, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		return "", false
	}
	plain, err := cl.core.Store.Unseal(sealScope, []byte(cl.agent.Name), sealed)
	return string(plain), err == nil
}

const sealScope = "mcp request state"
