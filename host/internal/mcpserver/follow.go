package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/listing"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
)

const (
	// maxSubscriptions is how many resources one session, or one listening stream, may
	// follow, and maxFollowed how long their addresses are together, in bytes.
	maxSubscriptions = 500
	maxFollowed      = 64 << 10
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

// follower is one of them. What changed waits in it until the client's connection
// takes it: a client that reads slowly hears of each resource, once.
type follower struct {
	session string          // whose inbox is meant by inbox://session
	uris    map[string]bool // guarded by the followers' lock
	bytes   int             // of uris
	to      server.ClientSession

	mu      sync.Mutex
	changed []string // that were not told yet, each once
	wake    chan struct{}
	ended   chan struct{}
}

func newFollower(session string, to server.ClientSession) *follower {
	f := &follower{session: session, uris: map[string]bool{}, to: to, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go f.pass()
	return f
}

// follow adds a resource. It reports false when that is one too many.
func (f *follower) follow(uri string) bool {
	switch {
	case f.uris[uri]:
		return true
	case len(f.uris) >= maxSubscriptions || len(uri) > registry.MaxURI || f.bytes+len(uri) > maxFollowed:
		return false
	}
	f.uris[uri] = true
	f.bytes += len(uri)
	return true
}

// unfollow takes a resource off.
func (f *follower) unfollow(uri string) {
	if f.uris[uri] {
		delete(f.uris, uri)
		f.bytes -= len(uri)
	}
}

// tell notes that a resource changed. It never waits.
func (f *follower) tell(uri string) {
	f.mu.Lock()
	if !slices.Contains(f.changed, uri) {
		f.changed = append(f.changed, uri)
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// pass hands on what changed, until the follower ends.
func (f *follower) pass() {
	for {
		select {
		case <-f.wake:
		case <-f.ended:
			return
		}
		for {
			f.mu.Lock()
			if len(f.changed) == 0 {
				f.mu.Unlock()
				break
			}
			uri := f.changed[0]
			f.changed = f.changed[1:]
			f.mu.Unlock()
			n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
				Method: mcp.MethodNotificationResourceUpdated, Params: mcp.NotificationParams{AdditionalFields: map[string]any{"uri": uri}}}}
			if s, ok := f.to.(server.SessionWithStreamableHTTPConfig); ok {
				s.UpgradeToSSEWhenReceiveNotification()
			}
			select {
			case f.to.NotificationChannel() <- n:
			case <-f.ended:
				return
			}
		}
	}
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
			who.unfollow(uri)
		}
	case who == nil:
		who = newFollower(p.session.ID, s)
		who.follow(uri)
		f.sessions[id] = who
	default:
		who.follow(uri)
	}
}

// left forgets a session.
func (f *followers) left(session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if who := f.sessions[session]; who != nil {
		close(who.ended)
		delete(f.sessions, session)
	}
}

// close forgets all sessions; streams end with their requests.
func (f *followers) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, who := range f.sessions {
		close(who.ended)
		delete(f.sessions, id)
	}
}

// listen prepares a stream for what it asks. It follows from its acknowledgement
// on, since nothing may come before that.
func (d *door) listen(ctx context.Context, want mcp.SubscriptionFilter) {
	s, x := server.ClientSessionFromContext(ctx), exchangeOf(ctx)
	if s == nil || x.peer == nil {
		return
	}
	l := &listening{door: d, id: x.id, as: newFollower(x.peer.session.ID, s)}
	for _, uri := range want.ResourceSubscriptions {
		if !l.as.uris[uri] && l.as.follow(uri) {
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
	close(l.as.ended)
}

// updated tells those who follow a resource that it changed; session narrows that
// to one session's followers.
func (f *followers) updated(uri, session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	note := func(who *follower) {
		if who.uris[uri] && (session == "" || who.session == session) {
			who.tell(uri)
		}
	}
	for _, who := range f.sessions {
		note(who)
	}
	for _, who := range f.streams {
		note(who)
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
