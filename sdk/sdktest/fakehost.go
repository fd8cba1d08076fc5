package sdktest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/bulkhead-dev/bulkhead/sdk"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// FakeHost is a host service in memory. It keeps the protocol's rules on scopes
// and versions; it has no grants, no limits and no expiry.
type FakeHost struct {
	pluginv1.UnimplementedHostServiceServer
	mu      sync.Mutex
	calls   map[string]bool
	state   map[string]stateValue
	memory  map[string]*pluginv1.MemoryPutRequest
	events  []sdk.Event
	dedup   map[string]bool
	listed  []string
	pins    map[string][]string
	turns   []*pluginv1.Turn
	answer  func(q Question) sdk.Answer
	tools   map[string]func(arguments json.RawMessage) (sdk.Result, error)
	foreign map[string]bool
	open    map[string]*openQuestion
	handles int
}

type stateValue struct {
	value   []byte
	version uint64
}

func newFakeHost() *FakeHost {
	return &FakeHost{
		calls: map[string]bool{}, state: map[string]stateValue{}, memory: map[string]*pluginv1.MemoryPutRequest{},
		dedup: map[string]bool{}, pins: map[string][]string{}, open: map[string]*openQuestion{},
		tools: map[string]func(json.RawMessage) (sdk.Result, error){},
	}
}

// Events gives what was published to inboxes.
func (h *FakeHost) Events() []sdk.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// State gives a value of the plugin's state.
func (h *FakeHost) State(key string) ([]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, ok := h.state[key]
	return v.value, ok
}

// SetState stores a value before the plugin looks.
func (h *FakeHost) SetState(key string, value []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state[key] = stateValue{value, h.state[key].version + 1}
}

// Answer sets who answers blocking questions; without it they are cancelled.
func (h *FakeHost) Answer(f func(q Question) sdk.Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = f
}

// Tool sets what a nested call of a tool gives; others are denied.
func (h *FakeHost) Tool(name string, f func(arguments json.RawMessage) (sdk.Result, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tools[name] = f
}

// Foreign makes names those of another plugin: the plugin's own tools of that name
// are refused, as by a host.
func (h *FakeHost) Foreign(names ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.foreign = map[string]bool{}
	for _, n := range names {
		h.foreign[n] = true
	}
}

// Listed gives the tools activated or pinned in the session.
func (h *FakeHost) Listed() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := slices.Clone(h.listed)
	for _, set := range h.pins {
		names = append(names, set...)
	}
	sort.Strings(names)
	return slices.Compact(names)
}

// Say adds a turn to the session's conversation.
func (h *FakeHost) Say(role, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turns = append(h.turns, &pluginv1.Turn{Role: role, Text: text})
}

func (h *FakeHost) began(id string) { h.mu.Lock(); h.calls[id] = true; h.mu.Unlock() }
func (h *FakeHost) ended(id string) { h.mu.Lock(); delete(h.calls, id); h.mu.Unlock() }

// namespace finds what a scope acts for; h.mu is held.
func (h *FakeHost) namespace(s *pluginv1.Scope) (string, error) {
	switch by := s.GetBy().(type) {
	case nil:
		return "plugin:test", nil
	case *pluginv1.Scope_CallId:
		if !h.calls[by.CallId] {
			return "", fault(codes.NotFound, sdk.NotFound, "no call %q is running", by.CallId)
		}
	case *pluginv1.Scope_Handle:
		if by.Handle == "" {
			return "", fault(codes.PermissionDenied, sdk.Denied, "an empty handle names no session")
		}
		if by.Handle != "test-session" {
			return "handle/" + by.Handle, nil
		}
	}
	return "session/test", nil
}

func fault(c codes.Code, code sdk.Code, format string, args ...any) error {
	st, err := status.New(c, fmt.Sprintf(format, args...)).WithDetails(&pluginv1.Error{
		Code: string(code), Message: fmt.Sprintf(format, args...),
	})
	if err != nil {
		return err
	}
	return st.Err()
}

func (h *FakeHost) StateGet(_ context.Context, r *pluginv1.StateGetRequest) (*pluginv1.StateGetResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, ok := h.state[r.GetKey()]
	return &pluginv1.StateGetResponse{Value: v.value, Version: v.version, Found: ok}, nil
}

func (h *FakeHost) StatePut(_ context.Context, r *pluginv1.StatePutRequest) (*pluginv1.StatePutResponse, error) {
	if len(r.GetValue()) > 1<<20 {
		return nil, fault(codes.ResourceExhausted, sdk.TooLarge, "a value has at most 1 MiB")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.state[r.GetKey()].version + 1
	h.state[r.GetKey()] = stateValue{r.GetValue(), v}
	return &pluginv1.StatePutResponse{Version: v}, nil
}

func (h *FakeHost) StateDelete(_ context.Context, r *pluginv1.StateDeleteRequest) (*pluginv1.StateDeleteResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.state[r.GetKey()]
	delete(h.state, r.GetKey())
	return &pluginv1.StateDeleteResponse{Found: ok}, nil
}

func (h *FakeHost) StateList(_ context.Context, r *pluginv1.StateListRequest) (*pluginv1.StateListResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var keys []string
	for k := range h.state {
		if strings.HasPrefix(k, r.GetPrefix()) && k > r.GetAfter() {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	resp := &pluginv1.StateListResponse{}
	if n := int(r.GetLimit()); n > 0 && len(keys) > n {
		keys = keys[:n]
		resp.Next = keys[n-1]
	}
	for _, k := range keys {
		resp.Entries = append(resp.Entries, &pluginv1.StateEntry{Key: k, Version: h.state[k].version, Size: int64(len(h.state[k].value))})
	}
	return resp, nil
}

func (h *FakeHost) StateCompareAndSet(_ context.Context, r *pluginv1.StateCompareAndSetRequest) (*pluginv1.StateCompareAndSetResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.state[r.GetKey()]
	if v.version != r.GetExpectedVersion() {
		return &pluginv1.StateCompareAndSetResponse{Version: v.version}, nil
	}
	h.state[r.GetKey()] = stateValue{r.GetValue(), v.version + 1}
	return &pluginv1.StateCompareAndSetResponse{Swapped: true, Version: v.version + 1}, nil
}

func (h *FakeHost) CallTool(r *pluginv1.CallToolRequest, stream grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
	h.mu.Lock()
	f, foreign := h.tools[r.GetTool()], h.foreign[r.GetTool()]
	h.mu.Unlock()
	if foreign && r.GetOwnSource() != "" {
		return stream.Send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Result{Result: &pluginv1.Result{IsError: true,
			Error: &pluginv1.Error{Code: string(sdk.Conflict), Ref: sdk.RefNameTaken, Message: fmt.Sprintf("tool %q is another plugin's", r.GetTool())}}}})
	}
	if f == nil {
		return fault(codes.PermissionDenied, sdk.Denied, "no grant for tool %q", r.GetTool())
	}
	result, err := f(r.GetArguments())
	p := &pluginv1.Result{Structured: result.Structured, IsError: result.IsError || err != nil}
	text := result.Text()
	if err != nil {
		text = err.Error()
		p.Error = &pluginv1.Error{Code: string(sdk.CodeOf(err)), Message: text}
	}
	p.Content = []*pluginv1.Content{{Block: &pluginv1.Content_Text{Text: text}}}
	if err := stream.Send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Progress{Progress: &pluginv1.Progress{Progress: 1, Total: 1}}}); err != nil {
		return err
	}
	return stream.Send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Result{Result: p}})
}
