package mcpserver

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
)

// by is who answers through a client: its agent, never a person we know of.
func by(agent *policy.Agent) question.By {
	return question.By{Name: agent.Name, Approver: agent.Approver}
}

// canAsk says whether a client declared that it can settle a kind of question.
func canAsk(caps mcp.ClientCapabilities, kind string) bool {
	switch kind {
	case "form", "url", "approval":
		return caps.Elicitation != nil
	case "model":
		return caps.Sampling != nil
	case "roots":
		return caps.Roots != nil
	}
	return false
}

// askable picks the questions that may go to a client. An approval never goes to
// the agent that wants it, unless that agent is an approver itself.
func askable(agent *policy.Agent, caps mcp.ClientCapabilities) func([]store.Question) []store.Question {
	return func(questions []store.Question) []store.Question {
		return slices.DeleteFunc(slices.Clone(questions), func(q store.Question) bool {
			return !canAsk(caps, q.Kind) || (q.Kind == "approval" && !agent.Approver) ||
				(q.Kind != "approval" && q.Audience == "person" && q.NoFallback)
		})
	}
}

// params is what a client is asked, beside the method.
func params(q store.Question) any {
	switch {
	case q.Kind == "model" && json.Valid(q.ModelRequest):
		return json.RawMessage(q.ModelRequest)
	case q.Kind == "model" || q.Kind == "roots":
		return struct{}{}
	}
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

// method is the request by which a client is asked a question.
func method(q store.Question) mcp.MCPMethod {
	switch q.Kind {
	case "model":
		return mcp.MethodSamplingCreateMessage
	case "roots":
		return mcp.MethodListRoots
	}
	return mcp.MethodElicitationCreate
}

// tries is how often a client is asked one question when its answers do not fit.
const tries = 3

// elicit puts questions to a client of the session era while its call waits. Each
// runs on its own until answered or the call ends.
func (d *door) elicit(ctx context.Context, p *peer, questions []store.Question) {
	for _, q := range questions {
		p.spawn(func() {
			for range tries {
				raw, err := p.ask(ctx, string(method(q)), params(q))
				if err == nil {
					err = d.settle(ctx, p.agent, q, raw)
				}
				if err == nil || ctx.Err() != nil {
					return
				}
				d.core.Log.Info("a client did not answer a question as it must be answered", "question", q.ID, "error", err)
				if fault.From(err).Ref != fault.BadArguments {
					return // it won't; somebody else may
				}
			}
			if _, err := d.core.Questions.Answer(ctx, q.ID, by(p.agent), "cancel", nil, "the client's answers do not fit the question"); err != nil {
				d.core.Log.Info("a question could not be cancelled", "question", q.ID, "error", err)
			}
		})
	}
}

// settle hands a client's answer to the desk.
func (d *door) settle(ctx context.Context, agent *policy.Agent, q store.Question, raw json.RawMessage) error {
	action, answer := gjson.GetBytes(raw, "action").Str, gjson.GetBytes(raw, "content").Raw
	switch q.Kind {
	case "approval":
		verdict := "deny"
		if action == "accept" && gjson.Get(answer, "approve").Bool() {
			verdict = "approve"
		}
		action, answer = verdict, ""
	case "model", "roots":
		action, answer = "accept", string(raw)
	}
	_, err := d.core.Questions.Answer(ctx, q.ID, by(agent), action, []byte(answer), "")
	return err
}

// inputRequired asks a client of 2026-07-28 by the result: it reports whether the
// questions can be put to it, and makes them the answer. What the client carries
// back is sealed, so that it can't be made up.
func (d *door) inputRequired(x *exchange, questions, open []store.Question) bool {
	if len(open) == 0 || len(open) < len(questions) {
		return false // some of it must be settled elsewhere
	}
	requests := map[string]any{}
	for _, q := range open {
		requests[q.RequestID] = map[string]any{"method": method(q), "params": params(q)}
	}
	raw, err := json.Marshal(requests)
	if err != nil {
		d.core.Log.Warn("questions could not be written", "error", err)
		return false
	}
	state, err := d.sign(strings.Join(ids(open), ",") + "|" + x.subject())
	if err != nil {
		d.core.Log.Error("a request state could not be sealed", "error", err)
		return false
	}
	for _, key := range []string{"content", "messages", "contents"} {
		x.splice[key] = nil
	}
	x.splice["resultType"] = mustJSON(mcp.ResultTypeInputRequired)
	x.splice["inputRequests"], x.splice["requestState"] = raw, mustJSON(state)
	return true
}

// brought settles questions whose answers came along before they were asked. What
// does not fit is as if it had not been sent.
func (d *door) brought(ctx context.Context, agent *policy.Agent, open []store.Question, responses gjson.Result) bool {
	settled := false
	for _, q := range open {
		if raw := responses.Get(gjson.Escape(q.RequestID)); raw.IsObject() {
			settled = d.settle(ctx, agent, q, json.RawMessage(raw.Raw)) == nil || settled
		}
	}
	return settled
}

// subject is what a request asks for, and in which session: an answer is for that
// and nothing else.
func (x *exchange) subject() string {
	what := x.params.Get("name").Raw + x.params.Get("uri").Raw
	return question.Hash([]byte(`[` + strings.Join([]string{strconv.Quote(x.peer.session.ID), cmp.Or(what, "null"), cmp.Or(x.params.Get("arguments").Raw, "{}")}, ",") + `]`))
}

// takeAnswers settles the questions a retried call brings answers for.
func (d *door) takeAnswers(ctx context.Context, x *exchange) error {
	p, state, responses := x.peer, x.params.Get("requestState"), x.params.Get("inputResponses")
	if !state.Exists() {
		return nil
	}
	known, ok := d.verify(state.Str)
	if !ok {
		return fault.New(fault.BadArguments, "requestState was not issued to this agent, or was changed on the way")
	}
	known, subject, _ := strings.Cut(known, "|")
	if subject != x.subject() {
		return fault.New(fault.BadArguments, "requestState belongs to another call; send the same request again in the same session, with the same arguments")
	}
	for id := range strings.SplitSeq(known, ",") {
		q, err := d.core.Questions.Get(ctx, by(p.agent), id)
		if err != nil {
			return err
		}
		raw := responses.Get(gjson.Escape(q.RequestID))
		if !raw.Exists() || q.Outcome != "" {
			continue // still open: the call asks again; or a retry of the retry
		}
		if err := d.settle(ctx, p.agent, q, json.RawMessage(raw.Raw)); err != nil {
			return err
		}
	}
	return nil
}

// sign seals text for this agent, so that it can be neither read nor made up.
func (d *door) sign(text string) (string, error) {
	sealed, err := d.core.Store.Seal(sealScope, []byte(d.name), []byte(text))
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

func (d *door) verify(state string) (text string, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		return "", false
	}
	plain, err := d.core.Store.Unseal(sealScope, []byte(d.name), sealed)
	return string(plain), err == nil
}

const sealScope = "mcp request state"
