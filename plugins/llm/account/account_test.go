package account

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

type memory struct {
	mu     sync.Mutex
	values map[string][]byte
}

func (m *memory) Get(_ context.Context, key string) ([]byte, uint64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	return v, 1, ok, nil
}

func (m *memory) Put(_ context.Context, key string, value []byte, _ bool) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = value
	return 1, nil
}

func TestCountsOutliveTheBookAndEndWithTheDay(t *testing.T) {
	state := &memory{values: map[string][]byte{}}
	now := time.Date(2026, 12, 1, 23, 0, 0, 0, time.UTC)
	open := func() *Book {
		b := New(func() State { return state })
		b.now = func() time.Time { return now }
		return b
	}
	ctx := t.Context()
	budget := Budget{Tokens: 100}
	b := open()
	for range 2 {
		if err := b.Begin(ctx, "a/b", budget, 4); err != nil {
			t.Fatal(err)
		}
		if err := b.End(ctx, "a/b", Used{Calls: 1, Input: 40, Output: 10, Micros: 7}); err != nil {
			t.Fatal(err)
		}
	}
	b = open() // another process
	var spent *Spent
	if err := b.Begin(ctx, "a/b", budget, 4); !errors.As(err, &spent) || !spent.Again.Equal(time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v", err)
	}
	if err := b.Begin(ctx, "other", budget, 4); err != nil {
		t.Errorf("another agent: %v", err)
	}
	if used, err := b.Today(ctx, "a/b"); err != nil || used != (Used{2, 80, 20, 14}) {
		t.Errorf("%+v, %v", used, err)
	}
	now = now.Add(2 * time.Hour)
	if err := b.Begin(ctx, "a/b", budget, 4); err != nil {
		t.Errorf("the next day: %v", err)
	}
}

// An agent goes over its budget by no more than the calls that may be open.
func TestARunawayIsStopped(t *testing.T) {
	b := New(func() State { return &memory{values: map[string][]byte{}} })
	var all sync.WaitGroup
	var mu sync.Mutex
	let := 0
	for range 50 {
		all.Go(func() {
			if b.Begin(t.Context(), "a", Budget{Tokens: 10}, 3) == nil {
				mu.Lock()
				let++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if let != 3 {
		t.Errorf("%d calls are open at a time", let)
	}
	for range let {
		if err := b.End(t.Context(), "a", Used{Calls: 1, Input: 10}); err != nil {
			t.Error(err)
		}
	}
	if err := b.Begin(t.Context(), "a", Budget{Tokens: 10}, 3); err == nil {
		t.Error("the budget is not used up")
	}
}
