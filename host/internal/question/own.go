package question

import (
	"context"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Whose is whose question it must be that a plugin settles: one it asked itself,
// for this agent in this session.
type Whose struct{ Plugin, Agent, Session string }

// AnswerOwn settles a question by way of the plugin that asked it, in the agent's
// name. A question of anybody else is as unknown as one that does not exist, and so
// is an approval. spoke says whether the user said something after a time: without
// that nobody but the agent itself stands behind the answer to a decision.
func (d *Desk) AnswerOwn(ctx context.Context, w Whose, id string, spoke func(time.Time) bool, action string, content []byte) (store.Question, error) {
	q, found, err := d.Store.GetQuestion(ctx, id)
	if err != nil {
		return q, err
	}
	if !found || q.Plugin != w.Plugin || q.Agent != w.Agent || q.Session != w.Session || q.Kind == "approval" {
		return q, fault.New(fault.UnknownQuestion, "no question %.40q in this session", id)
	}
	person := spoke(q.CreatedAt)
	if q.Decision && action == "accept" && !person && q.Outcome == "" {
		return q, fault.New(fault.NotApprover, "question %s is a decision: ask the user, and answer when the user has said what to do; declining is possible at once", q.ID)
	}
	return d.Answer(ctx, id, By{Name: w.Agent, Person: person}, action, content, "")
}

// Outcome waits for the call that goes on with an answered question. It gives its
// result, once; or the questions that are open now; or neither, when the caller
// that asked waits for it itself.
func (d *Desk) Outcome(ctx context.Context, q store.Question) (*pluginv1.Result, []store.Question, error) {
	if q.CallID == "" {
		return nil, nil, nil
	}
	d.mu.Lock()
	done := d.running[q.CallID]
	d.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	f, found, err := d.Store.GetFrozen(ctx, q.CallID)
	if err != nil || !found {
		return nil, nil, err
	}
	switch f.Status {
	case store.Done:
		if won, err := d.Store.UpdateFrozen(ctx, f.ID, store.Done, store.Closed, store.FrozenChange{}); err != nil || !won {
			return nil, nil, err
		}
		d.told(ctx, f.Session, f.ID)
		r, err := decodeResult(f.Result)
		return r, nil, err
	case store.Waiting:
		open, err := d.open(ctx, f.ID)
		return nil, open, err
	case store.Closed:
		// It may have asked again, as a frozen call of its own.
		same, err := d.Store.FindFrozen(ctx, f.Agent, f.Session, f.Tool, f.ArgsHash)
		if err != nil {
			return nil, nil, err
		}
		for _, next := range same {
			if next.Status == store.Waiting && next.Round > f.Round {
				open, err := d.open(ctx, next.ID)
				return nil, open, err
			}
		}
	}
	return nil, nil, nil
}

func (d *Desk) open(ctx context.Context, callID string) ([]store.Question, error) {
	return d.Store.ListQuestions(ctx, store.QuestionFilter{CallID: callID, Open: true})
}
