package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

const schedulingBlock = "plugin \"scheduling\" {\n  grants = [\"runs\", \"tool:*\"]\n}\n"

// fires are the ids of the fires in the inbox of a task's session.
func (w *world) fires(task string) (ids []string) {
	w.t.Helper()
	out, _, code := w.runQuiet("inbox", "--session", "patrol:default:"+task, "--json")
	if code != 0 {
		return nil // nothing was told yet, so there is no session
	}
	var items []api.InboxItem
	if err := json.Unmarshal([]byte(out), &items); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	for _, it := range items {
		var d struct {
			Fire string `json:"fire_id"`
		}
		if err := json.Unmarshal(it.Data, &d); err != nil || d.Fire == "" {
			w.t.Fatalf("an entry without a fire: %s %s", it.Text, it.Data)
		}
		ids = append(ids, d.Fire)
	}
	return ids
}

// every checks that fires are those of each second between the first and the last,
// once.
func every(t *testing.T, ids []string, step time.Duration) {
	t.Helper()
	var last time.Time
	for i, id := range ids {
		_, stamp, _ := strings.Cut(id, "-")
		at, err := time.Parse("20060102T150405Z", stamp)
		if err != nil {
			t.Fatalf("fire %q: %v", id, err)
		}
		if i > 0 && at.Sub(last) != step {
			t.Errorf("after the fire of %s comes that of %s", last.Format(time.TimeOnly), at.Format(time.TimeOnly))
		}
		last = at
	}
}

// A task fires into the session of its name, a tool action runs as its owner, and a
// fired run schedules nothing.
func TestScheduledTasksFire(t *testing.T) {
	w := newWorld(t, schedulingBlock+instance("fx", ""), "scheduling", "fixture")
	w.serve()
	w.ok("call", "schedule_task", `{"name":"Daily Report","description":"Write the report.","every":"1s"}`)
	w.ok("call", "schedule_task", `{"name":"call","description":"Echo.","every":"1s","tool":"fx_echo","tool_arguments":{"text":"hello"}}`)
	w.ok("call", "schedule_task", `{"name":"more","description":"More.","every":"1s","tool":"schedule_task","tool_arguments":{"name":"x","description":"d","every":"1h"}}`)
	testbin.Await(t, 30*time.Second, "fires", func() bool {
		return len(w.fires("daily-report")) >= 3 && len(w.fires("call")) >= 1 && len(w.fires("more")) >= 1
	})
	every(t, w.fires("daily-report"), time.Second)
	if out := w.ok("inbox", "--session", "patrol:default:call"); !strings.Contains(out, "ran: ok") {
		t.Errorf("the tool's result: %s", out)
	}
	if out := w.ok("inbox", "--session", "patrol:default:more"); !strings.Contains(out, "may not change schedules") {
		t.Errorf("a fired run scheduled: %s", out)
	}
	if out := w.ok("call", "list_scheduled_tasks"); !strings.Contains(out, "3 scheduled tasks") || !strings.Contains(out, "Current time") || strings.Contains(out, "| x |") {
		t.Errorf("%s", out)
	}
	w.ok("call", "cancel_scheduled_task", `{"name":"DAILY report"}`)
	if out := w.ok("call", "cancel_scheduled_task", `{"name":"nothing"}`); !strings.Contains(out, "no scheduled task named") {
		t.Errorf("%s", out)
	}
}

// Replacing the plugin's binary again and again neither loses nor doubles a fire.
func TestSwapOfSchedulingLosesNoFire(t *testing.T) {
	w := newWorld(t, schedulingBlock, "scheduling")
	w.serve()
	w.ok("call", "schedule_task", `{"name":"tick","description":"Tick.","every":"1s"}`)
	replace := w.replacer("scheduling")
	for round := range 50 {
		before := w.plugin("scheduling").Generation
		replace(round)
		testbin.Await(t, 30*time.Second, "the next generation", func() bool {
			p := w.plugin("scheduling")
			return p.Generation > before && p.State == "ready"
		})
	}
	n := len(w.fires("tick"))
	testbin.Await(t, 30*time.Second, "more fires", func() bool { return len(w.fires("tick")) > n+1 })
	ids := w.fires("tick")
	every(t, ids, time.Second)
	out := w.ok("call", "list_scheduled_tasks")
	if strings.Contains(out, "skipped") || w.plugin("scheduling").Restarts != 0 {
		t.Errorf("%s", out)
	}
	t.Log(fmt.Sprintf("50 swaps, %d fires, each once", len(ids)))
}
