package scheduling

import (
	"context"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// settings of the plugin, as in its config block.
type settings struct {
	TimeZone      string       `hcl:"time_zone,optional" doc:"IANA name of the zone of tasks that name none; the machine's own without it."`
	MaxPerAgent   int          `hcl:"max_tasks_per_agent,optional" doc:"Most tasks of one agent."`
	MaxTasks      int          `hcl:"max_tasks,optional" doc:"Most tasks in all."`
	Grace         sdk.Duration `hcl:"grace,optional" doc:"How late a fire may be without counting as missed."`
	Deliveries    int          `hcl:"max_deliveries,optional" doc:"Fires delivered at once."`
	ToolTimeout   sdk.Duration `hcl:"tool_timeout,optional" doc:"Time for the call of a tool action."`
	MayReschedule []string     `hcl:"fired_runs_may_schedule,optional" doc:"Agents whose fired runs may schedule more; * for all."`
	Webhook       *webhook     `hcl:"webhook,block" doc:"Lets tasks call webhooks."`
}

type webhook struct {
	Secret     string   `hcl:"secret" bulkhead:"sensitive" doc:"Key that signs them (HMAC-SHA256)."`
	AllowHosts []string `hcl:"allow_hosts,optional" doc:"Hosts, host:port or CIDR blocks that may be called beside public addresses."`
}

func defaults() settings {
	return settings{MaxPerAgent: 200, MaxTasks: 20_000, Grace: sdk.Duration(time.Minute), Deliveries: 32, ToolTimeout: sdk.Duration(10 * time.Minute)}
}

func validate(_ context.Context, s *settings) sdk.Diagnostics {
	var d sdk.Diagnostics
	if s.TimeZone != "" {
		if _, err := task.Zone(s.TimeZone); err != nil {
			d.Errorf(sdk.Attr("time_zone"), "%v", err)
		}
	}
	within := func(name string, v, low, high int) {
		if v < low || v > high {
			d.Errorf(sdk.Attr(name), "a number from %d to %d is wanted here, not %d", low, high, v)
		}
	}
	within("max_tasks_per_agent", s.MaxPerAgent, 1, 20_000)
	within("max_tasks", s.MaxTasks, 1, 20_000)
	within("max_deliveries", s.Deliveries, 1, 256)
	if s.Grace < sdk.Duration(time.Second) || s.Grace > sdk.Duration(time.Hour) {
		d.Errorf(sdk.Attr("grace"), "a time from 1s to 1h is wanted here, not %s", s.Grace)
	}
	if s.ToolTimeout < sdk.Duration(time.Second) || s.ToolTimeout > sdk.Duration(15*time.Minute) {
		d.Errorf(sdk.Attr("tool_timeout"), "a time from 1s to 15m is wanted here, not %s", s.ToolTimeout)
	}
	if w := s.Webhook; w != nil {
		at := sdk.Block("webhook", 0)
		if len(w.Secret) < 16 {
			d.Errorf(at.Attr("secret"), "a secret has at least 16 characters")
		}
		for i, h := range w.AllowHosts {
			if err := netguard.Valid(h); err != nil {
				d.Errorf(at.Attr("allow_hosts").Index(i), "%v", err)
			}
		}
	}
	return d
}
