package hostservice

import (
	"context"
	"fmt"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// AnswerQuestion settles a question of this plugin in the scope's session.
func (s *service) AnswerQuestion(ctx context.Context, r *pluginv1.AnswerQuestionRequest) (*pluginv1.AnswerQuestionResponse, error) {
	sc, err := s.inSession(ctx, r.Scope)
	if err != nil {
		return nil, wire(err)
	}
	if r.Action != "accept" && r.Action != "decline" && r.Action != "cancel" {
		return nil, wire(fault.New(fault.BadArguments, "unknown action %.40q: accept, decline or cancel", r.Action))
	}
	if sc.live != nil {
		var stop func() bool
		ctx, stop = until(ctx, sc.live.Context())
		defer stop()
	}
	// What a person says in the session is what its client reports with a user's
	// role; turns under the name of an agent are that agent's.
	spoke := func(since time.Time) bool {
		for _, t := range sc.session.Turns(maxTurnsLooked) {
			if t.Role == "user" && t.Author == "" && t.AtMs > since.UnixMilli() {
				return true
			}
		}
		return false
	}
	whose := question.Whose{Plugin: s.who.plugin, Agent: sc.agent.Name, Session: sc.session.ID}
	q, err := s.Questions.AnswerOwn(ctx, whose, r.QuestionId, spoke, r.Action, r.Content)
	if err != nil {
		return nil, wire(err)
	}
	result, open, err := s.Questions.Outcome(ctx, q)
	if err != nil {
		return nil, wire(err)
	}
	if len(open) > 0 {
		result = call.Waiting(open)
	}
	return &pluginv1.AnswerQuestionResponse{Result: result}, nil
}

const maxTurnsLooked = 200

// tellAsked leaves word of a question in the inbox of a session whose agent is not
// in a call that could show it.
func (s *service) tellAsked(ctx context.Context, q store.Question) {
	item := store.InboxItem{Session: q.Session, Agent: q.Agent, Kind: "question", DedupID: q.ID, At: time.Now().UTC(),
		Text: fmt.Sprintf("plugin %q asks; answer it before %s\n%s", q.Plugin, q.ExpiresAt.UTC().Format(time.RFC3339), call.Describe(q))}
	if _, _, err := s.Store.InboxAppend(ctx, item); err != nil {
		s.Log.Warn("a question is not in the inbox", "session", q.Session, "error", err)
	}
}
