package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/session"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const (
	maxMessage = 32 << 10 // bytes of what a person said
	hintTime   = 2 * time.Second
	maxHints   = 2
	// searchTool finds what services there are for a request.
	searchTool = "search_known_services"
)

func (a *API) inbox(r *http.Request, who who) (any, error) {
	s, err := a.Sessions.Lookup(r.Context(), who.agent, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	after, err := number(r, "after")
	if err != nil {
		return nil, err
	}
	return a.inboxOf(r.Context(), s, after)
}

func (a *API) inboxOf(ctx context.Context, s *session.Session, after uint64) ([]api.InboxItem, error) {
	items, err := a.Store.InboxRead(ctx, s.ID, after, 1000)
	if err != nil {
		return nil, err
	}
	out := make([]api.InboxItem, len(items))
	for i, it := range items {
		out[i] = api.InboxItem{Seq: it.Seq, At: it.At, Kind: it.Kind, Text: it.Text, Data: content.Valid(it.Data)}
	}
	return out, nil
}

// turns records what was said in a conversation.
func (a *API) turns(r *http.Request, who who) (any, error) {
	var in api.Turn
	if err := body(r, &in); err != nil {
		return nil, err
	}
	switch {
	case !slices.Contains([]string{"user", "assistant", "system", "tool"}, in.Role):
		return nil, fault.New(fault.BadArguments, "role is user, assistant, system or tool, not %.40q", in.Role)
	case in.Text == "", len(in.Text) > maxMessage, len(in.Author) > maxWord:
		return nil, fault.New(fault.BadArguments, "a turn has a text of 1 to %d bytes and an author of at most %d", maxMessage, maxWord)
	}
	s, err := a.Sessions.Open(r.Context(), who.agent, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	s.AddTurn(in.Role, in.Text, in.Author)
	return api.Turns{Session: s.ID, Turns: len(s.Turns(1 << 20))}, nil
}

// context is what belongs into the prompt of the next turn.
func (a *API) context(r *http.Request, who who) (any, error) {
	s, err := a.Sessions.Open(r.Context(), who.agent, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	after, err := number(r, "after")
	if err != nil {
		return nil, err
	}
	inbox, err := a.inboxOf(r.Context(), s, after)
	if err != nil {
		return nil, err
	}
	message := r.URL.Query().Get("message")
	if len(message) > maxMessage || !utf8.ValidString(message) {
		return nil, fault.New(fault.BadArguments, "message is text of at most %d bytes", maxMessage)
	}
	return api.Context{Orientation: listing.Orientation(a.Registry.Snapshot(), who.agent, s.Active(), a.Budget),
		Hints: a.hints(r.Context(), who, s, message), Inbox: inbox}, nil
}

// hints are the services that fit what was said best. They help and never hinder:
// what can't be had in time is left out.
func (a *API) hints(ctx context.Context, who who, s *session.Session, message string) []json.RawMessage {
	out := []json.RawMessage{}
	t, ok := a.Registry.Snapshot().Tool(searchTool)
	if !ok || !who.agent.Allows(t) || strings.TrimSpace(message) == "" {
		return out
	}
	args, err := json.Marshal(map[string]string{"query": message})
	if err != nil {
		return out
	}
	reply := a.Pipeline.Call(ctx, call.Request{Tool: searchTool, Arguments: args, Timeout: hintTime, Raw: true,
		Caller: call.Caller{Agent: who.agent, Session: s, Run: s.ID, ModelTier: first(who.agent.ModelTier, "balanced"), Door: who.door()}})
	if reply.Result.IsError {
		return out
	}
	var found struct{ Results []json.RawMessage }
	raw := reply.Result.Structured
	if len(raw) == 0 && len(reply.Result.Content) > 0 {
		if text, ok := reply.Result.Content[0].Block.(*pluginv1.Content_Text); ok {
			raw = []byte(text.Text)
		}
	}
	if json.Unmarshal(raw, &found) != nil {
		return out
	}
	return append(out, found.Results[:min(len(found.Results), maxHints)]...)
}
