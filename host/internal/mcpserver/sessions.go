package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// maxSessions is how many sessions one agent has open over HTTP; the longest
// unused makes room.
const maxSessions = 1000

// sessionIDs gives out the session ids of one agent and knows them again. An id
// of another agent is as unknown as one that never was.
type sessionIDs struct {
	door *door

	mu   sync.Mutex
	open map[string]*httpSession
}

// httpSession is one open session.
type httpSession struct {
	used   time.Time
	passed time.Time        // through the library, last
	ends   map[*func()]bool // what ends the streams that are open on it
	known  *known           // nil until the client initialized
}

var errNoSession = errors.New("no such session")

// Generate makes an id for a client that initializes.
func (s *sessionIDs) Generate() string {
	id := "m_" + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxSessions {
		oldest, at := "", time.Now()
		for id, x := range s.open {
			if !x.used.After(at) {
				oldest, at = id, x.used
			}
		}
		s.drop(oldest)
		// A client that still has it initializes anew.
		go s.door.lib.UnregisterSession(context.Background(), oldest)
	}
	s.open[id] = &httpSession{used: time.Now()}
	return id
}

// initialized notes what a client said of itself.
func (s *sessionIDs) initialized(id string, caps mcp.ClientCapabilities) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.open[id]; x != nil {
		x.known = &known{caps: caps, level: mcp.LoggingLevelError}
		x.passed = time.Now()
	}
}

// wants notes from which level on a client wants to hear logs.
func (s *sessionIDs) wants(id string, level mcp.LoggingLevel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.open[id]; x != nil && x.known != nil {
		x.known = &known{caps: x.known.caps, level: level}
	}
}

// client is what is known of a client, unless it is time for it to pass through
// the library.
func (s *sessionIDs) client(id string) (known, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.open[id]
	if x == nil || x.known == nil {
		return known{}, false
	}
	if time.Since(x.passed) > refresh {
		x.passed = time.Now()
		return known{}, false
	}
	return *x.known, true
}

// Validate says whether the id is one of this agent's open sessions.
func (s *sessionIDs) Validate(id string) (terminated bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.open[id]
	if !ok {
		return false, errNoSession
	}
	x.used = time.Now()
	return false, nil
}

// Terminate ends a session at its client's wish.
func (s *sessionIDs) Terminate(id string) (notAllowed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.open[id]; !ok {
		return false, errNoSession
	}
	s.drop(id)
	return false, nil
}

// streams notes what ends a stream that is open on a session: it ends with that. It
// reports false when the session has ended already.
func (s *sessionIDs) streams(id string, end func()) (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.open[id]
	if x == nil {
		return nil, false
	}
	if x.ends == nil {
		x.ends = map[*func()]bool{}
	}
	x.ends[&end] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(x.ends, &end)
	}, true
}

// drop ends a session with its streams. s.mu is held.
func (s *sessionIDs) drop(id string) {
	x := s.open[id]
	if x == nil {
		return
	}
	delete(s.open, id)
	for end := range x.ends {
		(*end)()
	}
}

// forget ends all sessions; their ids are unknown from now on.
func (s *sessionIDs) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.open {
		s.drop(id)
	}
}
