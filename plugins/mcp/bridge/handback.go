package bridge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/elicit"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// maxQuestion is the most bytes of a schema that the host keeps with a question,
// and maxHanded of what is needed to go on.
const (
	maxQuestion = 16 << 10
	maxHanded   = 60 << 10
)

// handed is what the host keeps of a call whose question was handed back: enough
// to go on with it in another process, even of the host.
type handed struct {
	Ledger    string                     `json:"ledger"`
	Server    string                     `json:"server"` // its identity: a server that is another one by now gets no answers
	Args      json.RawMessage            `json:"args"`   // of the call, before files were put in place of paths
	State     json.RawMessage            `json:"state,omitempty"`
	Responses map[string]json.RawMessage `json:"responses,omitempty"`
	Questions map[string]json.RawMessage `json:"questions"`
	Count     int                        `json:"count"`
	Round     int                        `json:"round"`
	Asked     []elicit.Asked             `json:"asked,omitempty"`
}

// handsBack reports whether questions of a call may go to whoever made it.
func (s *server) handsBack(call *sdk.Call) bool {
	return call.CanAnswer && call.SessionRef != "" && s.policy().Mode == "handback"
}

func (s *server) handbackTTL() time.Duration {
	if s.conf.HandbackTTL > 0 {
		return s.conf.HandbackTTL.Std()
	}
	return defaultHandbackTTL
}

// handBack makes the result by which a call asks, unless too many questions are
// open or it could not be kept.
func (b *Bridge) handBack(ctx context.Context, s *server, x *exchange, back *handedBack) error {
	a := x.asking
	a.mu.Lock()
	h := handed{Ledger: rand.Text(), Server: s.id, Args: a.args, State: x.state, Responses: x.responses, Questions: back.params,
		Count: a.count, Round: x.round, Asked: slices.Clone(a.asked)}
	a.mu.Unlock()
	raw, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if len(raw) > maxHanded {
		return fmt.Errorf("the question and what the server wants back with it have %d bytes; at most %d can be kept", len(raw), maxHanded)
	}
	for _, r := range back.requests {
		if len(r.Schema) > maxQuestion || len(r.Message) > maxQuestion {
			return fmt.Errorf("the question has %d bytes; at most %d can be handed back", len(r.Schema)+len(r.Message), maxQuestion)
		}
	}
	c := s.inForce()
	if err := b.pending.open(ctx, b, h.Ledger, a.session, len(back.requests), time.Now().Add(s.handbackTTL()), c.MaxPending, c.MaxPendingPerSession); err != nil {
		return err
	}
	back.result = sdk.NeedInput(back.requests, raw)
	return nil
}

// handBackForm is the question for a form, without the fields that are settled.
func (s *server) handBackForm(form *elicit.Form, have elicit.Values) *sdk.InputRequest {
	r := &sdk.InputRequest{Kind: sdk.AskForm, Schema: form.Schema, Audience: sdk.ToAgent, TTL: s.handbackTTL()}
	for _, f := range form.Fields {
		if _, settled := have[f.Name]; !settled && f.Decision() {
			r.Decision = true
		}
	}
	if len(have) > 0 {
		r.Schema = without(form.Schema, have)
	}
	r.Message = fmt.Sprintf("MCP server %q asks: %s", s.conf.Name, strings.TrimSpace(form.Message))
	if r.Decision {
		r.Message += "\n(It holds a decision: ask the user, and answer after the user has said something.)"
	}
	return r
}

func (s *server) handBackURL(u *elicit.URL) *sdk.InputRequest {
	return &sdk.InputRequest{Kind: sdk.AskURL, URL: u.URL, Audience: sdk.ToAgent, TTL: s.handbackTTL(),
		Message: fmt.Sprintf("MCP server %q asks to open a page in a browser: %s", s.conf.Name, strings.TrimSpace(u.Message))}
}

// without is a form's schema less some of its fields.
func without(schema json.RawMessage, have elicit.Values) json.RawMessage {
	var s map[string]json.RawMessage
	var props map[string]json.RawMessage
	var required []string
	if json.Unmarshal(schema, &s) != nil || json.Unmarshal(s["properties"], &props) != nil {
		return schema
	}
	_ = json.Unmarshal(s["required"], &required) // it was read before
	for name := range have {
		delete(props, name)
	}
	required = slices.DeleteFunc(required, func(n string) bool { _, ok := have[n]; return ok })
	s["properties"], s["required"] = mustJSON(props), mustJSON(required)
	if len(required) == 0 {
		delete(s, "required")
	}
	return mustJSON(s)
}

// mustJSON is v as JSON; v holds strings and raw JSON that was read before.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// takeUp continues a call with the answers to what it had handed back.
func (s *server) takeUp(ctx context.Context, call *sdk.Call, x *exchange) error {
	var h handed
	if err := json.Unmarshal(call.State, &h); err != nil {
		return sdk.Errorf(sdk.ExecutionFailed, "what was kept of the call can't be read: %v", err)
	}
	s.b.pending.close(ctx, s.b, h.Ledger)
	if h.Server != s.id {
		return sdk.Errorf(sdk.Interrupted, "server %q was configured anew while its question was open; call it again", s.conf.Name)
	}
	a := x.asking
	a.args, a.count, a.asked = h.Args, h.Count, h.Asked
	x.responses, x.state, x.round = h.Responses, h.State, h.Round
	if x.responses == nil {
		x.responses = map[string]json.RawMessage{}
	}
	for key, params := range h.Questions {
		x.responses[key] = s.handedAnswer(a, params, call.Input[key]).response()
	}
	return nil
}

// handedAnswer makes an answer what the server gets: checked again, for the form
// says more than the host knows, and the operator's defaults on top.
func (s *server) handedAnswer(a *asking, params json.RawMessage, in sdk.Answer) answered {
	log := elicit.Asked{Action: "decline", Why: orElse(in.Reason, "by "+orElse(in.AnsweredBy, "nobody"))}
	out := answered{action: "decline"}
	q, err := elicit.Read(params)
	switch {
	case err != nil:
		log.Why = err.Error()
	case q.URL != nil:
		log.Message = q.URL.Message
		if in.Accepted() {
			log.Action, out = "accept", answered{action: "accept"}
		}
	default:
		log.Message = q.Form.Message
		for _, f := range q.Form.Fields {
			log.Fields = append(log.Fields, f.Name)
		}
		if !in.Accepted() {
			break
		}
		content, err := s.completed(q.Form, in.Content)
		if err != nil {
			log.Why = "the answer does not fit the form: " + err.Error()
			break
		}
		log.Action, out = "accept", answered{action: "accept", content: content}
	}
	if in.Action == "cancel" {
		log.Action, out.action = "cancel", "cancel"
	}
	a.record(log)
	return out
}

func (s *server) completed(form *elicit.Form, content json.RawMessage) (json.RawMessage, error) {
	set, err := elicit.ReadValues(s.policy().Defaults)
	if err != nil {
		return nil, err
	}
	values, _ := form.Defaults(set)
	given, err := elicit.ReadValues(content)
	if err != nil {
		return nil, err
	}
	for name, v := range values {
		given[name] = v
	}
	got, err := form.Fit(mustJSON(given))
	if err != nil {
		return nil, err
	}
	return form.Content(got), nil
}

// pending counts the questions that are open, across restarts of the bridge.
type pending struct {
	mu     sync.Mutex
	known  map[string]openQuestion
	loaded bool
}

type openQuestion struct {
	Session string    `json:"session"`
	Count   int       `json:"count"`
	Until   time.Time `json:"until"`
}

const pendingPrefix = "handback/"

// load reads what an earlier process left open.
func (p *pending) load(ctx context.Context, b *Bridge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded {
		return
	}
	p.known = map[string]openQuestion{}
	state := b.plugin.Host().State()
	for after := ""; ; {
		entries, next, err := state.List(ctx, pendingPrefix, after, 500)
		if err != nil {
			b.plugin.Logger().Warn("open questions can't be read", "error", err)
			return
		}
		for _, e := range entries {
			raw, _, found, err := state.Get(ctx, e.Key)
			var q openQuestion
			if err != nil || !found || json.Unmarshal(raw, &q) != nil {
				continue
			}
			p.known[strings.TrimPrefix(e.Key, pendingPrefix)] = q
		}
		if after = next; after == "" {
			break
		}
	}
	p.loaded = true
}

// open books n questions, or says why there is no room for them.
func (p *pending) open(ctx context.Context, b *Bridge, id, session string, n int, until time.Time, most, perSession int) error {
	p.load(ctx, b)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = map[string]openQuestion{}
	}
	now := time.Now()
	all, own := n, n
	for key, q := range p.known {
		if q.Until.Before(now) {
			delete(p.known, key)
			p.forget(ctx, b, key)
			continue
		}
		all += q.Count
		if q.Session == session {
			own += q.Count
		}
	}
	switch {
	case own > perSession:
		return fmt.Errorf("%d questions of servers are open in this session (max_pending_questions_per_session)", own-n)
	case all > most:
		return fmt.Errorf("%d questions of servers are open (max_pending_questions)", all-n)
	}
	q := openQuestion{session, n, until}
	if _, err := b.plugin.Host().State().Put(ctx, pendingPrefix+id, mustJSON(q), true); err != nil {
		return fmt.Errorf("it could not be written down: %w", err)
	}
	p.known[id] = q
	return nil
}

// close frees the room of questions that were answered.
func (p *pending) close(ctx context.Context, b *Bridge, id string) {
	p.load(ctx, b)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, id)
	p.forget(ctx, b, id)
}

func (p *pending) forget(ctx context.Context, b *Bridge, id string) {
	if _, err := b.plugin.Host().State().Delete(ctx, pendingPrefix+id); err != nil {
		b.plugin.Logger().Debug("a closed question is still in the ledger", "error", err)
	}
}

// handsBackAnywhere reports whether any server may hand back.
func handsBackAnywhere(servers []settings.Server) bool {
	return slices.ContainsFunc(servers, func(s settings.Server) bool { return s.Elicitation != nil && s.Elicitation.Mode == "handback" })
}

var _ error = (*handedBack)(nil)
