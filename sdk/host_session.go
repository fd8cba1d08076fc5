package sdk

import (
	"context"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Session is what a plugin may do with the scope's session: list tools for it,
// and read the conversation's turns (grant turns).
type Session struct{ h *Host }

// Listing is a session's list of tools as it stands.
type Listing struct {
	Names  []string // what is activated or pinned
	Total  int      // tools listed in all
	Budget int      // how many may be
}

// Turn is one turn of the conversation, as far as the host was told.
type Turn struct {
	Role, Text, Author string
	At                 time.Time
}

// Activate lists on-demand tools in the session; dropped are older ones that had
// to make room.
func (s *Session) Activate(ctx context.Context, names ...string) (activated, dropped []string, err error) {
	resp, err := ask(ctx, s.h, hostQuick, &pluginv1.SessionActivateRequest{Scope: s.h.scope, Names: names}, pluginv1.HostServiceClient.SessionActivate)
	return resp.GetActivated(), resp.GetDropped(), err
}

// Deactivate takes activated tools off the list.
func (s *Session) Deactivate(ctx context.Context, names ...string) error {
	_, err := ask(ctx, s.h, hostQuick, &pluginv1.SessionDeactivateRequest{Scope: s.h.scope, Names: names}, pluginv1.HostServiceClient.SessionDeactivate)
	return err
}

// Pin keeps tools listed under a set name, in place of those it had before.
func (s *Session) Pin(ctx context.Context, set string, names ...string) error {
	_, err := ask(ctx, s.h, hostQuick, &pluginv1.SessionPinRequest{Scope: s.h.scope, Set: utf8(set), Names: names}, pluginv1.HostServiceClient.SessionPin)
	return err
}

// Listed gives the session's list.
func (s *Session) Listed(ctx context.Context) (Listing, error) {
	resp, err := ask(ctx, s.h, hostQuick, &pluginv1.SessionListedRequest{Scope: s.h.scope}, pluginv1.HostServiceClient.SessionListed)
	return Listing{Names: resp.GetNames(), Total: int(resp.GetTotal()), Budget: int(resp.GetBudget())}, err
}

// Turns gives the last n turns, oldest first.
func (s *Session) Turns(ctx context.Context, n int) ([]Turn, error) {
	resp, err := ask(ctx, s.h, hostQuick, &pluginv1.SessionTurnsRequest{Scope: s.h.scope, Last: uint32(max(n, 0))}, pluginv1.HostServiceClient.SessionTurns)
	var turns []Turn
	for _, t := range resp.GetTurns() {
		turns = append(turns, Turn{Role: t.GetRole(), Text: t.GetText(), Author: t.GetAuthor(), At: time.UnixMilli(t.GetAtMs())})
	}
	return turns, err
}
