package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"
)

// maxSessions is how many sessions one agent has open over HTTP; the longest
// unused makes room.
const maxSessions = 1000

// sessionIDs gives out the session ids of one agent and knows them again. An id
// of another agent is as unknown as one that never was.
type sessionIDs struct {
	door *door

	mu   sync.Mutex
	open map[string]time.Time // id → last use
}

var errNoSession = errors.New("no such session")

// Generate makes an id for a client that initializes.
func (s *sessionIDs) Generate() string {
	id := "m_" + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxSessions {
		oldest, at := "", time.Now()
		for id, used := range s.open {
			if !used.After(at) {
				oldest, at = id, used
			}
		}
		delete(s.open, oldest)
		// Its streams end; a client that still has it initializes anew.
		go s.door.lib.UnregisterSession(context.Background(), oldest)
	}
	s.open[id] = time.Now()
	return id
}

// Validate says whether the id is one of this agent's open sessions.
func (s *sessionIDs) Validate(id string) (terminated bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.open[id]; !ok {
		return false, errNoSession
	}
	s.open[id] = time.Now()
	return false, nil
}

// Terminate ends a session at its client's wish.
func (s *sessionIDs) Terminate(id string) (notAllowed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.open[id]; !ok {
		return false, errNoSession
	}
	delete(s.open, id)
	return false, nil
}
