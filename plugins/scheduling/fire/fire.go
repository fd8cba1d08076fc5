package fire

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Host is what is needed of the host for one owner.
type Host interface {
	// Derive makes a handle of the session patrol/{slug} of the owner.
	Derive(ctx context.Context, t *task.Task) (handle string, err error)
	Release(ctx context.Context, handle string) error
	Publish(ctx context.Context, handle string, e sdk.Event) error
	CallTool(ctx context.Context, handle, tool string, arguments json.RawMessage, timeout time.Duration) (sdk.Result, error)
}

// Deliverer delivers fires.
type Deliverer struct {
	Host Host
	Hook *Hook // nil = there are no webhooks
	// ToolTimeout of a tool call, 0 = the tool's own.
	ToolTimeout time.Duration
	Now         func() time.Time
	// Wait pauses between attempts; false when ctx ended first.
	Wait func(ctx context.Context, d time.Duration) bool
}

const (
	attempts   = 5
	firstPause = time.Second
	maxPause   = time.Minute
	maxReport  = 16 << 10 // bytes of a result that are told
)

// report is what stands in an event's data.
type report struct {
	Task    string    `json:"task"`
	ID      string    `json:"task_id"`
	Fire    string    `json:"fire_id"`
	Due     time.Time `json:"due"`
	Action  string    `json:"action"`
	Outcome string    `json:"outcome,omitempty"`
	Manual  bool      `json:"manual,omitempty"`
	Missed  int       `json:"missed,omitempty"`
	Again   bool      `json:"may_have_run_before,omitempty"`
	Prompt  string    `json:"prompt,omitempty"`
	Tool    string    `json:"tool,omitempty"`
}

// Deliver does what a fire is for. done is false when ctx ended first: then it is
// not known what became of it.
func (d *Deliverer) Deliver(ctx context.Context, t *task.Task, f task.Fire) (r task.Run, done bool) {
	r = task.Run{ID: f.ID, Due: f.Due, Begun: f.Begun, Manual: f.Manual, Again: f.Again > 0}
	handle, err := retry(ctx, d, func() (string, error) { return d.Host.Derive(ctx, t) })
	if err != nil {
		if ctx.Err() != nil {
			return r, false
		}
		return d.end(r, task.Failed, "the owner can't be acted for: "+err.Error()), true
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = d.Host.Release(ctx, handle) // what is left of it is bounded by the host
	}()
	var text string
	switch t.Action.Kind {
	case task.Tool:
		r, text = d.tool(ctx, handle, t, r)
	case task.Webhook:
		r = d.webhook(ctx, t, f, r)
		text = r.Detail
	default:
		r.Outcome, r.Again = task.OK, false // the inbox takes a fire once
		text = t.Description
	}
	if ctx.Err() != nil && r.Outcome != task.OK {
		return r, false
	}
	// What a webhook did well needs no word; all else is for the owner to see.
	if t.Action.Kind != task.Webhook || r.Outcome != task.OK {
		_, err = retry(ctx, d, func() (struct{}, error) { return struct{}{}, d.publish(ctx, handle, t, event(t, f, r, text)) })
	}
	if err != nil {
		if ctx.Err() != nil && t.Action.Kind == task.Prompt {
			return r, false
		}
		if t.Action.Kind == task.Prompt {
			r.Outcome = task.Failed
		}
		r.Detail += "; it could not be put into the inbox: " + err.Error()
	}
	r.Ended = d.Now()
	return r, true
}

// publish puts an event where the task's owner wants it.
func (d *Deliverer) publish(ctx context.Context, handle string, t *task.Task, e sdk.Event) error {
	if t.Inbox == task.InboxSession && t.Session != "" {
		err := d.Host.Publish(ctx, t.Session, e)
		if err == nil || sdk.CodeOf(err) != sdk.Denied {
			return err
		}
		// The session is over.
	}
	return d.Host.Publish(ctx, handle, e)
}

func (d *Deliverer) end(r task.Run, outcome, detail string) task.Run {
	r.Outcome, r.Detail, r.Ended = outcome, detail, d.Now()
	return r
}

// event is the inbox entry of a fire.
func event(t *task.Task, f task.Fire, r task.Run, text string) sdk.Event {
	rep := report{Task: t.Name, ID: t.ID, Fire: f.ID, Due: f.Due, Action: t.Action.Kind, Outcome: r.Outcome, Manual: f.Manual, Missed: f.Missed, Again: r.Again, Tool: t.Action.Tool}
	head := fmt.Sprintf("Scheduled task %q is due (%s).", t.Name, f.Due.Format(time.RFC3339))
	kind := "scheduled_task"
	if t.Action.Kind != task.Prompt {
		kind = "scheduled_task_result"
		head = fmt.Sprintf("Scheduled task %q (%s) ran: %s.", t.Name, f.Due.Format(time.RFC3339), r.Outcome)
	} else {
		rep.Prompt = t.Description
	}
	if f.Missed > 1 {
		head += fmt.Sprintf(" It stands for %d times that were missed.", f.Missed)
	} else if f.Missed == 1 {
		head += " It comes late: the scheduler was not running when it was due."
	}
	if r.Again {
		head += " It may have run before: an earlier attempt was cut short and left no outcome."
	}
	data, err := json.Marshal(rep)
	if err != nil {
		data = nil // plain values: can't fail
	}
	// The id is the fire's, so that an inbox that has it already stays as it is.
	return sdk.Event{Kind: kind, Text: clip(head+"\n\n"+text, maxReport), Data: data, DedupID: f.ID}
}

// tool runs the tool action.
func (d *Deliverer) tool(ctx context.Context, handle string, t *task.Task, r task.Run) (task.Run, string) {
	args := t.Action.Arguments
	if len(args) == 0 {
		args = json.RawMessage(`{}`)
	}
	result, err := retry(ctx, d, func() (sdk.Result, error) {
		result, err := d.Host.CallTool(ctx, handle, t.Action.Tool, args, d.ToolTimeout)
		if err == nil && result.Error != nil && result.Error.Code == sdk.Unavailable && result.Error.Retryable {
			err = result.Error // it did not run
		}
		return result, err
	})
	if err != nil {
		r = d.end(r, task.Failed, err.Error())
		return r, r.Detail
	}
	text := result.Text()
	_, asks := result.Asks()
	switch {
	case asks, result.Error != nil && result.Error.Code == sdk.Denied && result.Error.Retryable:
		r.Outcome, r.Detail = task.Waiting, text
	case result.IsError || result.Error != nil:
		r.Outcome, r.Detail = task.Failed, text
		if result.Error != nil && text == "" {
			r.Detail = result.Error.Message
		}
	default:
		r.Outcome, r.Detail = task.OK, clip(text, 200)
	}
	return r, text
}

// retry repeats what failed without having been done.
func retry[T any](ctx context.Context, d *Deliverer, do func() (T, error)) (v T, err error) {
	pause := firstPause
	for n := 1; ; n++ {
		if v, err = do(); err == nil {
			return v, nil
		}
		if !passing(err) || n == attempts || !d.Wait(ctx, pause) {
			return v, err
		}
		pause = min(2*pause, maxPause)
	}
}

// passing reports whether an error may be gone soon.
func passing(err error) bool { return sdk.CodeOf(err) == sdk.Unavailable }

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return string([]rune(s[:n])) + "…"
}

// Sleep is Wait by the machine's clock.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
