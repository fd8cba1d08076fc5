// Package account counts what agents have models do, by agent and day (UTC), and says
// when a budget is spent. The counts outlive the process: they stand in the host's
// state, one entry an agent and day.
package account

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"time"
)

// Used is what was used.
type Used struct {
	Calls  int64 `json:"calls"`
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Micros int64 `json:"cost_micros"` // millionths of the operator's currency
}

// Tokens are all of them.
func (u Used) Tokens() int64 { return u.Input + u.Output }

// Cost is the money.
func (u Used) Cost() float64 { return float64(u.Micros) / 1e6 }

// Budget is the most an agent may use in a day; 0 = any amount.
type Budget struct {
	Tokens int64
	Micros int64
}

// State keeps bytes by key; that of the host does.
type State interface {
	Get(ctx context.Context, key string) (value []byte, version uint64, found bool, err error)
	Put(ctx context.Context, key string, value []byte, secret bool) (uint64, error)
}

// Book counts. The zero value is not ready; see New.
type Book struct {
	state func() State
	now   func() time.Time

	mu      sync.Mutex
	day     string
	entries map[string]*entry // of the day
}

type entry struct {
	Used
	open int // calls that run and are not counted yet
}

// maxAgents is how many agents of a day are kept at hand.
const maxAgents = 10_000

// New makes a book that keeps its entries in a state.
func New(state func() State) *Book {
	return &Book{state: state, now: time.Now, entries: map[string]*entry{}}
}

// Spent says that a budget is used up.
type Spent struct {
	Agent, What string
	Again       time.Time // when the next day begins
}

func (s *Spent) Error() string {
	return fmt.Sprintf("agent %q has used its %s of today for models; it is free again at %s", s.Agent, s.What, s.Again.Format(time.RFC3339))
}

// Begin opens a call: *Spent when the budget is used up. A call that was begun may
// go over it, so at most open calls do.
func (b *Book) Begin(ctx context.Context, agent string, budget Budget, open int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.entry(ctx, agent)
	if err != nil {
		return err
	}
	again := b.now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	switch {
	case budget.Tokens > 0 && e.Tokens() >= budget.Tokens:
		return &Spent{agent, fmt.Sprintf("%d tokens", budget.Tokens), again}
	case budget.Micros > 0 && e.Micros >= budget.Micros:
		return &Spent{agent, fmt.Sprintf("budget of %.2f", float64(budget.Micros)/1e6), again}
	case (budget.Tokens > 0 || budget.Micros > 0) && e.open >= open:
		return &Spent{agent, fmt.Sprintf("%d calls at a time under a budget", open), b.now().UTC()}
	}
	e.open++
	return nil
}

// End closes a call with what it used.
func (b *Book) End(ctx context.Context, agent string, used Used) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.entry(ctx, agent)
	if err != nil {
		return err
	}
	e.open = max(e.open-1, 0)
	if used == (Used{}) {
		return nil
	}
	e.Calls += used.Calls
	e.Input += used.Input
	e.Output += used.Output
	e.Micros += used.Micros
	raw, err := json.Marshal(e.Used)
	if err != nil {
		return err
	}
	_, err = b.state().Put(ctx, key(b.day, agent), raw, false)
	return err
}

// Today is what an agent has used.
func (b *Book) Today(ctx context.Context, agent string) (Used, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.entry(ctx, agent)
	if err != nil {
		return Used{}, err
	}
	return e.Used, nil
}

func key(day, agent string) string { return "usage/" + day + "/" + url.PathEscape(agent) }

// entry finds the entry of an agent for today; the lock is held.
func (b *Book) entry(ctx context.Context, agent string) (*entry, error) {
	if day := b.now().UTC().Format(time.DateOnly); day != b.day {
		fresh := map[string]*entry{}
		for name, e := range b.entries {
			if e.open > 0 {
				fresh[name] = &entry{open: e.open} // it ends today
			}
		}
		b.day, b.entries = day, fresh
	}
	if e := b.entries[agent]; e != nil {
		return e, nil
	}
	raw, _, found, err := b.state().Get(ctx, key(b.day, agent))
	if err != nil {
		return nil, fmt.Errorf("what agent %q has used can't be read: %w", agent, err)
	}
	e := &entry{}
	if found {
		if err := json.Unmarshal(raw, &e.Used); err != nil {
			return nil, fmt.Errorf("what agent %q has used can't be read: %w", agent, err)
		}
	}
	if len(b.entries) >= maxAgents {
		for name, old := range b.entries {
			if old.open == 0 {
				delete(b.entries, name) // it stands in the state
				break
			}
		}
	}
	b.entries[agent] = e
	return e, nil
}
