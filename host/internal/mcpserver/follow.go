package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
)

const (
	maxSubscriptions = 500 // resources one session, or one listening stream, may follow
	// subscriptionKey tags what belongs to a stream of subscriptions/listen.
	subscriptionKey = `_meta.io\.modelcontextprotocol/subscriptionId`
)

// followers are who wants to hear of which resources: sessions up to 2025-11-25 by
// resources/subscribe, streams of 2026-07-28 by subscriptions/listen.
type followers struct {
	mu       sync.Mutex
	sessions map[string]*follower // by the library's id of the session
	streams  map[*listening]*follower
}

// follower is one of them.
type follower struct {
	session string // whose inbox is meant by inbox://session
	uris    map[string]bool
	tell    func(mcp.JSONRPCNotification)
}

// listening is one request of subscriptions/listen.
type listening struct {
	door *door
	id   json.RawMessage // of the request: the subscription's
	uris []string        // it follows, as acknowledged
	as   *follower
}

// subscribe notes which session wants to hear of which resource.
func (d *door) subscribe(ctx context.Context, uri string, on bool) {
	s, p := server.ClientSessionFromContext(ctx), exchangeOf(ctx).peer
	if s == nil || p == nil || s.SessionID() == "" || len(uri) > registry.MaxURI {
		return
	}
	id, f := s.SessionID(), &d.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	who := f.sessions[id]
	switch {
	case !on:
		if who != nil {
			delete(who.uris, uri)
		}
	case who == nil:
		f.sessions[id] = &follower{session: p.session.ID, uris: map[string]bool{uri: true}, tell: func(n mcp.JSONRPCNotification) {
			// A session that is gone or full has its own way to notice.
			_ = d.lib.SendNotificationToSpecificClient(id, n.Method, n.Params.AdditionalFields)
		}}
	case len(who.uris) < maxSubscriptions:
		who.uris[uri] = true
	}
}

// left forgets a session.
func (f *followers) left(session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sessions, session)
}

// listen prepares a stream for what it asks. It follows from its acknowledgement
// on, since nothing may come before that.
func (d *door) listen(ctx context.Context, want mcp.SubscriptionFilter) {
	s, x := server.ClientSessionFromContext(ctx), exchangeOf(ctx)
	if s == nil || x.peer == nil {
		return
	}
	l := &listening{door: d, id: x.id, as: &follower{session: x.peer.session.ID, uris: map[string]bool{}}}
	l.as.tell = func(n mcp.JSONRPCNotification) {
		select {
		case s.NotificationChannel() <- n:
		default: // it does not read; its connection shows that soon enough
		}
	}
	for _, uri := range want.ResourceSubscriptions {
		if len(l.uris) < maxSubscriptions && len(uri) <= registry.MaxURI && !l.as.uris[uri] {
			l.as.uris[uri] = true
			l.uris = append(l.uris, uri)
		}
	}
	x.listening = l
	x.splice[subscriptionKey] = x.id
}

// out is a message of the stream on its way to the client: tagged with the
// subscription as the client wrote it. The acknowledgement names what is followed,
// which may be less than was asked, and begins it.
func (l *listening) out(message []byte) []byte {
	if gjson.GetBytes(message, "method").Str == mcp.MethodNotificationSubscriptionsAcknowledged {
		const path = "params.notifications.resourceSubscriptions"
		var err error
		if len(l.uris) == 0 {
			message, err = sjson.DeleteBytes(message, path)
		} else if gjson.GetBytes(message, path).Exists() {
			message, err = sjson.SetBytes(message, path, l.uris)
		}
		if err == nil {
			f := &l.door.follow
			f.mu.Lock()
			f.streams[l] = l.as
			f.mu.Unlock()
		}
	}
	if tagged, err := sjson.SetRawBytes(bytes.TrimRight(message, "\n"), "params."+subscriptionKey, l.id); err == nil {
		return tagged
	}
	return message
}

// end forgets the stream.
func (l *listening) end() {
	if l == nil {
		return
	}
	f := &l.door.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, l)
}

// updated tells those who follow a resource that it changed; session narrows that
// to one session's followers.
func (f *followers) updated(uri, session string) {
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: mcp.MethodNotificationResourceUpdated, Params: mcp.NotificationParams{AdditionalFields: map[string]any{"uri": uri}}}}
	var tell []func(mcp.JSONRPCNotification)
	f.mu.Lock()
	note := func(who *follower) {
		if who.uris[uri] && (session == "" || who.session == session) {
			tell = append(tell, who.tell)
		}
	}
	for _, who := range f.sessions {
		note(who)
	}
	for _, who := range f.streams {
		note(who)
	}
	f.mu.Unlock()
	for _, t := range tell {
		t(n)
	}
}

// tellUpdates tells the door's clients which resources changed after a revision, as
// far as its agent may see who offers them.
func (d *door) tellUpdates(snap *registry.Snapshot, after uint64) {
	sees := map[string]bool{}
	for _, u := range snap.Updates {
		if u.Revision <= after {
			continue
		}
		seen, known := sees[u.Owner]
		if !known {
			seen = listing.Plugin(snap, d.agent(), u.Owner)
			sees[u.Owner] = seen
		}
		if seen {
			d.follow.updated(u.URI, "")
		}
	}
}

// InboxChanged tells the clients of a session that its inbox is another.
func (core *Core) InboxChanged(session string) {
	for _, d := range core.all() {
		d.follow.updated(inboxURI, session)
	}
}
