package event

import (
	"encoding/json"
	"testing"
)

func TestTailKeepsTheLast(t *testing.T) {
	b := New(3)
	for i := range 5 {
		b.Publish(Event{Type: "t"}, map[string]int{"n": i})
	}
	tail := b.Tail(0)
	if len(tail) != 3 || tail[0].Seq != 3 || tail[2].Seq != 5 || string(tail[2].Data) != `{"n":4}` {
		t.Errorf("tail: %+v", tail)
	}
	if got := b.Tail(4); len(got) != 1 || got[0].Seq != 5 {
		t.Errorf("after 4: %+v", got)
	}
	if got := b.Tail(99); len(got) != 0 {
		t.Errorf("after 99: %+v", got)
	}
}

// Between the tail and the channel nothing is missed and nothing comes twice.
func TestFollow(t *testing.T) {
	b := New(10)
	b.Publish(Event{Type: "a"}, nil)
	tail, next, end := b.Follow(0)
	b.Publish(Event{Type: "b"}, 7)
	got := <-next
	if len(tail) != 1 || tail[0].Type != "a" || got.Type != "b" || got.Seq != 2 || string(got.Data) != "7" {
		t.Errorf("tail %+v, next %+v", tail, got)
	}
	if raw, err := json.Marshal(got); err != nil || len(raw) == 0 {
		t.Error(err)
	}
	end()
	b.Publish(Event{Type: "c"}, nil)
	select {
	case e := <-next:
		t.Errorf("after end: %+v", e)
	default:
	}
}

// A follower that does not read never blocks the host.
func TestSlowFollower(t *testing.T) {
	b := New(10)
	_, _, end := b.Follow(0)
	defer end()
	for range 10_000 {
		b.Publish(Event{Type: "x"}, nil)
	}
	if got := b.Tail(0); got[len(got)-1].Seq != 10_000 {
		t.Errorf("last: %+v", got[len(got)-1])
	}
}
