package httpapi

import (
	"context"
	"errors"
	"testing"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

func TestRequestShare(t *testing.T) {
	for connections, want := range map[int]int{16: 8, 100: 32, 192: 48, 16384: 4096, 1: 1} {
		if got := RequestShare(connections); got != want {
			t.Errorf("of %d connections: %d, want %d", connections, got, want)
		}
	}
}

// One agent takes its share and no more, of which streams are half; what ends gives
// its place back.
func TestHands(t *testing.T) {
	var hs hands
	busy := func(err error) bool { return fault.From(err).Ref == fault.HostBusy }
	var taken []*hand
	var ctxs []context.Context
	for range 4 {
		ctx, h, err := hs.take(t.Context(), "a", true, 4)
		if err != nil {
			t.Fatal(err)
		}
		taken, ctxs = append(taken, h), append(ctxs, ctx)
	}
	if _, _, err := hs.take(t.Context(), "a", true, 4); !busy(err) {
		t.Errorf("one more: %v", err)
	}
	_, other, err := hs.take(t.Context(), "b", true, 4)
	if err != nil {
		t.Errorf("another agent: %v", err)
	}
	if err := errors.Join(taken[0].lasts(), taken[1].lasts()); err != nil {
		t.Error(err)
	}
	if err := taken[2].lasts(); !busy(err) {
		t.Errorf("a third stream: %v", err)
	}
	hs.end("a", func(h *hand) bool { return h.stream })
	for i, ctx := range ctxs {
		if ended := ctx.Err() != nil; ended != (i < 2) {
			t.Errorf("request %d ended: %t", i, ended)
		}
	}
	taken[0].leave()
	if err := taken[2].lasts(); err != nil {
		t.Errorf("after one ended: %v", err)
	}
	for _, h := range append(taken[1:], other) {
		h.leave()
	}
	if len(hs.open) != 0 {
		t.Errorf("left: %v", hs.open)
	}
}
