package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	// taskStep is what one request about a task may take.
	taskStep = 30 * time.Second
	// inlineResult is how many characters of a result stand in the inbox.
	inlineResult = 4000
	// maxTaskResult is the most bytes of a result that are kept in working memory.
	maxTaskResult = 1 << 20
)

// dropTime is what ending the tasks of servers that are taken away may take.
const dropTime = 15 * time.Second

// errUnknownTask says that the server does not know a task.
var errUnknownTask = errors.New("the server does not know the task any more")

// attend looks at one task until it has ended and its session knows. A task that ended before a restart, untold, is told now.
func (b *Bridge) attend(ctx context.Context, t *backgroundTask) {
	failures := 0
	for {
		rec := t.record()
		c := b.conf.Get()
		wait := min(max(t.interval, c.TaskPollMin.Std()), c.TaskPollMax.Std())
		if failures > 0 {
			wait = min(wait<<min(failures, 10), c.TaskPollMax.Std())
		}
		if left := time.Until(rec.Expires); left < wait {
			wait = max(left, 0)
		}
		if rec.over() {
			wait = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		s, why := b.taskServer(&rec)
		switch {
		case s == nil && !rec.over():
			b.finish(ctx, t, taskLost, why, nil)
			return
		case !rec.over() && !time.Now().Before(rec.Expires):
			if err := s.cancelTask(ctx, t); err != nil {
				s.log.Debug("a task that took too long is not cancelled", "task", rec.ID, "error", err)
			}
			b.finish(ctx, t, taskExpired, fmt.Sprintf("it took longer than %s and was cancelled (task_timeout)", rec.Expires.Sub(rec.Created)), nil)
			return
		case s == nil:
			b.finish(ctx, t, rec.Status, "its result is not to be had any more: "+why, nil)
			return
		}
		done, err := s.lookAt(ctx, t)
		switch {
		case ctx.Err() != nil || done:
			return
		case errors.Is(err, errUnknownTask):
			b.finish(ctx, t, taskLost, err.Error(), nil)
			return
		case err != nil:
			if failures++; failures >= c.TaskPollFailures {
				b.finish(ctx, t, taskLost, fmt.Sprintf("the server could not be asked %d times in a row, last: %v", failures, err), nil)
				return
			}
			s.log.Debug("a task could not be looked at", "task", rec.ID, "failures", failures, "error", err)
		default:
			failures = 0
		}
	}
}

// taskServer is the server that runs a task, or why there is none.
func (b *Bridge) taskServer(rec *taskRecord) (*server, string) {
	s, err := b.find(rec.Server)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("server %q is no longer configured", rec.Server)
	case s.id != rec.Identity:
		return nil, fmt.Sprintf("server %q was configured anew", rec.Server)
	case !s.conf.Tasks:
		return nil, fmt.Sprintf("server %q runs no tasks any more, by its settings", rec.Server)
	}
	return s, ""
}

// aboutTask sends one request about a task.
func (s *server) aboutTask(ctx context.Context, t *backgroundTask, method string, more map[string]any, limit time.Duration) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	params := map[string]any{"taskId": t.record().ServerTask}
	for k, v := range more {
		params[k] = v
	}
	raw, _, err := s.request(ctx, &exchange{method: method, asking: t.asking, extension: true}, mustJSON(params))
	var rpc *downstream.RPCError
	if errors.As(err, &rpc) && downstream.BadParams(err) {
		return nil, fmt.Errorf("%w: %s", errUnknownTask, clip(rpc.Error(), 300))
	}
	return raw, err
}

func (s *server) cancelTask(ctx context.Context, t *backgroundTask) error {
	_, err := s.aboutTask(context.WithoutCancel(ctx), t, downstream.TaskCancel, nil, 10*time.Second)
	return err
}

// lookAt asks for a task's state once, and does what it calls for.
func (s *server) lookAt(ctx context.Context, t *backgroundTask) (done bool, err error) {
	raw, err := s.aboutTask(ctx, t, downstream.TaskGet, nil, taskStep)
	if err != nil {
		return false, err
	}
	state, err := downstream.ReadTask(raw)
	if err != nil {
		return false, err
	}
	rec := t.record()
	if state.Interval > 0 {
		t.interval = state.Interval
	}
	switch state.Status {
	case downstream.TaskCancelled:
		s.b.finish(ctx, t, downstream.TaskCancelled, orElse(state.Message, "the server cancelled it"), nil)
		return true, nil
	case downstream.TaskAsking:
		if rec.Modern {
			s.taskAsks(ctx, t, state)
			return false, nil
		}
		// The question comes with the request for the result, and so does the result.
		return s.fetch(ctx, t, downstream.TaskCompleted, time.Until(rec.Expires))
	case downstream.TaskCompleted, downstream.TaskFailed:
		switch {
		case !rec.Modern:
			return s.fetch(ctx, t, state.Status, taskStep)
		case state.Err != nil:
			s.b.finish(ctx, t, downstream.TaskFailed, clip(state.Err.Error(), 4000), nil)
		case state.Status == downstream.TaskFailed:
			s.b.finish(ctx, t, downstream.TaskFailed, orElse(state.Message, "the server does not say why"), nil)
		default:
			s.mapped(ctx, t, state.Result)
		}
		return true, nil
	}
	return false, nil
}

// fetch gets the result of a task of 2025-11-25.
func (s *server) fetch(ctx context.Context, t *backgroundTask, status string, limit time.Duration) (bool, error) {
	in, done := s.during(ctx, t.asking)
	defer done()
	raw, err := s.aboutTask(in, t, downstream.TaskResult, nil, max(limit, time.Second))
	var rpc *downstream.RPCError
	switch {
	case errors.As(err, &rpc) && !errors.Is(err, errUnknownTask):
		s.b.finish(ctx, t, downstream.TaskFailed, clip(rpc.Error(), 4000), nil)
		return true, nil
	case err != nil:
		return false, err
	}
	s.mapped(ctx, t, raw)
	return true, nil
}

// mapped ends a task with what its call gave, by the same way as any call.
func (s *server) mapped(ctx context.Context, t *backgroundTask, raw json.RawMessage) {
	rec := t.record()
	tool := &downstream.Tool{Name: rec.Tool}
	if v := s.last(); v != nil {
		if e, ok := v.tool(rec.Tool); ok {
			tool = e.Tool
		}
	}
	r, err := s.incoming(ctx, tool, json.RawMessage("{}"), raw, rec.Save)
	r, err = t.asking.noted(s.conf.Name, tool, r, err)
	switch {
	case err != nil:
		s.b.finish(ctx, t, downstream.TaskFailed, err.Error(), nil)
	case r.IsError:
		s.b.finish(ctx, t, downstream.TaskFailed, "the tool reports an error", &r)
	default:
		s.b.finish(ctx, t, downstream.TaskCompleted, "", &r)
	}
}

// taskAsks answers what a task asks, by the server's rules. What is handed back is
// asked in the session, while the task is looked at further.
func (s *server) taskAsks(ctx context.Context, t *backgroundTask, state *downstream.Task) {
	rec := t.record()
	for key, r := range state.Inputs {
		t.mu.Lock()
		taken := t.answered[key]
		if t.answered == nil {
			t.answered = map[string]bool{}
		}
		t.answered[key] = true
		t.mu.Unlock()
		if taken {
			continue
		}
		out := answered{action: "decline"}
		if r.Method == downstream.Elicit {
			out = s.answer(ctx, []*asking{t.asking}, r.Params, rec.CanAnswer)
		}
		if out.back == nil {
			s.tellTask(ctx, t, key, out)
			continue
		}
		out.back.ID = "q"
		s.b.tasks.wg.Go(func() {
			in, err := s.b.plugin.HostFor(rec.Session).Ask(ctx, *out.back)
			if ctx.Err() != nil {
				return // the next process asks again
			}
			if err != nil {
				in = sdk.Answer{Action: "decline", Reason: err.Error()}
			}
			s.tellTask(ctx, t, key, s.handedAnswer(t.asking, r.Params, in))
		})
	}
}

// tellTask sends an answer to a task. One that does not arrive is given again when
// the task asks again.
func (s *server) tellTask(ctx context.Context, t *backgroundTask, key string, a answered) {
	_, err := s.aboutTask(ctx, t, downstream.TaskUpdate, map[string]any{"inputResponses": map[string]json.RawMessage{key: a.response()}}, taskStep)
	if err != nil && ctx.Err() == nil {
		s.log.Info("an answer did not reach its task", "task", t.record().ID, "error", err)
		t.mu.Lock()
		delete(t.answered, key)
		t.mu.Unlock()
	}
}

// finish ends a task and tells its session, once. It is written down before and
// after, so that a crash in between tells it again, and the inbox takes it once.
func (b *Bridge) finish(ctx context.Context, t *backgroundTask, status, why string, r *sdk.Result) {
	t.mu.Lock()
	if t.rec.Delivered {
		t.mu.Unlock()
		return
	}
	t.rec.Status = status
	if t.rec.Resolved.IsZero() {
		t.rec.Resolved = time.Now().UTC()
	}
	rec := t.rec
	t.mu.Unlock()
	log := b.plugin.Logger().With("task", rec.ID, "server", rec.Server, "tool", rec.Tool)
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, time.Minute) {
		err := b.tasks.save(ctx, b, t)
		if err == nil {
			err = b.deliver(ctx, rec, why, r)
		}
		if err == nil {
			break
		}
		if sdk.CodeOf(err) == sdk.NotFound || sdk.CodeOf(err) == sdk.Denied {
			log.Warn("the session of a background task is gone", "error", err)
			break
		}
		log.Warn("the end of a background task is not told yet", "error", err)
		select {
		case <-ctx.Done():
			return // the next process tells it
		case <-time.After(wait):
		}
	}
	t.mu.Lock()
	t.rec.Delivered = true
	t.mu.Unlock()
	if err := b.tasks.save(ctx, b, t); err != nil {
		log.Warn("that a background task was told is not written down", "error", err)
	}
	log.Info("a background task ended", "status", status, "why", why)
}

// deliver tells a session how its task ended.
func (b *Bridge) deliver(ctx context.Context, rec taskRecord, why string, r *sdk.Result) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	host := b.plugin.HostFor(rec.Session)
	text := fmt.Sprintf("Background task %s (%q of MCP server %q) %s", rec.ID, rec.Tool, rec.Server, endings[rec.Status])
	if why != "" {
		text += ": " + clip(why, inlineResult)
	}
	key := ""
	if r != nil {
		whole := plainText(r)
		var err error
		key, err = host.Memory().Put(ctx, sdk.MemoryItem{Key: "mcp-task/" + rec.Server + "/" + rec.ID + "/result", Value: []byte(clip(whole, maxTaskResult)), TTL: taskKept, Category: "mcp-task"})
		if err != nil {
			return err
		}
		text += fmt.Sprintf(". Result, in working memory as %s:\n%s", key, clip(whole, inlineResult))
	}
	_, err := host.Publish(ctx, sdk.Event{Kind: "mcp_task", Text: text, DedupID: rec.ID,
		Data: mustJSON(map[string]string{"task_id": rec.ID, "server": rec.Server, "tool": rec.Tool, "status": rec.Status, "key": key})})
	return err
}

var endings = map[string]string{
	downstream.TaskCompleted: "is done", downstream.TaskFailed: "failed", downstream.TaskCancelled: "was cancelled",
	taskExpired: "ran out of time", taskLost: "was lost",
}

// plainText is a result as text, its files by their paths.
func plainText(r *sdk.Result) string {
	var out []string
	for _, c := range r.Content {
		switch {
		case c.File != nil:
			out = append(out, "file "+c.File.Path)
		case c.TextFile != nil:
			out = append(out, "text in "+c.TextFile.Path)
		case c.Resource != nil:
			out = append(out, c.Resource.Text)
		case c.Raw != nil:
			out = append(out, string(c.Raw))
		case c.Link != nil:
			out = append(out, c.Link.URI)
		default:
			out = append(out, c.Text)
		}
	}
	if len(out) == 0 && len(r.Structured) > 0 {
		out = append(out, string(r.Structured))
	}
	return strings.Join(out, "\n")
}

// cancelByAgent stops a task of the caller's own session.
func (b *Bridge) cancelByAgent(ctx context.Context, call *sdk.Call, a arguments) (sdk.Result, error) {
	id, err := a.text("task_id", "the t_… id of a background task of this session")
	if err != nil {
		return sdk.Result{}, err
	}
	b.tasks.mu.Lock()
	t := b.tasks.known[id]
	b.tasks.mu.Unlock()
	if t == nil || call.SessionRef == "" || t.record().Session != call.SessionRef {
		return sdk.Result{}, sdk.Errorf(sdk.NotFound, "there is no background task %s in this session", clip(id, 60))
	}
	told, err := b.withdraw(ctx, t)
	if err != nil {
		return sdk.Result{}, err
	}
	if !told {
		return sdk.Textf("Background task %s had ended already (%s).", id, t.record().Status), nil
	}
	return sdk.Textf("Background task %s is cancelled. No further word of it comes.", id), nil
}

// withdraw ends a task that still runs, without telling its session.
func (b *Bridge) withdraw(ctx context.Context, t *backgroundTask) (bool, error) {
	t.mu.Lock()
	if t.rec.over() {
		t.mu.Unlock()
		return false, nil
	}
	t.rec.Status, t.rec.Resolved, t.rec.Delivered = downstream.TaskCancelled, time.Now().UTC(), true
	rec, stop := t.rec, t.cancel
	t.mu.Unlock()
	if err := b.tasks.save(ctx, b, t); err != nil {
		return false, err
	}
	if stop != nil {
		stop()
	}
	if s, _ := b.taskServer(&rec); s != nil {
		if err := s.cancelTask(ctx, t); err != nil {
			s.log.Info("a cancelled task may still run on its server", "task", rec.ID, "error", err)
		}
	}
	return true, nil
}

// dropTasks ends the tasks of servers that new settings take away.
func (b *Bridge) dropTasks(gone []*server, stays func(identity string) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), dropTime)
	defer cancel()
	for _, s := range gone {
		b.tasks.mu.Lock()
		var mine []*backgroundTask
		for _, t := range b.tasks.known {
			if r := t.record(); r.Identity == s.id && !r.over() && !stays(s.id) {
				mine = append(mine, t)
			}
		}
		b.tasks.mu.Unlock()
		for _, t := range mine {
			t.mu.Lock()
			stop := t.cancel
			t.mu.Unlock()
			if stop != nil {
				stop()
			}
			if err := s.cancelTask(ctx, t); err != nil {
				s.log.Info("a task may still run on its server", "task", t.record().ID, "error", err)
			}
			b.finish(ctx, t, downstream.TaskCancelled, fmt.Sprintf("the settings of server %q changed", s.conf.Name), nil)
		}
	}
}
