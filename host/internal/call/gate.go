package call

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// gate holds a call for which something is still open: a repeat of a frozen call
// meets that one, and a restricted tool needs a person's approval. done says the
// call ends here with the result.
func (p *Pipeline) gate(ctx context.Context, c *call, reply *Reply) (done bool, result *pluginv1.Result, err error) {
	restricted := c.tool.Rating.Tier == pluginv1.Tier_TIER_RESTRICTED
	if c.Agent == nil {
		if restricted {
			return true, nil, fault.New(fault.NoOwner, "plugin %q acts for itself and may not call %q: its block names no owner", c.plugin(), c.tool.Name)
		}
		return false, nil, nil
	}
	if c.Session == nil {
		return false, nil, nil
	}
	if done, result, err := p.repeat(ctx, c, reply); done || err != nil || c.taken || !restricted {
		return done, result, err
	}
	frozen := p.freeze(c)
	parked, err := p.Questions.Park(ctx, frozen, []*pluginv1.InputRequest{{
		Id: "approval", Kind: "approval", Audience: "person", NoFallback: true, Decision: true,
		Message: approvalText(c),
	}})
	if err != nil {
		return true, nil, err
	}
	c.Session.MarkAsked()
	return p.hold(ctx, c, reply, parked)
}

// repeat lets a call that was frozen before go on instead of beginning anew.
func (p *Pipeline) repeat(ctx context.Context, c *call, reply *Reply) (done bool, result *pluginv1.Result, err error) {
	if c.Agent == nil || c.Session == nil || !c.Session.Asks() {
		return false, nil, nil // nothing was ever frozen in this session
	}
	found, err := p.Questions.Match(ctx, c.Agent.Name, c.Session.ID, c.subject(), c.args)
	switch {
	case err != nil || found == nil:
		return err != nil, nil, err
	case found.Result != nil:
		c.returned = !ofHost(found.Result.Error)
		return true, found.Result, nil
	case found.Permit != nil:
		p.take(c, *found.Permit, found.Input)
		return false, nil, nil
	}
	return p.hold(ctx, c, reply, found.Parked)
}

// ofHost says whether a kept result is the host's word instead of the tool's.
func ofHost(e *pluginv1.Error) bool {
	_, known := fault.Lookup(fault.Ref(e.GetRef()))
	return known
}

// capable refuses questions that only the caller's client could settle and can't.
func capable(c *call, requests []*pluginv1.InputRequest) error {
	if c.Capable == nil {
		return nil
	}
	for _, r := range requests {
		only := r.Kind == "model" || r.Kind == "roots" || (r.Audience == "agent" && r.NoFallback)
		if only && !c.Capable(r.Kind) {
			return fault.New(fault.NoAnswerer, "%q asks a question of kind %q that only the client can answer, and it says it can't", c.subject(), r.Kind)
		}
	}
	return nil
}

// shownArguments is how much of the arguments stands in an approval's text, in bytes.
const shownArguments = 4000

func approvalText(c *call) string {
	text := fmt.Sprintf("Agent %q wants to call %s with %s", c.Agent.Name, c.tool.Name, clip(c.args, shownArguments))
	if len(c.args) > shownArguments {
		text += fmt.Sprintf(" [%d bytes in all, SHA-256 %s; see them whole before you approve]", len(c.args), question.Hash(c.args))
	}
	if len(c.chain) > 0 {
		text += " (through " + strings.Join(c.chain, " → ") + ")"
	}
	return text
}

func (p *Pipeline) freeze(c *call) store.FrozenCall {
	f := question.NewCall(c.Agent.Name, c.Session.ID, c.Run, c.ModelTier, c.subject(), c.owner(), c.args)
	f.Chain = c.chain
	return f
}

// hold waits with the caller for a frozen call. When it is answered in time the
// call goes on here; else the caller is told how to come back.
func (p *Pipeline) hold(ctx context.Context, c *call, reply *Reply, parked *question.Parked) (bool, *pluginv1.Result, error) {
	if c.Asked != nil {
		c.Asked(ctx, parked.Questions)
	}
	for above := c.parent; above != nil; above = above.parent {
		above.clock.pause()
		defer above.clock.resume()
	}
	input, err := parked.Wait(ctx, patience(c, parked.Questions))
	if err == question.ErrStillOpen {
		reply.Questions = parked.Questions
		c.root().leaveOpen(parked.Questions)
		return true, Waiting(parked.Questions), nil
	}
	if err != nil {
		return true, nil, err
	}
	p.take(c, parked.Frozen, input)
	return false, nil, nil
}

// patience is how long a caller waits for answers. It does not wait for its own:
// an agent whose client can't show a question must get it to be able to answer it.
func patience(c *call, questions []store.Question) time.Duration {
	own := !slices.ContainsFunc(questions, func(q store.Question) bool { return q.Audience != "agent" })
	if own && !c.CanElicit {
		return 0
	}
	return c.Hold
}

// root is the agent's own call above c.
func (c *call) root() *call {
	for c.parent != nil {
		c = c.parent
	}
	return c
}

func (c *call) leaveOpen(questions []store.Question) {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	c.open = append(c.open, questions...)
}

// leftOpen are the questions of nested calls that a result tells of: the caller's
// door shows them as it shows the call's own.
func (c *call) leftOpen(result *pluginv1.Result) []store.Question {
	ref := result.Error.GetRef()
	if ref != string(fault.NeedsApproval) && ref != string(fault.WaitingForPerson) {
		return nil
	}
	c.openMu.Lock()
	defer c.openMu.Unlock()
	return slices.DeleteFunc(c.open, func(q store.Question) bool { return !strings.Contains(result.Error.Message, q.ID) })
}

// take makes c the one call that goes on with a frozen one. Round 0 was frozen by
// the tier gate: the tool itself has not asked anything yet.
func (p *Pipeline) take(c *call, f store.FrozenCall, input map[string]*pluginv1.Answer) {
	c.taken = true
	if f.Round > 0 {
		c.attempt = &pluginv1.Attempt{Round: uint32(f.Round), Input: input, State: f.State}
	}
}

// Waiting is the result of a call whose caller's patience ended first.
func Waiting(questions []store.Question) *pluginv1.Result {
	ids := make([]string, len(questions))
	kinds := make([]string, len(questions))
	for i, q := range questions {
		ids[i], kinds[i] = q.ID, Describe(q)
	}
	what := "an answer"
	f := fault.New(fault.WaitingForPerson, "")
	if questions[0].Kind == "approval" {
		what, f = "approval", fault.New(fault.NeedsApproval, "")
	}
	f.Message = fmt.Sprintf("waiting for %s %s; call again with the same arguments, or answer it\n%s",
		what, strings.Join(ids, ", "), strings.Join(kinds, "\n"))
	return Failed(f)
}

// shownMessage and shownSchema are how many bytes of a question stand in a text.
const (
	shownMessage = 500
	shownAsked   = 2000 // of one that the agent itself is to answer
	shownSchema  = 4000
)

// Describe is a question as a text: its id, what it is, and what fits.
func Describe(q store.Question) string {
	shown := shownMessage
	if q.Audience == "agent" {
		shown = shownAsked
	}
	text := fmt.Sprintf("%s (%s): %s", q.ID, q.Kind, clip(q.Message, shown))
	if q.Kind == "url" {
		text += "\n  page: " + q.URL
	}
	if q.Kind == "form" && len(q.Schema) > 0 {
		text += "\n  an answer fits " + clip(q.Schema, shownSchema)
	}
	return text
}

// rounds dispatches the call until it has a result that is not a question.
func (p *Pipeline) rounds(ctx context.Context, c *call, reply *Reply) (*pluginv1.Result, error) {
	for {
		result, err := p.dispatch(ctx, c)
		if err != nil || result.NeedsInput == nil {
			// The host's own tools tell what they did not find by an error.
			c.returned = err == nil || c.owner() == registry.Host && fault.From(err).Class == fault.NotFound
			return result, err
		}
		if c.Agent == nil || c.Session == nil {
			return nil, fault.New(fault.WaitingForPerson, "%q asks a question, and plugin %q calls it for nobody", c.subject(), c.plugin())
		}
		if err := capable(c, result.NeedsInput.Requests); err != nil {
			return nil, err
		}
		round := int(c.attempt.Round) + 1
		if round > wire.MaxRounds {
			return nil, fault.New(fault.PluginProtocol, "%q asked in %d rounds; at most %d", c.subject(), round-1, wire.MaxRounds)
		}
		frozen := p.freeze(c)
		frozen.Round, frozen.State = round, result.NeedsInput.State
		parked, err := p.Questions.Park(ctx, frozen, result.NeedsInput.Requests)
		if err != nil && full(err, result.NeedsInput.Requests) {
			// No room for a question is no reason to lose the call: it goes on unanswered.
			c.attempt = &pluginv1.Attempt{Round: uint32(round), State: frozen.State, Input: unanswered(result.NeedsInput.Requests, err)}
			continue
		}
		if err != nil {
			return nil, err
		}
		c.Session.MarkAsked()
		if done, result, err := p.hold(ctx, c, reply, parked); done || err != nil {
			return result, err
		}
	}
}

// full reports whether questions that may be declined found no room.
func full(err error, requests []*pluginv1.InputRequest) bool {
	return fault.From(err).Ref == fault.QuestionLimit &&
		!slices.ContainsFunc(requests, func(r *pluginv1.InputRequest) bool { return r.Kind == "approval" })
}

func unanswered(requests []*pluginv1.InputRequest, why error) map[string]*pluginv1.Answer {
	out := map[string]*pluginv1.Answer{}
	for _, r := range requests {
		out[r.Id] = &pluginv1.Answer{Action: "decline", AnsweredBy: "host", Reason: fault.From(why).Message}
	}
	return out
}

// Resume runs an answered call whose caller is gone; it is the desk's Resume.
// Who may call what is asked again: the rules may have changed meanwhile.
func (p *Pipeline) Resume(ctx context.Context, f store.FrozenCall, input map[string]*pluginv1.Answer) *pluginv1.Result {
	result, err := p.resumed(ctx, f, input)
	if err != nil {
		result = Failed(err)
	}
	return result
}

func (p *Pipeline) resumed(ctx context.Context, f store.FrozenCall, input map[string]*pluginv1.Answer) (*pluginv1.Result, error) {
	agent, err := p.Policy.Agent(f.Agent)
	if err != nil {
		return nil, err
	}
	s, err := p.Sessions.Lookup(ctx, agent, f.Session)
	if err != nil {
		return nil, err
	}
	s.MarkAsked()
	c := &call{
		Request: &Request{Caller: Caller{Agent: agent, Session: s, Run: f.Run, ModelTier: f.ModelTier, Door: "resumed"}, Tool: f.Tool, Raw: true},
		name:    f.Tool, args: f.Arguments, chain: f.Chain, taken: true,
		attempt: &pluginv1.Attempt{Round: uint32(f.Round), Input: input, State: f.State},
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.running.Done()
	c.id, c.started = newID(), now()
	reply := &Reply{}
	for kind, prefix := range kinds {
		if name, ok := strings.CutPrefix(f.Tool, prefix); ok {
			c.Kind, c.name, c.Owner = kind, name, f.Plugin
		}
	}
	result, err := func() (*pluginv1.Result, error) {
		if c.Kind != 0 {
			return p.rounds(ctx, c, reply)
		}
		if err := p.resolve(ctx, c); err != nil {
			return nil, err
		}
		if err := p.authorize(c); err != nil {
			return nil, err
		}
		return p.rounds(ctx, c, reply)
	}()
	if err != nil {
		result = Failed(err)
	}
	p.audit(c, result)
	p.leave(ctx, f, result)
	return result, nil
}

// leave tells the session's inbox that the call ended.
func (p *Pipeline) leave(ctx context.Context, f store.FrozenCall, result *pluginv1.Result) {
	text := fmt.Sprintf("%s was answered and ended; call it again with the same arguments for the result:\n%s", f.Tool, clip(plain(result), 2000))
	if _, _, err := p.Questions.Store.InboxAppend(ctx, store.InboxItem{Session: f.Session, Agent: f.Agent, Kind: "result", Text: text, DedupID: f.ID, At: now().UTC()}); err != nil {
		p.Log.Warn("an inbox entry could not be written", "session", f.Session, "error", err)
	}
}
