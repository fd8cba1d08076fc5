package sdktest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-dev/bulkhead/sdk"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"google.golang.org/grpc/codes"
)

func (h *FakeHost) memoryKey(s *pluginv1.Scope, key string) (string, error) {
	ns, err := h.namespace(s)
	if err != nil || strings.HasPrefix(key, ns+"/") {
		return key, err
	}
	return ns + "/" + key, nil
}

func (h *FakeHost) MemoryPut(_ context.Context, r *pluginv1.MemoryPutRequest) (*pluginv1.MemoryPutResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key, err := h.memoryKey(r.GetScope(), r.GetKey())
	if err != nil {
		return nil, err
	}
	h.memory[key] = r
	return &pluginv1.MemoryPutResponse{Key: key}, nil
}

func (h *FakeHost) MemoryGet(_ context.Context, r *pluginv1.MemoryGetRequest) (*pluginv1.MemoryGetResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key, err := h.memoryKey(r.GetScope(), r.GetKey())
	if err != nil {
		return nil, err
	}
	item, ok := h.memory[key]
	if !ok {
		return &pluginv1.MemoryGetResponse{}, nil
	}
	value := item.GetValue()
	total := int64(len(value))
	from := min(max(r.GetOffset(), 0), total)
	to := total
	if r.GetLength() > 0 {
		to = min(from+r.GetLength(), total)
	}
	return &pluginv1.MemoryGetResponse{Value: value[from:to], Total: total, Found: true}, nil
}

func (h *FakeHost) MemoryDelete(_ context.Context, r *pluginv1.MemoryDeleteRequest) (*pluginv1.MemoryDeleteResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key, err := h.memoryKey(r.GetScope(), r.GetKey())
	if err != nil {
		return nil, err
	}
	_, ok := h.memory[key]
	delete(h.memory, key)
	return &pluginv1.MemoryDeleteResponse{Found: ok}, nil
}

func (h *FakeHost) MemorySearch(_ context.Context, r *pluginv1.MemorySearchRequest) (*pluginv1.MemorySearchResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ns, err := h.namespace(r.GetScope())
	if err != nil {
		return nil, err
	}
	resp := &pluginv1.MemorySearchResponse{}
	for key, item := range h.memory {
		fits := strings.HasPrefix(key, ns+"/") &&
			(r.GetCategory() == "" || r.GetCategory() == item.GetCategory()) &&
			strings.Contains(strings.ToLower(string(item.GetValue())), strings.ToLower(r.GetQuery())) &&
			!slices.ContainsFunc(r.GetTags(), func(tag string) bool { return !slices.Contains(item.GetTags(), tag) })
		if fits {
			resp.Hits = append(resp.Hits, &pluginv1.MemoryHit{
				Key: key, Category: item.GetCategory(), Tags: item.GetTags(), Size: int64(len(item.GetValue())),
			})
		}
	}
	slices.SortFunc(resp.Hits, func(a, b *pluginv1.MemoryHit) int { return strings.Compare(a.GetKey(), b.GetKey()) })
	if n := int(r.GetLimit()); n > 0 && len(resp.Hits) > n {
		resp.Hits = resp.Hits[:n]
	}
	return resp, nil
}

func (h *FakeHost) PublishEvent(_ context.Context, r *pluginv1.PublishEventRequest) (*pluginv1.PublishEventResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.namespace(r.GetScope()); err != nil {
		return nil, err
	}
	if id := r.GetDedupId(); id == "" || !h.dedup[id] {
		h.dedup[id] = true
		h.events = append(h.events, sdk.Event{Kind: r.GetKind(), Text: r.GetText(), Data: r.GetData(), DedupID: id})
	}
	return &pluginv1.PublishEventResponse{Seq: uint64(len(h.events))}, nil
}

func (h *FakeHost) Ask(_ context.Context, r *pluginv1.AskRequest) (*pluginv1.AskResponse, error) {
	h.mu.Lock()
	_, err := h.namespace(r.GetScope())
	answer := h.answer
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	a := sdk.Answer{Action: "cancel"}
	if q := r.GetRequest(); answer != nil {
		a = answer(Question{ID: q.GetId(), Kind: q.GetKind(), Message: q.GetMessage(), URL: q.GetUrl(), Schema: q.GetSchema()})
	}
	return &pluginv1.AskResponse{Answer: &pluginv1.Answer{Action: a.Action, Content: a.Content, AnsweredBy: a.AnsweredBy, Reason: a.Reason}, QuestionId: "q_test"}, nil
}

func (h *FakeHost) SessionActivate(_ context.Context, r *pluginv1.SessionActivateRequest) (*pluginv1.SessionActivateResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.namespace(r.GetScope()); err != nil {
		return nil, err
	}
	for _, n := range r.GetNames() {
		if h.foreign[n] {
			return nil, fault(codes.PermissionDenied, sdk.Denied, "tool %q is another plugin's", n)
		}
	}
	h.listed = append(h.listed, r.GetNames()...)
	return &pluginv1.SessionActivateResponse{Activated: r.GetNames()}, nil
}

func (h *FakeHost) SessionDeactivate(_ context.Context, r *pluginv1.SessionDeactivateRequest) (*pluginv1.SessionDeactivateResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listed = slices.DeleteFunc(h.listed, func(n string) bool { return slices.Contains(r.GetNames(), n) })
	return &pluginv1.SessionDeactivateResponse{}, nil
}

func (h *FakeHost) SessionPin(_ context.Context, r *pluginv1.SessionPinRequest) (*pluginv1.SessionPinResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pins[r.GetSet()] = r.GetNames()
	return &pluginv1.SessionPinResponse{}, nil
}

func (h *FakeHost) SessionListed(context.Context, *pluginv1.SessionListedRequest) (*pluginv1.SessionListedResponse, error) {
	names := h.Listed()
	return &pluginv1.SessionListedResponse{Names: names, Total: uint32(len(names)), Budget: 120}, nil
}

func (h *FakeHost) SessionTurns(_ context.Context, r *pluginv1.SessionTurnsRequest) (*pluginv1.SessionTurnsResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	turns := h.turns
	if n := int(r.GetLast()); len(turns) > n {
		turns = turns[len(turns)-n:]
	}
	return &pluginv1.SessionTurnsResponse{Turns: turns}, nil
}

func (h *FakeHost) DeriveRun(_ context.Context, r *pluginv1.DeriveRunRequest) (*pluginv1.DeriveRunResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handles++
	return &pluginv1.DeriveRunResponse{Handle: fmt.Sprintf("%s/%d", r.GetNamespace(), h.handles)}, nil
}

func (h *FakeHost) ReleaseRun(context.Context, *pluginv1.ReleaseRunRequest) (*pluginv1.ReleaseRunResponse, error) {
	return &pluginv1.ReleaseRunResponse{}, nil
}
