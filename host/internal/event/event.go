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
}

// Bus keeps the last events and feeds followers. A follower that does not keep
// up loses events, which it sees by the gap in Seq; it never slows the host.
type Bus struct {
	mu     sync.Mutex
	seq    uint64
	tail   []Event
	keep   int
	follow map[chan Event]struct{}
}

// New makes a bus that keeps the last keep events.
func New(keep int) *Bus { return &Bus{keep: keep, follow: map[chan Event]struct{}{}} }

// Publish numbers and dates e and hands it on. data is marshalled to JSON; nil is none.
func (b *Bus) Publish(e Event, data any) {
	if data != nil {
		if raw, err := json.Marshal(data); err == nil {
			e.Data = raw
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	e.Seq, e.At = b.seq, time.Now().UTC()
	if len(b.tail) == b.keep {
		copy(b.tail, b.tail[1:])
		b.tail = b.tail[:b.keep-1]
	}
	b.tail = append(b.tail, e)
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
	out := []Event{}
	for _, e := range b.tail {
		if e.Seq > seq {
			out = append(out, e)
		}
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
		delete(b.follow, ch)
		b.mu.Unlock()
	}
}
