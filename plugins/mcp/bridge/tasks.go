package bridge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/elicit"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// States a task of the bridge has beside those of its server.
const (
	taskExpired = "expired" // it took longer than task_timeout
	taskLost    = "lost"    // its server does not know it any more, or is gone
)

const (
	taskPrefix = "task/"
	// taskKept is how long an ended task is remembered.
	taskKept = 24 * time.Hour
	// maxTaskArgs is how much of the arguments is kept, for people.
	maxTaskArgs = 4000
)

// taskRecord is what is written down of a task. Results and answers never are.
type taskRecord struct {
	ID         string    `json:"id"` // ours, t_…
	ServerTask string    `json:"server_task"`
	Server     string    `json:"server"`
	Identity   string    `json:"identity"` // of the server: another one of the name does not know the task
	Tool       string    `json:"tool"`
	Args       string    `json:"args"` // redacted
	Modern     bool      `json:"modern"`
	Session    string    `json:"session"` // durable handle
	Namespace  string    `json:"namespace"`
	CanAnswer  bool      `json:"can_answer"`
	Save       bool      `json:"save,omitempty"` // the result is to become a file
	Status     string    `json:"status"`
	Created    time.Time `json:"created"`
	Expires    time.Time `json:"expires"`
	Resolved   time.Time `json:"resolved,omitzero"`
	// Delivered says that the session was told. It is apart from the status, so that
	// what ended and was not told before a crash is told once, afterwards.
	Delivered bool `json:"delivered"`
}

func (r *taskRecord) over() bool {
	return r.Status != downstream.TaskWorking && r.Status != downstream.TaskAsking
}

// backgroundTask is a task that runs, or has not been told of.
type backgroundTask struct {
	mu       sync.Mutex
	rec      taskRecord
	interval time.Duration
	asking   *asking
	answered map[string]bool // questions that were taken up, by the server's key
	cancel   context.CancelFunc
}

func (t *backgroundTask) record() taskRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rec
}

// tasks are the background tasks of servers.
type tasks struct {
	mu       sync.Mutex
	known    map[string]*backgroundTask
	reserved map[string]int // calls under way that may become tasks, by session
	wg       sync.WaitGroup
	ctx      context.Context // of all pollers; nil before start
	stop     context.CancelFunc
}

// asking is the record of what a task of a server asks.
func (t *tasks) asking(identity, id string) *asking {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.known {
		if r := x.record(); r.Identity == identity && r.ServerTask == id && id != "" {
			return x.asking
		}
	}
	return nil
}

// reserve admits a call that may become a task. free gives the place back when it
// did not; a task holds it by itself.
func (t *tasks) reserve(session string, c *settings.Settings) (free func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, all := t.reserved[session], 0
	for _, n := range t.reserved {
		all += n
	}
	var names []string
	for _, x := range t.known {
		r := x.record()
		if r.over() {
			continue
		}
		if all++; r.Session == session {
			own++
			names = append(names, fmt.Sprintf("%s (%s of %s)", r.ID, r.Tool, r.Server))
		}
	}
	slices.Sort(names)
	running := orElse(strings.Join(names, ", "), "none of this session")
	switch {
	case own >= c.MaxTasksPerSession:
		return nil, sdk.Errorf(sdk.Unavailable, "this session runs %d background tasks already (max_tasks_per_session): %s; wait for one, or stop one with mcp_cancel_task", own, running).After(time.Second)
	case all >= c.MaxTasks:
		return nil, sdk.Errorf(sdk.Unavailable, "%d background tasks run already (max_tasks); of this session: %s", all, running).After(time.Second)
	}
	if t.reserved == nil {
		t.reserved = map[string]int{}
	}
	t.reserved[session]++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.reserved[session]--; t.reserved[session] <= 0 {
			delete(t.reserved, session)
		}
	}), nil
}

// mayTask reports whether a call may become a task: a later result must reach its
// session.
func (s *server) mayTask(call *sdk.Call) bool {
	return s.conf.Tasks && !s.agent && call.MayTask && call.SessionRef != "" &&
		(strings.HasPrefix(call.Namespace, "session/") || strings.HasPrefix(call.Namespace, "subagent/"))
}

func (s *server) taskTimeout() time.Duration {
	if s.conf.TaskTimeout > 0 {
		return s.conf.TaskTimeout.Std()
	}
	return s.inForce().DefaultTaskTimeout.Std()
}

// taskStarted writes a task down, before anybody hears of it, and follows it.
func (s *server) taskStarted(ctx context.Context, x *exchange, created *downstream.Task) (sdk.Result, error) {
	a := x.asking
	id := "t_" + strings.ToLower(rand.Text()[:16])
	now := time.Now().UTC()
	t := &backgroundTask{interval: created.Interval, asking: &asking{what: "the task " + id, tool: a.tool, args: a.args, session: a.session, namespace: a.namespace},
		rec: taskRecord{ID: id, ServerTask: created.ID, Server: s.conf.Name, Identity: s.id, Tool: a.tool, Args: clip(elicit.Redact(a.args), maxTaskArgs), Modern: x.modern,
			Session: a.session, Namespace: a.namespace, CanAnswer: a.call != nil && a.call.CanAnswer, Save: x.save, Status: downstream.TaskWorking, Created: now, Expires: now.Add(s.taskTimeout())}}
	if err := s.b.tasks.save(ctx, s.b, t); err != nil {
		_ = s.cancelTask(ctx, t) // nobody would ever ask for it
		return sdk.Result{}, sdk.Errorf(sdk.ExecutionFailed, "the background task of %q could not be written down and was cancelled: %v", a.tool, err)
	}
	s.b.tasks.follow(s.b, t)
	text := fmt.Sprintf("%q of server %q started as a background task.\ntask_id: %s\nIts result comes to this session's inbox when it is done (inbox_read), at the latest at %s. mcp_cancel_task stops it. Do not call the tool again for the same.",
		a.tool, s.conf.Name, id, t.rec.Expires.Format(time.RFC3339))
	if created.Now != "" {
		text += "\nThe server says: " + strings.Join(strings.Fields(created.Now), " ")
	}
	return sdk.TextResult(text), nil
}

// save writes a task's record down.
func (t *tasks) save(ctx context.Context, b *Bridge, x *backgroundTask) error {
	rec := x.record()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, err := b.plugin.Host().State().Put(ctx, taskPrefix+rec.ID, mustJSON(rec), true)
	return err
}

// start takes up the tasks an earlier process left.
func (t *tasks) start(ctx context.Context, b *Bridge) {
	t.mu.Lock()
	t.ctx, t.stop = context.WithCancel(ctx)
	t.mu.Unlock()
	state := b.plugin.Host().State()
	for after := ""; ; {
		look, cancel := context.WithTimeout(ctx, 10*time.Second)
		entries, next, err := state.List(look, taskPrefix, after, 500)
		cancel()
		if err != nil {
			b.plugin.Logger().Warn("background tasks can't be read", "error", err)
			return
		}
		for _, e := range entries {
			t.restore(ctx, b, e.Key)
		}
		if after = next; after == "" {
			return
		}
	}
}

func (t *tasks) restore(ctx context.Context, b *Bridge, key string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	state := b.plugin.Host().State()
	raw, _, found, err := state.Get(ctx, key)
	var rec taskRecord
	if err != nil || !found {
		return
	}
	if json.Unmarshal(raw, &rec) != nil || rec.ID == "" || rec.Delivered && time.Since(rec.Resolved) > taskKept {
		if _, err := state.Delete(ctx, key); err != nil {
			b.plugin.Logger().Debug("an old task is still in the ledger", "error", err)
		}
		return
	}
	x := &backgroundTask{rec: rec, asking: &asking{what: "the task " + rec.ID, tool: rec.Tool, args: json.RawMessage(rec.Args), session: rec.Session, namespace: rec.Namespace}}
	if rec.Delivered {
		t.mu.Lock()
		t.keep(x)
		t.mu.Unlock()
		return
	}
	t.follow(b, x)
}

// keep knows a task, and forgets those that ended long ago. t.mu is held.
func (t *tasks) keep(x *backgroundTask) {
	if t.known == nil {
		t.known = map[string]*backgroundTask{}
	}
	for id, old := range t.known {
		if r := old.record(); r.Delivered && time.Since(r.Resolved) > taskKept {
			delete(t.known, id)
		}
	}
	t.known[x.rec.ID] = x
}

// follow polls a task until it has ended and its session knows.
func (t *tasks) follow(b *Bridge, x *backgroundTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(x)
	if t.ctx == nil || t.ctx.Err() != nil {
		return // a later process takes it up
	}
	ctx, cancel := context.WithCancel(t.ctx)
	x.cancel = cancel
	t.wg.Go(func() {
		defer cancel()
		b.attend(ctx, x)
	})
}

// end stops all pollers; the tasks go on, on their servers.
func (t *tasks) end() {
	t.mu.Lock()
	stop := t.stop
	t.mu.Unlock()
	if stop != nil {
		stop()
	}
	t.wg.Wait()
}
