// Package event keeps the tail of what happened in the host and tells it to
// whoever follows. It is for people and dashboards; nothing decides by it.
package event

import (
	"encoding/json"
	"sync"
	"time"
)

// Event is one thing that happened.
type Event struct {
	Seq     uint64          `json:"seq"`
	At      time.Time       `json:"at"`
	Type    string          `json:"type"` // plugin.state, call.done, question.open, …
	Plugin  string          `json:"plugin,omitempty"`
	Session string          `json:"session,omitempty"`
	CallID  string          `json:"call_id,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`

	data any // becomes Data when somebody looks: calls publish far more often
}

func (e Event) seen() Event {
	if e.data != nil {
		if raw, err := json.Marshal(e.data); err == nil {
			e.Data = raw
		}
		e.data = nil
	}
	return e
}

// Bus keeps the last events and feeds followers. A follower that does not keep
// up loses events, which it sees by the gap in Seq; it never slows the host.
type Bus struct {
	mu     sync.Mutex
	seq    uint64  // of the last event
	ring   []Event // event n stands at n modulo its length
	follow map[chan Event]struct{}
}

// New makes a bus that keeps the last keep events.
func New(keep int) *Bus {
	return &Bus{ring: make([]Event, max(keep, 1)), follow: map[chan Event]struct{}{}}
}

// Publish numbers and dates e and hands it on. data becomes its Data as JSON and
// must not change afterwards; nil is none.
func (b *Bus) Publish(e Event, data any) {
	e.data = data
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	e.Seq, e.At = b.seq, time.Now().UTC()
	b.ring[b.seq%uint64(len(b.ring))] = e
	if len(b.follow) == 0 {
		return
	}
	e = e.seen()
	for ch := range b.follow {
		select {
		case ch <- e:
		default:
		}
	}
}

// Tail returns the kept events after seq, oldest first.
func (b *Bus) Tail(after uint64) []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.after(after)
}

func (b *Bus) after(seq uint64) []Event {
	keep := uint64(len(b.ring))
	if b.seq > keep {
		seq = max(seq, b.seq-keep)
	}
	out := []Event{}
	for n := seq + 1; n <= b.seq; n++ {
		out = append(out, b.ring[n%keep].seen())
	}
	return out
}

// Follow returns the kept tail and a channel of what comes next; end releases it.
func (b *Bus) Follow(after uint64) (tail []Event, next <-chan Event, end func()) {
	ch := make(chan Event, 256)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follow[ch] = struct{}{}
	return b.after(after), ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.follow, ch)
	}
}
