package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
)

// State is the part of sdk.State that is used.
type State interface {
	Get(ctx context.Context, key string) (value []byte, version uint64, found bool, err error)
	Put(ctx context.Context, key string, value []byte, secret bool) (uint64, error)
	Delete(ctx context.Context, key string) (bool, error)
	CompareAndSet(ctx context.Context, key string, expected uint64, value []byte, secret bool) (swapped bool, version uint64, err error)
}

// Keys of the state.
const (
	taskKeys    = "task/"
	asideKeys   = "unreadable/"
	pastKeys    = "past/"
	handleKeys  = "handle/"
	maxPast     = 20 // finished tasks kept of an owner
	loadWorkers = 8
)

// ErrChanged says that a record is not the one that was read: another process
// writes too.
var ErrChanged = errors.New("the task was changed by another process")

// Book is the store.
type Book struct {
	past  sync.Mutex // held while a list of finished tasks is rewritten
	state func() State
	list  func(ctx context.Context, prefix, after string) (keys []string, next string, err error)
}

// New makes a book over the host's state. list gives a page of keys below a prefix.
func New(state func() State, list func(ctx context.Context, prefix, after string) (keys []string, next string, err error)) *Book {
	return &Book{state: state, list: list}
}

// Kept is a task with the version of its record.
type Kept struct {
	Task    *task.Task
	Version uint64
}

// Load reads all tasks. Records that can't be read are put aside, and told of.
func (b *Book) Load(ctx context.Context) (tasks []Kept, faults []string, err error) {
	keys, err := b.keys(ctx, taskKeys)
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	todo := make(chan string)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range loadWorkers {
		wg.Go(func() {
			for key := range todo {
				k, fault, e := b.read(ctx, key)
				mu.Lock()
				switch {
				case e != nil && err == nil:
					err = e
					cancel()
				case fault != "":
					faults = append(faults, fault)
				case k.Task != nil:
					tasks = append(tasks, k)
				}
				mu.Unlock()
			}
		})
	}
	for _, key := range keys {
		todo <- key
	}
	close(todo)
	wg.Wait()
	return tasks, faults, err
}

func (b *Book) read(ctx context.Context, key string) (k Kept, fault string, err error) {
	raw, version, found, err := b.state().Get(ctx, key)
	if err != nil || !found {
		return Kept{}, "", err
	}
	t := &task.Task{}
	if e := decode(raw, t); e != nil || taskKeys+t.ID != key || t.Owner == "" || t.Check() != nil {
		if e == nil {
			e = errors.Join(errors.New("it is no task, or another's"), t.Check())
		}
		id := key[len(taskKeys):]
		if _, err := b.state().Put(ctx, asideKeys+id, raw, false); err != nil {
			return Kept{}, "", err
		}
		if _, err := b.state().Delete(ctx, key); err != nil {
			return Kept{}, "", err
		}
		return Kept{}, fmt.Sprintf("task %s could not be read (%v); its record is kept as %s%s", id, e, asideKeys, id), nil
	}
	return Kept{Task: t, Version: version}, "", nil
}

// Read reads one task again; Task is nil when it is gone or can't be read.
func (b *Book) Read(ctx context.Context, id string) (Kept, error) {
	raw, version, found, err := b.state().Get(ctx, taskKeys+id)
	if err != nil || !found {
		return Kept{}, err
	}
	t := &task.Task{}
	if decode(raw, t) != nil {
		return Kept{}, nil
	}
	return Kept{Task: t, Version: version}, nil
}

func decode(raw []byte, into any) error { return json.Unmarshal(raw, into) }

func (b *Book) keys(ctx context.Context, prefix string) (all []string, err error) {
	for after := ""; ; {
		keys, next, err := b.list(ctx, prefix, after)
		if err != nil {
			return nil, err
		}
		all = append(all, keys...)
		if next == "" {
			return all, nil
		}
		after = next
	}
}

// Save writes a task over the version that was read, 0 = it is new.
func (b *Book) Save(ctx context.Context, t *task.Task, version uint64) (uint64, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return 0, err
	}
	swapped, now, err := b.state().CompareAndSet(ctx, taskKeys+t.ID, version, raw, false)
	if err != nil {
		return 0, err
	}
	if !swapped {
		return 0, ErrChanged
	}
	return now, nil
}

// Past is what is kept of a finished task.
type Past struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Why    string     `json:"why"` // finished or cancelled
	Runs   []task.Run `json:"runs,omitempty"`
	Action string     `json:"action"`
}

// Retire removes a task and keeps what became of it.
func (b *Book) Retire(ctx context.Context, t *task.Task, why string) error {
	b.past.Lock()
	defer b.past.Unlock()
	past, err := b.Past(ctx, t.Owner)
	if err != nil {
		return err
	}
	kept := past[:0]
	for _, p := range past {
		if p.ID != t.ID {
			kept = append(kept, p)
		}
	}
	kept = append(kept, Past{ID: t.ID, Name: t.Name, Why: why, Runs: t.Runs, Action: t.Action.Kind})
	if over := len(kept) - maxPast; over > 0 {
		kept = kept[over:]
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	if _, err := b.state().Put(ctx, pastKeys+t.Owner, raw, false); err != nil {
		return err
	}
	_, err = b.state().Delete(ctx, taskKeys+t.ID)
	return err
}

// Past lists the last finished tasks of an owner, oldest first.
func (b *Book) Past(ctx context.Context, owner string) ([]Past, error) {
	raw, _, found, err := b.state().Get(ctx, pastKeys+owner)
	if err != nil || !found {
		return nil, err
	}
	var past []Past
	if decode(raw, &past) != nil {
		// It tells of what is over and nothing depends on it.
		if _, err := b.state().Put(ctx, asideKeys+pastKeys+owner, raw, false); err != nil {
			return nil, err
		}
		return nil, nil
	}
	return past, nil
}

// Handle is the handle by which an owner is acted for; empty when there is none.
func (b *Book) Handle(ctx context.Context, owner, profile string) (string, error) {
	raw, _, _, err := b.state().Get(ctx, handleKey(owner, profile))
	return string(raw), err
}

// SetHandle keeps it.
func (b *Book) SetHandle(ctx context.Context, owner, profile, handle string) error {
	_, err := b.state().Put(ctx, handleKey(owner, profile), []byte(handle), true)
	return err
}

func handleKey(owner, profile string) string { return handleKeys + owner + "/" + profile }
