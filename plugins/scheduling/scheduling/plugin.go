package scheduling

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/book"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/clock"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/fire"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/keeper"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// Version of the plugin.
const Version = "0.1.0"

//go:embed guide.md
var guide string

// scheduler is the plugin at work.
type scheduler struct {
	plugin *sdk.Plugin
	conf   *sdk.Config[settings]
	clock  clock.Clock

	book   *book.Book
	zone   *time.Location
	hook   *fire.Hook
	keeper *keeper.Keeper

	handles sync.Mutex // held while an owner's handle is made
}

// Plugin builds the plugin.
func Plugin() *sdk.Plugin { return build(clock.System).plugin }

// build makes the plugin with a clock.
func build(c clock.Clock) *scheduler {
	s := &scheduler{conf: sdk.NewConfig(defaults()), clock: c, zone: time.Local}
	s.conf.Validate = validate
	s.conf.Configure = func(_ context.Context, set *settings) error { return s.configure(set) }
	s.plugin = &sdk.Plugin{
		Name: "scheduling", Version: Version,
		Settings: s.conf,
		Tools:    s.tools(),
		Guides:   []sdk.Guide{{Name: "scheduling", Summary: "Tasks that fire later or again and again: how to write their times, what a fire does, what happens to missed ones.", Markdown: guide}},
		Grants:   []string{"runs"},
		Sandbox:  sdk.Sandbox{Profile: "strict", Network: "all"},
		Swap:     sdk.Handover, // two must not fire from one book
		Activate: func(ctx context.Context) error { s.keeper.Start(ctx); return nil },
		Drain:    s.drain,
		Health:   s.health,
	}
	s.book = book.New(func() book.State { return s.plugin.Host().State() }, s.keys)
	return s
}

func (s *scheduler) configure(set *settings) error {
	if set.TimeZone != "" {
		zone, err := task.Zone(set.TimeZone)
		if err != nil {
			return err
		}
		s.zone = zone
	}
	if w := set.Webhook; w != nil {
		guard, err := netguard.New(w.AllowHosts)
		if err != nil {
			return err
		}
		s.hook = fire.NewHook(w.Secret, guard)
	}
	d := &fire.Deliverer{Host: s, Hook: s.hook, ToolTimeout: set.ToolTimeout.Std(), Now: s.clock.Now, Wait: fire.Sleep}
	s.keeper = keeper.New(keeper.Options{Book: s.book, Clock: s.clock, Log: s.plugin.Logger(), Zone: s.zone, Grace: set.Grace.Std(),
		PerOwner: set.MaxPerAgent, Total: set.MaxTasks, Deliveries: set.Deliveries, Deliver: d.Deliver})
	return nil
}

// drainTime leaves something of the 10 s that a drain has.
const drainTime = 8 * time.Second

func (s *scheduler) drain(ctx context.Context, _ string) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	s.keeper.Stop(ctx)
	if s.hook != nil {
		s.hook.Close()
	}
	return nil
}

func (s *scheduler) health(context.Context) sdk.Health {
	if s.keeper == nil {
		return sdk.Health{}
	}
	detail := s.keeper.Aside()
	return sdk.Health{Degraded: detail != "", Detail: detail}
}

func (s *scheduler) keys(ctx context.Context, prefix, after string) (keys []string, next string, err error) {
	entries, next, err := s.plugin.Host().State().List(ctx, prefix, after, 1000)
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys, next, err
}

// own makes sure that the caller can be acted for later, when its session is over.
func (s *scheduler) own(ctx context.Context, call *sdk.Call) error {
	s.handles.Lock()
	defer s.handles.Unlock()
	handle, err := s.book.Handle(ctx, call.Agent, call.Profile)
	if err != nil {
		return err
	}
	if handle != "" {
		if _, err := s.plugin.HostFor(handle).Session().Listed(ctx); err == nil {
			return nil
		} else if sdk.CodeOf(err) != sdk.Denied {
			return err
		}
	}
	handle, err = s.plugin.Host().DeriveRun(ctx, call.SessionRef, "patrol/_", "scheduled", 0)
	if err != nil {
		return err
	}
	return s.book.SetHandle(ctx, call.Agent, call.Profile, handle)
}

// runTime is how long the handle of one fire lives, if it is not released.
const runTime = 30 * time.Minute

// Derive makes the handle of a fire: the session patrol/{task} of its owner.
func (s *scheduler) Derive(ctx context.Context, t *task.Task) (string, error) {
	handle, err := s.book.Handle(ctx, t.Owner, t.Profile)
	if err != nil {
		return "", err
	}
	if handle == "" {
		return "", fmt.Errorf("there is no handle of agent %q; schedule the task again", t.Owner)
	}
	return s.plugin.Host().DeriveRun(ctx, handle, "patrol/"+patrol(t), "scheduled", runTime)
}

// patrol is a task's part of the name of its session.
func patrol(t *task.Task) string {
	if slug := task.Slug(t.Name); slug != "" {
		return slug
	}
	return t.ID
}

// Release ends the handle of a fire.
func (s *scheduler) Release(ctx context.Context, handle string) error {
	return s.plugin.Host().ReleaseRun(ctx, handle)
}

// Publish puts an event into a session's inbox.
func (s *scheduler) Publish(ctx context.Context, handle string, e sdk.Event) error {
	_, err := s.plugin.HostFor(handle).Publish(ctx, e)
	return err
}

// CallTool calls a tool as the owner.
func (s *scheduler) CallTool(ctx context.Context, handle, tool string, arguments json.RawMessage, timeout time.Duration) (sdk.Result, error) {
	return s.plugin.HostFor(handle).CallTool(ctx, tool, arguments, timeout)
}

// admit refuses callers that may not change tasks.
func (s *scheduler) admit(call *sdk.Call) error {
	if call.Agent == "" || call.SessionRef == "" {
		return sdk.Errorf(sdk.Denied, "a task belongs to an agent, and this call comes from none")
	}
	fired := call.Profile == "scheduled" || strings.HasPrefix(call.Namespace, "patrol/") || strings.HasPrefix(call.Namespace, "session/patrol:")
	may := s.conf.Get().MayReschedule
	if fired && !slices.Contains(may, "*") && !slices.Contains(may, call.Agent) {
		return sdk.Errorf(sdk.Denied, "a run that a schedule fired may not change schedules; the operator can allow it with fired_runs_may_schedule = [%q] in the config of plugin \"scheduling\"", call.Agent)
	}
	return nil
}
