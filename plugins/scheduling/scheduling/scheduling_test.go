package scheduling

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/clock"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, config string) (*sdktest.Session, *clock.Fake) {
	t.Helper()
	c := clock.NewFake(start)
	if config == "" {
		config = `{"time_zone":"Europe/Vienna"}`
	}
	return sdktest.Start(t, build(c).plugin, sdktest.Config(config)), c
}

func TestConforms(t *testing.T) {
	sdktest.Run(t, Plugin)
}

// What the tools say: always the current time and zone.
func TestTools(t *testing.T) {
	s, _ := open(t, "")
	const now = "Current time: 2026-01-01 13:00:00 (Europe/Vienna, UTC+01:00)"
	for _, c := range []struct{ tool, args, want string }{
		{"list_scheduled_tasks", `{}`, now + "\nThere are no scheduled tasks."},
		{"schedule_task", `{"name":"Report","description":"Write it.","cron":"0 9 * * 1-5"}`, "Scheduled task \"Report\": cron 0 9 * * 1-5 Europe/Vienna; prompt in session patrol:tester:report.\nNext fire: 2026-01-02 09:00:00 (Europe/Vienna, UTC+01:00)\nthen: 2026-01-05 09:00:00"},
		{"schedule_task", `{"name":"rEPORT","description":"Write it.","at":"2h","inbox":"session"}`, "Replaced task \"rEPORT\": at 2026-01-01 15:00:00 Europe/Vienna; prompt in the session that scheduled it."},
		{"schedule_task", `{"name":"summer","description":"d","at":"2026-07-01T09:00","time_zone":"America/New_York"}`, "Next fire: 2026-07-01 09:00:00 (America/New_York, UTC-04:00)"},
		{"schedule_task", `{"name":"a|b","description":"x | y\nz","every":"1d12h","jitter":"5m","until":"2026-02-01 00:00"}`, "every 36h, up to 5m later, until 2026-02-01 00:00:00"},
		{"schedule_task", `{"name":"call","description":"d","cron":"@every 90m","tool":"web_search","tool_arguments":{"query":"x"}}`, "calls web_search"},
		{"list_scheduled_tasks", `{}`, "4 scheduled tasks:"},
		{"list_scheduled_tasks", `{}`, `| a\|b | every 36h`},
		{"pause_scheduled_task", `{"name":"CALL"}`, "Task \"call\" is paused."},
		{"list_scheduled_tasks", `{}`, "| paused by tester |"},
		{"resume_scheduled_task", `{"name":"call"}`, "goes on. Next fire: 2026-01-01 14:30:00"},
		{"cancel_scheduled_task", `{"name":"call"}`, "Cancelled task \"call\"."},
		{"cancel_scheduled_task", `{"name":"call"}`, "There is no scheduled task named \"call\"; list_scheduled_tasks shows all. " + now},
		{"list_scheduled_tasks", `{}`, "Over lately:\n- call: cancelled"},
	} {
		r := s.Call(c.tool, c.args)
		r.WantText(c.want)
		if !strings.Contains(r.Text, "Current time: 2026-01-01 13:00:00") {
			t.Errorf("%s: no current time in %s", c.tool, r.Text)
		}
	}
	for _, c := range []struct{ args, want string }{
		{`{"name":"x","description":"d","cron":"0 25 * * *"}`, `column 3 (hour): "25" is not a number from 0 to 23`},
		{`{"name":"x","description":"d","cron":"0 0 30 2 *"}`, `never due`},
		{`{"name":"x","description":"d","cron":"0 0 * * *","every":"1h"}`, `exactly one of cron`},
		{`{"name":"x","description":"d"}`, `exactly one of cron`},
		{`{"name":"x","description":"d","every":"500ms"}`, `too often`},
		{`{"name":"x","description":"d","at":"yesterday"}`, `no point in time`},
		{`{"name":"x","description":"d","at":"2025-01-01T00:00"}`, `is over`},
		{`{"name":"x","description":"d","at":"2026-03-29T02:30"}`, `clocks skip it`},
		{`{"name":"x","description":"d","every":"1h","time_zone":"Europe/Viena"}`, `no time zone`},
		{`{"name":"x","description":"d","every":"1h","until":"30m"}`, `never fire`},
		{`{"name":"x","description":"d","every":"1h","webhook_url":"https://example.org/"}`, `webhooks are off`},
		{`{"name":"x","description":"d","every":"1h","tool_arguments":{}}`, `go with tool`},
		{`{"name":"x","description":"d","every":"1h","tool":"y","tool_arguments":[1]}`, `JSON object`},
		{`{"name":" ","description":"d","every":"1h"}`, `needs a name`},
		{`{"name":"x","description":"` + strings.Repeat("d", 9000) + `","every":"1h"}`, `at most 8192 bytes`},
	} {
		r := s.Call("schedule_task", c.args)
		r.WantError("invalid_arguments", c.want)
	}
}

// run_once with cron fires once, and then the task is gone.
func TestRunOnce(t *testing.T) {
	s, c := open(t, "")
	s.Call("schedule_task", `{"name":"once","description":"Just once.","cron":"30 13 1 1 *","run_once":true}`).WantText("once")
	c.Run(30 * time.Second)
	for range 62 { // half minutes, as the alarm has them
		<-c.Armed()
		c.Run(30 * time.Second)
		if len(s.Host.Events()) > 0 {
			break
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for len(s.Host.Events()) == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	events := s.Host.Events()
	if len(events) != 1 || events[0].Kind != "scheduled_task" || !strings.Contains(events[0].Text, "Just once.") || !strings.HasSuffix(events[0].DedupID, "-20260101T123000Z") {
		t.Fatalf("%+v", events)
	}
	var data struct {
		Prompt string `json:"prompt"`
	}
	if err := json.Unmarshal(events[0].Data, &data); err != nil || data.Prompt != "Just once." {
		t.Errorf("%s %v", events[0].Data, err)
	}
	for {
		r := s.Call("list_scheduled_tasks", `{}`)
		if strings.Contains(r.Text, "- once: finished, last run ok") && strings.Contains(r.Text, "There are no scheduled tasks") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(r.Text)
		}
	}
}

// A state that can't be read is told of and does not keep the rest from working.
func TestUnreadableState(t *testing.T) {
	s := sdktest.Start(t, build(clock.NewFake(start)).plugin, sdktest.Unconfigured())
	s.Host.SetState("task/t_broken", []byte(`{"id":"t_broken","name":`))
	s.Configure(`{}`)
	s.Activate()
	s.Call("list_scheduled_tasks", `{}`).WantText("Warning: 1 stored tasks could not be taken up: task t_broken could not be read")
	if kept, ok := s.Host.State("unreadable/t_broken"); !ok || string(kept) != `{"id":"t_broken","name":` {
		t.Errorf("kept: %q", kept)
	}
	s.Call("schedule_task", `{"name":"x","description":"d","every":"1h"}`).WantText("Scheduled")
}

// Settings that make no sense are refused at their place.
func TestSettings(t *testing.T) {
	d := validate(t.Context(), &settings{TimeZone: "Mars/Base", MaxPerAgent: 0, MaxTasks: 1, Grace: 1, Deliveries: 1, ToolTimeout: sdk.Duration(time.Minute), Webhook: &webhook{Secret: "short", AllowHosts: []string{"a b"}}})
	if len(d) != 5 {
		t.Errorf("%d diagnostics: %v", len(d), d)
	}
	ok := defaults()
	if d := validate(t.Context(), &ok); len(d) != 0 {
		t.Errorf("the defaults: %v", d)
	}
}
