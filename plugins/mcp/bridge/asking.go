package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/elicit"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	defaultMaxPerCall       = 3
	defaultResponderTimeout = 20 * time.Second
	defaultHandbackTTL      = 30 * time.Minute
	// lastMoment is what is left of a deadline to send an answer.
	lastMoment = 2 * time.Second
	// maxInputRounds is how often one request may be answered by questions. Answers
	// that decline count too, so that no server asks for ever.
	maxInputRounds = 12
)

// asking is one request to a server, and what the server asked meanwhile.
type asking struct {
	what string // tool "x", prompt "y"
	tool string // empty for others than tools
	args json.RawMessage
	call *sdk.Call // nil: nobody waits, as for a task
	// session is the durable handle of the session it is for.
	session, namespace string

	mu       sync.Mutex
	count    int // questions, whatever became of them
	asked    []elicit.Asked
	declined bool
	// repeated forbids handing questions back: somebody else began this attempt.
	repeated bool
}

// refused reports whether a question was not answered. Then the request must not
// be sent again unasked: it would only be asked again.
func (a *asking) refused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.declined
}

func (a *asking) record(q elicit.Asked) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = elicit.Add(a.asked, q)
	a.declined = a.declined || q.Action != "accept"
}

// note is what an agent is told of the questions.
func (a *asking) note(server string, tool *downstream.Tool) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.asked) == 0 {
		return "" // of most calls; the schema need not be read
	}
	return elicit.Note(server, a.asked, parameters(tool))
}

// noted adds the note to what a call gives, whichever way it ended.
func (a *asking) noted(server string, tool *downstream.Tool, r sdk.Result, err error) (sdk.Result, error) {
	note := a.note(server, tool)
	if note == "" {
		return r, err
	}
	if err == nil {
		r.Content = append(slices.Clone(r.Content), sdk.Text(note))
		return r, nil
	}
	var own *sdk.Error
	if !errors.As(err, &own) {
		return r, err
	}
	told := *own
	told.Message += "\n" + note
	return r, &told
}

// parameters are the names of a tool's own arguments.
func parameters(t *downstream.Tool) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if t == nil || json.Unmarshal(t.InputSchema, &s) != nil {
		return nil
	}
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	return names
}

type askingKey struct{}

// during makes a known as the request that runs in ctx and on this server.
func (s *server) during(ctx context.Context, a *asking) (context.Context, func()) {
	s.askMu.Lock()
	if s.asking == nil {
		s.asking = map[*asking]bool{}
	}
	s.asking[a] = true
	s.askMu.Unlock()
	return context.WithValue(ctx, askingKey{}, a), func() {
		s.askMu.Lock()
		delete(s.asking, a)
		s.askMu.Unlock()
	}
}

// whose are the requests that a question on the connection may belong to: the one
// in whose stream it came, that of the task it names, else all that are open.
func (s *server) whose(ctx context.Context, params json.RawMessage) []*asking {
	if a, ok := ctx.Value(askingKey{}).(*asking); ok {
		return []*asking{a}
	}
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var related struct {
		ID string `json:"taskId"`
	}
	if json.Unmarshal(params, &p) == nil && json.Unmarshal(p.Meta["io.modelcontextprotocol/related-task"], &related) == nil {
		if a := s.b.tasks.asking(s.id, related.ID); a != nil {
			return []*asking{a}
		}
	}
	s.askMu.Lock()
	defer s.askMu.Unlock()
	var all []*asking
	for a := range s.asking {
		all = append(all, a)
	}
	return all
}

// policy is how questions of a server are answered.
type policy struct {
	settings.Elicitation
	own bool // the server's own block says so
}

// policy of the server: its own block, else the bridge's default, which never
// hands back.
func (s *server) policy() policy {
	var p policy
	switch d := s.inForce().DefaultElicitation; {
	case s.conf.Elicitation != nil && !s.agent:
		p = policy{*s.conf.Elicitation, true}
	case d != nil:
		p = policy{Elicitation: *d}
		if p.Mode == "handback" {
			p.Mode = "auto"
		}
	}
	if p.Mode == "" {
		p.Mode = "auto"
	}
	if p.MaxPerCall == nil {
		n := defaultMaxPerCall
		p.MaxPerCall = &n
	}
	if p.ResponderTimeout == 0 {
		p.ResponderTimeout = sdk.Duration(defaultResponderTimeout)
	}
	return p
}

// asks says what the server is told of the questions that are answered. Pages in a
// browser are for persons, whom only a question that is handed back reaches.
func (s *server) asks() downstream.Asks {
	p := s.policy()
	return downstream.Asks{Form: p.Mode != "off", URL: p.Mode == "handback"}
}

// count books a question on all requests it may belong to, and says whether one
// more was admitted. They are booked together: two questions at once must not both
// be the last.
func (s *server) count(whose []*asking, most int) bool {
	s.askMu.Lock()
	defer s.askMu.Unlock()
	admitted := true
	for _, a := range whose {
		a.mu.Lock()
		if a.count++; a.count > most {
			admitted = false
		}
		a.mu.Unlock()
	}
	return admitted
}

// onConnection answers a question that came on the connection.
func (s *server) onConnection(ctx context.Context, params json.RawMessage) json.RawMessage {
	whose := s.whose(ctx, params)
	// The transport ends with its own patience; an answer that came then would be lost.
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-lastMoment))
		defer cancel()
	}
	// A question of the older revisions is never handed back: the request that asked
	// it would have to stay open.
	return s.answer(ctx, whose, params, false).response()
}

// answered is what becomes of a question.
type answered struct {
	action  string
	content json.RawMessage
	back    *sdk.InputRequest // to be handed back instead
}

func (a answered) response() json.RawMessage {
	if a.action != "accept" {
		return quote(map[string]string{"action": a.action})
	}
	content := a.content
	if len(content) == 0 {
		content = json.RawMessage("{}")
	}
	return json.RawMessage(`{"action":"accept","content":` + string(content) + `}`)
}

// answer decides on one question by the rules, the first that applies. It never
// fails: who can't answer declines.
func (s *server) answer(ctx context.Context, whose []*asking, params json.RawMessage, back bool) answered {
	p := s.policy()
	log := elicit.Asked{Action: "decline"}
	q, err := elicit.Read(params)
	if q != nil && q.Form != nil {
		log.Message = s.hide.Text(q.Form.Message)
		for _, f := range q.Form.Fields {
			log.Fields = append(log.Fields, f.Name)
		}
	}
	if q != nil && q.URL != nil {
		log.Message = s.hide.Text(q.URL.Message)
	}
	end := func(action, why string, content json.RawMessage) answered {
		log.Action, log.Why = action, why
		for _, a := range whose {
			a.record(log)
		}
		s.log.Debug("a question of the server", "action", action, "why", why, "fields", log.Fields)
		return answered{action: action, content: content}
	}
	decline := func(format string, args ...any) answered { return end("decline", fmt.Sprintf(format, args...), nil) }
	switch {
	case len(whose) == 0:
		return decline("no call is running that it could belong to")
	case p.Mode != "auto" && p.Mode != "defaults" && p.Mode != "handback":
		return decline("questions of this server are not answered (elicitation mode %q)", p.Mode)
	case q != nil && q.URL != nil && !(back && p.Mode == "handback"):
		return decline("it leads to a page in a browser, and nobody can be led there")
	case !s.count(whose, *p.MaxPerCall):
		return decline("the server asked more than max_per_call %d questions", *p.MaxPerCall)
	case err != nil:
		return decline("%v", err)
	}
	if q.URL != nil {
		return answered{back: s.handBackURL(q.URL)}
	}
	form := q.Form
	if why := form.Credential(p.DeniedFields); why != "" {
		return decline("%s, and such are never filled in; a secret goes into the server's own settings", why)
	}
	set, err := elicit.ReadValues(p.Defaults)
	if err != nil {
		return decline("the defaults in the settings can't be read")
	}
	values, stale := form.Defaults(set)
	if len(stale) > 0 {
		s.log.Warn("defaults that no longer fit the question are left out", "fields", stale)
	}
	if len(form.Fields) > 0 && len(values) == len(form.Fields) {
		return end("accept", "from configured defaults", form.Content(values))
	}
	if p.Mode == "defaults" {
		return s.fromDefaults(form, values, end)
	}
	if back && p.Mode == "handback" {
		return answered{back: s.handBackForm(form, values)}
	}
	return s.respond(ctx, whose, p, form, values, end)
}

// fromDefaults answers from the operator's values and, where there are none, from
// those the server itself proposes.
func (s *server) fromDefaults(form *elicit.Form, values elicit.Values, end func(string, string, json.RawMessage) answered) answered {
	for _, f := range form.Fields {
		if _, ok := values[f.Name]; !ok && f.Default != nil {
			values[f.Name] = f.Default
		}
	}
	if err := form.Missing(values); err != nil {
		return end("decline", "neither the settings nor the form have defaults for all of it: "+err.Error(), nil)
	}
	if len(values) == 0 && len(form.Fields) > 0 {
		return end("decline", "neither the settings nor the form have defaults", nil)
	}
	return end("accept", "from defaults", form.Content(values))
}

// respond lets a responder fill in what the defaults left open, but for decisions:
// these are a person's.
func (s *server) respond(ctx context.Context, whose []*asking, p policy, form *elicit.Form, values elicit.Values, end func(string, string, json.RawMessage) answered) answered {
	if len(form.Fields) == 0 {
		return end("accept", "it asks for nothing", nil)
	}
	rest := *form
	rest.Fields = nil
	decisions := 0
	for _, f := range form.Fields {
		_, have := values[f.Name]
		switch {
		case have:
		case f.Decision() && f.Required:
			return end("decline", "the field "+fmt.Sprintf("%q", f.Name)+" is a decision, and those are for a person", nil)
		case f.Decision():
			decisions++
		default:
			rest.Fields = append(rest.Fields, f)
		}
	}
	if len(rest.Fields) == 0 {
		if decisions > 0 && len(values) == 0 {
			return end("decline", "it only asks for decisions, and those are for a person", nil)
		}
		return end("accept", "from configured defaults", form.Content(values))
	}
	r, why := s.responder(p)
	if r == nil {
		return end("decline", why, nil)
	}
	timed, cancel := context.WithTimeout(ctx, p.ResponderTimeout.Std())
	defer cancel()
	action, content, err := r(timed, whose, &rest)
	switch {
	case err != nil:
		return end("decline", "nobody could answer it: "+clip(err.Error(), 300), nil)
	case action != "accept":
		return end("decline", "what is known does not answer it", nil)
	}
	got, err := rest.Fit(content)
	if err != nil {
		return end("decline", "the answer does not fit the form: "+err.Error(), nil)
	}
	for name, v := range values {
		got[name] = v
	}
	if err := form.Missing(got); err != nil {
		return end("decline", err.Error(), nil)
	}
	if len(got) == 0 {
		return end("decline", "what is known does not answer it", nil)
	}
	return end("accept", "by the responder", form.Content(got))
}
