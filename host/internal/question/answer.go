package question

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"google.golang.org/protobuf/proto"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// By is who answers.
type By struct {
	Name     string
	Approver bool
	Person   bool // a person at a terminal or dashboard, not an agent's client
}

// Answer settles an open question. The content of an accepted form must fit the
// question's schema as it is: answers are never coerced.
func (d *Desk) Answer(ctx context.Context, id string, by By, action string, content []byte, reason string) (store.Question, error) {
	q, found, err := d.Store.GetQuestion(ctx, id)
	if err != nil {
		return q, err
	}
	if !found || (!by.Approver && q.Agent != by.Name) {
		return q, fault.New(fault.UnknownQuestion, "no question %.40q", id)
	}
	if err := admissible(q, by, action, content); err != nil {
		return q, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	done, err := d.Store.AnswerQuestion(ctx, id, store.Answer{Outcome: action, Content: content, AnsweredBy: by.Name, Reason: reason})
	if err != nil {
		return q, err
	}
	q = done.Question
	d.publish("question.answered", q)
	if ask := d.asks[q.ID]; ask != nil {
		ask <- answer(q)
		delete(d.asks, q.ID)
	}
	if q.CallID == "" {
		d.told(ctx, q.Session, q.ID)
		return q, nil
	}
	return q, d.settled(ctx, q.CallID)
}

func admissible(q store.Question, by By, action string, content []byte) error {
	bad := func(format string, args ...any) error { return fault.New(fault.BadArguments, format, args...) }
	if q.Outcome != "" {
		return fault.New(fault.QuestionClosed, "question %s is already closed: %s", q.ID, q.Outcome)
	}
	switch action {
	case "approve", "deny":
		if q.Kind != "approval" {
			return bad("question %s is a %s: accept, decline or cancel it", q.ID, q.Kind)
		}
		if !by.Approver {
			return fault.New(fault.NotApprover, "%s may not approve or deny: it is no approver", by.Name)
		}
	case "accept", "decline", "cancel":
		if q.Kind == "approval" {
			return bad("question %s is an approval: approve or deny it", q.ID)
		}
		if action == "accept" && q.Decision && !by.Person && !by.Approver {
			return fault.New(fault.NotApprover, "question %s is a decision that a person must take", q.ID)
		}
		if action == "accept" && q.Audience == "person" && q.NoFallback && !by.Person && !by.Approver {
			return fault.New(fault.NotApprover, "question %s is for a person alone", q.ID)
		}
	default:
		return bad("unknown action %.40q: accept, decline, cancel, approve or deny", action)
	}
	if len(content) > maxText*4 {
		return bad("the answer is %d bytes; at most %d", len(content), maxText*4)
	}
	if action != "accept" || len(q.Schema) == 0 {
		if len(content) > 0 && !json.Valid(content) {
			return bad("the answer is not JSON")
		}
		return nil
	}
	schema, err := registry.Compile(q.Schema)
	if err != nil {
		return nil // a schema nobody can compile: the plugin is the judge
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return bad("the answer to %s is not JSON: %w", q.ID, err)
	}
	if err := schema.Validate(value); err != nil {
		return bad("the answer does not fit question %s:\n%s\nexpected: %s", q.ID, misfits(err), q.Schema)
	}
	return nil
}

// misfits lists what does not fit a schema, a line each.
func misfits(err error) string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	english := message.NewPrinter(language.English)
	var lines []string
	var visit func(*jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 && len(lines) < 5 {
			lines = append(lines, "- /"+strings.Join(e.InstanceLocation, "/")+": "+e.ErrorKind.LocalizedString(english))
		}
		for _, c := range e.Causes {
			visit(c)
		}
	}
	visit(invalid)
	return strings.Join(lines, "\n")
}

func answer(q store.Question) *pluginv1.Answer {
	return &pluginv1.Answer{Action: q.Outcome, Content: q.Content, AnsweredBy: q.AnsweredBy, Reason: q.Reason}
}

// settled lets a call go on whose questions are all answered. d.mu is held.
func (d *Desk) settled(ctx context.Context, callID string) error {
	questions, err := d.Store.ListQuestions(ctx, store.QuestionFilter{CallID: callID})
	if err != nil {
		return err
	}
	input := map[string]*pluginv1.Answer{}
	approval, denied, expired := false, "", false
	for _, q := range questions {
		switch q.Outcome {
		case "":
			return nil // not the last one
		case "deny":
			denied = q.Reason
			if denied == "" {
				denied = "no reason given"
			}
		case "expired", "interrupted":
			expired = true
		}
		approval = approval || q.Kind == "approval"
		input[q.RequestID] = answer(q)
	}
	w := d.waiters[callID]
	switch {
	case denied != "" && approval:
		return d.close(ctx, callID, w, fault.New(fault.WasDenied, "the call was denied: %s", denied))
	case expired:
		return d.close(ctx, callID, w, fault.New(fault.QuestionClosed, "nobody answered in time"))
	case w != nil:
		won, err := d.Store.UpdateFrozen(ctx, callID, store.Waiting, store.Closed, store.FrozenChange{})
		if err == nil && won {
			delete(d.waiters, callID)
			w.next <- outcome{input: input}
		}
		return err
	case approval:
		_, err := d.Store.UpdateFrozen(ctx, callID, store.Waiting, store.Permitted, store.FrozenChange{ExpiresAt: d.Now().Add(PermitTTL)})
		return err
	}
	won, err := d.Store.UpdateFrozen(ctx, callID, store.Waiting, store.Running, store.FrozenChange{ExpiresAt: d.Now().Add(resultTTL)})
	if err != nil || !won {
		return err
	}
	frozen, _, err := d.Store.GetFrozen(ctx, callID)
	if err != nil {
		return err
	}
	d.resume(frozen, input)
	return nil
}

// close ends a call that will not go on. A caller that waits hears why; for one
// that left it is kept as the call's result, and told in its inbox.
func (d *Desk) close(ctx context.Context, callID string, w *waiter, why *fault.Error) error {
	if w != nil {
		if _, err := d.Store.UpdateFrozen(ctx, callID, store.Waiting, store.Closed, store.FrozenChange{}); err != nil {
			return err
		}
		delete(d.waiters, callID)
		w.next <- outcome{err: why}
		return nil
	}
	raw, err := proto.Marshal(why.Result())
	if err != nil {
		return err
	}
	won, err := d.Store.UpdateFrozen(ctx, callID, store.Waiting, store.Done, store.FrozenChange{Result: raw, ExpiresAt: d.Now().Add(resultTTL)})
	if err != nil || !won {
		return err
	}
	f, _, err := d.Store.GetFrozen(ctx, callID)
	if err == nil {
		d.notice(ctx, f.ID, f.Agent, f.Session, f.Tool+": "+why.Message)
	}
	return err
}

// resume runs a call without its caller and keeps the result. d.mu is held.
func (d *Desk) resume(frozen store.FrozenCall, input map[string]*pluginv1.Answer) {
	done := make(chan bool)
	d.running[frozen.ID] = done
	d.wg.Add(1)
	go func() {
		defer d.wg.Done()
		defer close(done)
		result := d.Resume(d.ctx, frozen, input)
		defer func() {
			d.mu.Lock()
			delete(d.running, frozen.ID)
			d.mu.Unlock()
		}()
		raw, err := proto.Marshal(result)
		if err != nil {
			d.Log.Error("a result could not be kept", "call", frozen.ID, "error", err)
			return
		}
		ctx, end := context.WithTimeout(context.WithoutCancel(d.ctx), 10*time.Second)
		defer end()
		status, change := store.Done, store.FrozenChange{Result: raw, ExpiresAt: d.Now().Add(resultTTL)}
		if result.Error != nil && result.Error.Ref == string(fault.WaitingForPerson) {
			status, change = store.Closed, store.FrozenChange{} // it asked again, as a frozen call of its own
		}
		if _, err := d.Store.UpdateFrozen(ctx, frozen.ID, store.Running, status, change); err != nil {
			d.Log.Error("a result could not be kept", "call", frozen.ID, "error", err)
		}
	}()
}

func decodeResult(raw []byte) (*pluginv1.Result, error) {
	var r pluginv1.Result
	if err := proto.Unmarshal(raw, &r); err != nil {
		return nil, fault.New(fault.CallFailed, "the kept result can't be read: %w", err)
	}
	return &r, nil
}
