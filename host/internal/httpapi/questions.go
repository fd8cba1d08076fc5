package httpapi

import (
	"net/http"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
)

// questions lists the open ones, or all, of the caller or of everyone.
func (a *API) questions(r *http.Request, who who) (any, error) {
	all, err := flag(r, "all", false)
	if err != nil {
		return nil, err
	}
	list, err := a.Questions.List(r.Context(), who.by(), !all)
	if err != nil {
		return nil, err
	}
	out := make([]api.Question, len(list))
	for i, q := range list {
		out[i] = questionView(q)
	}
	return out, nil
}

func (a *API) question(r *http.Request, who who) (any, error) {
	q, err := a.Questions.Get(r.Context(), who.by(), r.PathValue("id"))
	return questionView(q), err
}

func (a *API) answer(r *http.Request, who who) (any, error) {
	var in api.Answer
	if err := body(r, &in); err != nil {
		return nil, err
	}
	if in.Scope != "" && in.Scope != "once" {
		return nil, fault.New(fault.BadArguments, "scope %.40q: an approval holds once", in.Scope)
	}
	q, err := a.Questions.Answer(r.Context(), r.PathValue("id"), who.by(), in.Action, in.Content, in.Reason)
	return questionView(q), err
}

func questionView(q store.Question) api.Question {
	return api.Question{ID: q.ID, Kind: q.Kind, Agent: q.Agent, Session: q.Session, Tool: q.Tool, Message: q.Message,
		Schema: content.Valid(q.Schema), URL: q.URL, Decision: q.Decision, CallerGone: q.CallerGone,
		CreatedAt: q.CreatedAt, ExpiresAt: q.ExpiresAt, Outcome: q.Outcome, AnsweredBy: q.AnsweredBy}
}
