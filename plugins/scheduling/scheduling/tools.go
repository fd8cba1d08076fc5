package scheduling

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/fire"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/keeper"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const source = "scheduling"

// scheduleArgs are the arguments of schedule_task.
type scheduleArgs struct {
	Name        string          `json:"name" doc:"Name of the task; case does not matter, and a task of this name is replaced."`
	Description string          `json:"description" doc:"What is to be done when it fires, written for whoever reads it then: all that is needed, for nothing else is remembered."`
	Cron        string          `json:"cron,omitempty" doc:"Cron expression of 5 fields (minute hour day-of-month month day-of-week) or 6 with seconds first, or @daily and the like. Exactly one of cron, every and at."`
	Every       string          `json:"every,omitempty" doc:"Interval, such as 30m, 2h or 1d."`
	At          string          `json:"at,omitempty" doc:"One point in time: from now (2h, 3d) or 2026-05-01T09:00 in the task's time zone or with an offset."`
	TimeZone    string          `json:"time_zone,omitempty" doc:"IANA time zone of cron and at, such as Europe/Vienna; the scheduler's own without it."`
	RunOnce     bool            `json:"run_once,omitempty" doc:"Fire a single time, then remove the task. Pin all time fields then."`
	Missed      string          `json:"missed,omitempty" jsonschema:"enum=skip,enum=run_once,enum=run_all" doc:"What to do about times at which the scheduler was not running: skip them (of recurring tasks the default), run once for all of them (of one-time tasks the default), or run_all."`
	MissedLimit int             `json:"missed_limit,omitempty" jsonschema:"minimum=1,maximum=100" doc:"With missed = run_all: at most the latest so many, 10 without it."`
	Overlap     string          `json:"overlap,omitempty" jsonschema:"enum=skip,enum=queue,enum=parallel" doc:"What to do when it is due while its tool or webhook still runs: skip (the default), queue or parallel."`
	Jitter      string          `json:"jitter,omitempty" doc:"Fire up to so much later, the same for each time: 5m."`
	Until       string          `json:"until,omitempty" doc:"No fire after this point in time, written like at."`
	Inbox       string          `json:"inbox,omitempty" jsonschema:"enum=patrol,enum=session" doc:"Where a fire is told: in the session patrol:AGENT:TASK (the default), or in this session while it lasts."`
	Tool        string          `json:"tool,omitempty" doc:"Call this tool when it fires, instead of prompting; with your rights at that time."`
	Arguments   json.RawMessage `json:"tool_arguments,omitempty" jsonschema:"type=object" doc:"Arguments of the tool, or the payload of the webhook: a JSON object."`
	Webhook     string          `json:"webhook_url,omitempty" doc:"Send a signed webhook to this address when it fires, instead of prompting."`
}

type nameArg struct {
	Name string `json:"name" doc:"Name of the task; case does not matter."`
}

func (s *scheduler) tools() []*sdk.Tool {
	opts := func(more ...sdk.ToolOption) []sdk.ToolOption {
		return append(more, sdk.WithSource(source), sdk.WithGroup("scheduling"), sdk.WithTier(sdk.Standard))
	}
	named := func(name, description string, do func(context.Context, *sdk.Call, string) (sdk.Result, error), more ...sdk.ToolOption) *sdk.Tool {
		return sdk.NewTool(name, description, func(ctx context.Context, call *sdk.Call, in nameArg) (sdk.Result, error) {
			if err := s.admit(call); err != nil {
				return sdk.Result{}, err
			}
			return do(ctx, call, in.Name)
		}, opts(more...)...)
	}
	return []*sdk.Tool{
		sdk.NewTool("schedule_task", "Creates or replaces a scheduled task: a prompt, a tool call or a webhook that fires at a time, at an interval or by a cron expression. The answer shows the next times and the current time; guide: scheduling.",
			s.schedule, opts(sdk.WithArgumentAlias("runOnce", "run_once"), sdk.WithArgumentAlias("timeZone", "time_zone"))...),
		sdk.NewTool("list_scheduled_tasks", "Lists your scheduled tasks with their next times, and the current time and time zone, which serve to work out times.", s.list, opts(sdk.ReadOnly())...),
		named("cancel_scheduled_task", "Removes a scheduled task by name.", s.cancel, sdk.Idempotent()),
		named("pause_scheduled_task", "Stops a scheduled task from firing until it is resumed.", s.pause, sdk.Idempotent()),
		named("resume_scheduled_task", "Lets a paused task go on. What fell due meanwhile is not caught up.", s.resume, sdk.Idempotent()),
		named("run_scheduled_task", "Fires a scheduled task now; its next time stays as it is.", s.run),
		s.boardTool(),
	}
}

// now is the line that every answer ends or begins with.
func (s *scheduler) now() string {
	return "Current time: " + stamp(s.clock.Now(), s.zone)
}

// stamp is a time with its zone.
func stamp(t time.Time, zone *time.Location) string {
	t = t.In(zone)
	return t.Format("2006-01-02 15:04:05") + " (" + zoneName(t, zone) + ")"
}

func zoneName(t time.Time, zone *time.Location) string {
	offset := "UTC" + t.Format("-07:00")
	if zone == time.Local || zone.String() == "Local" {
		return "local, " + offset
	}
	if zone == time.UTC {
		return "UTC"
	}
	return zone.String() + ", " + offset
}

func (s *scheduler) schedule(ctx context.Context, call *sdk.Call, in scheduleArgs) (sdk.Result, error) {
	if err := s.admit(call); err != nil {
		return sdk.Result{}, err
	}
	spec, err := s.spec(in)
	if err != nil {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "%w. Nothing was scheduled. %s", err, s.now())
	}
	if err := s.own(ctx, call); err != nil {
		return sdk.Result{}, err
	}
	v, replaced, err := s.keeper.Schedule(ctx, call.Agent, call.Profile, call.SessionRef, spec)
	if err != nil {
		return sdk.Result{}, err
	}
	var b strings.Builder
	what := "Scheduled"
	if replaced {
		what = "Replaced"
	}
	fmt.Fprintf(&b, "%s task %q: %s; %s.\n", what, v.Name, when(v), does(v))
	if next := v.Upcoming(3); len(next) > 0 {
		fmt.Fprintf(&b, "Next fire: %s\n", stamp(v.Next, v.Zone))
		for _, at := range next[1:] {
			fmt.Fprintf(&b, "then: %s\n", stamp(at, v.Zone))
		}
	}
	b.WriteString(s.now())
	return sdk.TextResult(b.String()), nil
}

// spec reads the arguments; what is wrong is said in words for the caller.
func (s *scheduler) spec(in scheduleArgs) (task.Spec, error) {
	t := task.Spec{Name: strings.TrimSpace(in.Name), Description: in.Description, Cron: strings.TrimSpace(in.Cron), Zone: strings.TrimSpace(in.TimeZone),
		Once: in.RunOnce, Missed: in.Missed, MissedLimit: in.MissedLimit, Overlap: in.Overlap, Inbox: in.Inbox,
		Action: task.Action{Kind: task.Prompt, Arguments: in.Arguments}}
	zone, now := s.zone, s.clock.Now()
	var err error
	if t.Zone != "" {
		if zone, err = task.Zone(t.Zone); err != nil {
			return t, fmt.Errorf("time_zone: %w", err)
		}
	}
	if in.Every != "" {
		if t.Every, err = task.Duration(in.Every); err != nil {
			return t, fmt.Errorf("every: %w", err)
		}
		if t.Every < task.MinEvery {
			return t, fmt.Errorf("every: %s is too often; at least %s", t.Every, task.MinEvery)
		}
	}
	if in.At != "" {
		if t.At, err = task.Moment(in.At, now, zone); err != nil {
			return t, fmt.Errorf("at: %w", err)
		}
		if !t.At.After(now) {
			return t, fmt.Errorf("at: %s is over", stamp(t.At, zone))
		}
	}
	if in.Until != "" {
		if t.Until, err = task.Moment(in.Until, now, zone); err != nil {
			return t, fmt.Errorf("until: %w", err)
		}
	}
	if in.Jitter != "" {
		if t.Jitter, err = task.Duration(in.Jitter); err != nil {
			return t, fmt.Errorf("jitter: %w", err)
		}
	}
	switch {
	case in.Tool != "" && in.Webhook != "":
		return t, fmt.Errorf("a task has one action: tool or webhook_url, or neither for a prompt")
	case in.Tool != "":
		t.Action.Kind, t.Action.Tool = task.Tool, in.Tool
	case in.Webhook != "":
		t.Action.Kind, t.Action.URL = task.Webhook, in.Webhook
		if s.hook == nil {
			return t, fmt.Errorf("webhook_url: webhooks are off; the operator turns them on with a webhook block in the config of plugin \"scheduling\"")
		}
		if err := fire.CheckURL(in.Webhook); err != nil {
			return t, fmt.Errorf("webhook_url: %w", err)
		}
	case len(in.Arguments) > 0:
		return t, fmt.Errorf("tool_arguments go with tool or webhook_url")
	}
	if args := bytes.TrimSpace(in.Arguments); len(args) > 0 && args[0] != '{' {
		return t, fmt.Errorf("tool_arguments are a JSON object")
	}
	if t.Missed == "" {
		t.Missed = task.Skip
		if t.Single() {
			t.Missed = task.RunOnce
		}
	}
	if t.Missed == task.RunAll && t.MissedLimit == 0 {
		t.MissedLimit = 10
	}
	if t.Overlap == "" {
		t.Overlap = task.OverlapSkip
	}
	return t, t.Check()
}

func (s *scheduler) list(ctx context.Context, call *sdk.Call, _ struct{}) (sdk.Result, error) {
	if call.Agent == "" {
		return sdk.Result{}, sdk.Errorf(sdk.Denied, "tasks belong to an agent, and this call comes from none")
	}
	views, err := s.keeper.List(ctx, call.Agent)
	if err != nil {
		return sdk.Result{}, err
	}
	past, err := s.keeper.Past(ctx, call.Agent)
	if err != nil {
		return sdk.Result{}, err
	}
	return sdk.TextResult(table(views, past, s.now(), s.keeper.Aside())), nil
}

func (s *scheduler) cancel(ctx context.Context, call *sdk.Call, name string) (sdk.Result, error) {
	v, found, err := s.keeper.Cancel(ctx, call.Agent, name)
	return s.answer(v, found, err, name, func() string {
		text := "Cancelled task %q."
		if len(v.Owed) > 0 {
			text += " A run that has begun goes on to its end."
		}
		return fmt.Sprintf(text, v.Name)
	})
}

func (s *scheduler) pause(ctx context.Context, call *sdk.Call, name string) (sdk.Result, error) {
	v, found, err := s.keeper.Pause(ctx, call.Agent, name, "by "+call.Agent)
	return s.answer(v, found, err, name, func() string { return fmt.Sprintf("Task %q is paused.", v.Name) })
}

func (s *scheduler) resume(ctx context.Context, call *sdk.Call, name string) (sdk.Result, error) {
	v, found, err := s.keeper.Resume(ctx, call.Agent, name)
	return s.answer(v, found, err, name, func() string {
		return fmt.Sprintf("Task %q goes on. Next fire: %s", v.Name, stamp(v.Next, v.Zone))
	})
}

func (s *scheduler) run(ctx context.Context, call *sdk.Call, name string) (sdk.Result, error) {
	v, f, found, err := s.keeper.Run(ctx, call.Agent, name)
	return s.answer(v, found, err, name, func() string {
		if f.Begun.IsZero() {
			return fmt.Sprintf("Task %q runs after the run that is not over yet (fire %s).", v.Name, f.ID)
		}
		return fmt.Sprintf("Task %q fires now (fire %s); what becomes of it is told in its session %s.", v.Name, f.ID, sessionOf(v))
	})
}

// answer is the text for a change of one task.
func (s *scheduler) answer(v keeper.View, found bool, err error, name string, text func() string) (sdk.Result, error) {
	switch {
	case err != nil:
		return sdk.Result{}, err
	case !found:
		return sdk.Textf("There is no scheduled task named %q; list_scheduled_tasks shows all. %s", name, s.now()), nil
	}
	return sdk.TextResult(text() + "\n" + s.now()), nil
}

// sessionOf is the id of the session in which a task's fires are told.
func sessionOf(v keeper.View) string { return "patrol:" + v.Owner + ":" + patrol(v.Task) }
