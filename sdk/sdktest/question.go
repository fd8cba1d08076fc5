package sdktest

import (
	"context"
	"fmt"

	"github.com/bulkhead-dev/bulkhead/sdk"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"google.golang.org/grpc/codes"
)

// openQuestion is one request of a call that came back with questions.
type openQuestion struct {
	id    string // of the request, among those of the call
	asked *askedCall
}

// askedCall is a call that goes on when all it asked is answered.
type askedCall struct {
	open    int
	answers map[string]*pluginv1.Answer
	resume  func(ctx context.Context, answers map[string]*pluginv1.Answer) (*pluginv1.Result, error)
}

// keep opens the questions of a result, and gives their ids in order.
func (h *FakeHost) keep(r *pluginv1.Result, resume func(context.Context, map[string]*pluginv1.Answer) (*pluginv1.Result, error)) (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	requests := r.GetNeedsInput().GetRequests()
	asked := &askedCall{open: len(requests), answers: map[string]*pluginv1.Answer{}, resume: resume}
	for _, q := range requests {
		h.handles++
		id := fmt.Sprintf("q_test%d", h.handles)
		h.open[id] = &openQuestion{id: q.GetId(), asked: asked}
		ids = append(ids, id)
	}
	return ids
}

// AnswerQuestion settles a question that a call came back with, by the id in
// Question.Open. With the last of a call's questions the call goes on.
func (h *FakeHost) AnswerQuestion(ctx context.Context, r *pluginv1.AnswerQuestionRequest) (*pluginv1.AnswerQuestionResponse, error) {
	h.mu.Lock()
	_, err := h.namespace(r.GetScope())
	q := h.open[r.GetQuestionId()]
	if err == nil && q == nil {
		err = fault(codes.NotFound, sdk.NotFound, "there is no open question %q", r.GetQuestionId())
	}
	if err != nil {
		h.mu.Unlock()
		return nil, err
	}
	delete(h.open, r.GetQuestionId())
	asked := q.asked
	asked.answers[q.id] = &pluginv1.Answer{Action: r.GetAction(), Content: r.GetContent(), AnsweredBy: "tester"}
	asked.open--
	left := asked.open
	h.mu.Unlock()
	if left > 0 {
		return &pluginv1.AnswerQuestionResponse{}, nil
	}
	result, err := asked.resume(ctx, asked.answers)
	if err != nil {
		return nil, err
	}
	return &pluginv1.AnswerQuestionResponse{Result: result}, nil
}
