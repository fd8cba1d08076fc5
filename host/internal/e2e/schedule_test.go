package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
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
	w.ok("call", "schedule_task", `{"name":"guarded","description":"Asks first.","at":"1s","tool":"fx_guarded","tool_arguments":{"name":"Ada"}}`)
	w.ok("call", "schedule_task", `{"name":"forbidden","description":"No such tool.","at":"1s","tool":"fx_nothing"}`)
	w.ok("call", "--session", "mine", "schedule_task", `{"name":"here","description":"Tell me here.","at":"1s","inbox":"session"}`)
	testbin.Await(t, 30*time.Second, "fires of tasks that fire once", func() bool {
		return len(w.fires("guarded")) == 1 && len(w.fires("forbidden")) == 1
	})
	w.inbox("mine", "Tell me here.")
	if out := w.ok("inbox", "--session", "patrol:default:guarded"); !strings.Contains(out, "ran: waiting") || len(w.openQuestions()) != 1 {
		t.Errorf("a tool that needs an approval: %s", out)
	}
	if out := w.ok("inbox", "--session", "patrol:default:forbidden"); !strings.Contains(out, "ran: failed") || !strings.Contains(out, "fx_nothing") {
		t.Errorf("a tool that is not there: %s", out)
	}
	testbin.Await(t, 20*time.Second, "what failed to be told", func() bool {
		return strings.Contains(w.ok("call", "list_scheduled_tasks"), "- forbidden: finished, last run failed")
	})
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
	if out := w.ok("events"); !strings.Contains(out, "inbox.changed") || !strings.Contains(out, "session=patrol:default:daily-report") {
		t.Errorf("followers don't hear of it: %s", clip(out))
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
	t.Logf("50 swaps, %d fires, each once", len(ids))
}

// killRounds kills the host, or the plugin, at a random moment around a fire, again and
// again: each fire is told once in the inbox, and a call that may have been made
// before says so.
func killRounds(t *testing.T, rounds int) {
	w := newWorld(t, schedulingBlock+instance("fx", ""), "scheduling", "fixture")
	w.serve()
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	w.ok("call", "schedule_task", `{"name":"tick","description":"Tick.","cron":"* * * * * *","missed":"run_all","missed_limit":100}`)
	w.ok("call", "schedule_task", `{"name":"call","description":"Call.","cron":"* * * * * *","missed":"run_all","missed_limit":100,"overlap":"queue","tool":"fx_echo","tool_arguments":{"n":1}}`)
	once := 0
	for round := range rounds {
		// A task that fires once, a moment from now, and a kill about then.
		w.ok("call", "schedule_task", fmt.Sprintf(`{"name":"once-%d","description":"Once.","at":"1s"}`, round))
		once++
		time.Sleep(time.Duration(r.IntN(1200)) * time.Millisecond) // the random moment itself
		before := w.plugin("scheduling")
		if r.IntN(2) == 0 {
			w.kill()
			w.serve()
		} else if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		testbin.Await(t, 60*time.Second, "the plugin to be there again", func() bool {
			s, err := w.statusOf()
			if err != nil {
				return false
			}
			for _, p := range s.Plugins {
				if p.Name == "scheduling" && p.State == "quarantined" {
					w.ok("plugin", "restart", "scheduling") // so many kills look like a plugin that can't live
				}
				if p.Name == "scheduling" && p.State == "ready" && p.PID != before.PID {
					return true
				}
			}
			return false
		})
	}
	testbin.Await(t, 60*time.Second, "the tasks that fire once", func() bool {
		for n := range once {
			if len(w.fires(fmt.Sprintf("once-%d", n))) != 1 {
				return false
			}
		}
		return true
	})
	n := len(w.fires("tick"))
	testbin.Await(t, 60*time.Second, "more fires", func() bool { return len(w.fires("tick")) > n+1 && len(w.fires("call")) > n })
	for _, task := range []string{"tick", "call"} {
		ids := w.fires(task)
		slices.SortFunc(ids, func(a, b string) int { return strings.Compare(a[strings.Index(a, "-"):], b[strings.Index(b, "-"):]) })
		every(t, ids, time.Second)
		t.Logf("%s: %d fires over %d kills, each told once", task, len(ids), rounds)
	}
	// Calls that were made against fires that are told of: those that were made twice
	// must say so.
	out, _, _ := w.runQuiet("inbox", "--session", "patrol:default:call", "--json")
	again, calls := strings.Count(out, `"may_have_run_before"`), 0
	anyone := asker{t: t, url: w.url()}
	for after := int64(0); ; {
		rows := into[[]api.AuditRow](anyone.do("GET", fmt.Sprintf("/v1/audit?limit=1000&after=%d", after), ""), 200)
		for _, row := range rows {
			after = int64(row.Seq)
			if row.Tool == "fx_echo" {
				calls++
			}
		}
		if len(rows) == 0 {
			break
		}
	}
	told := len(w.fires("call"))
	t.Logf("%d calls, %d told, %d of them may have run before", calls, told, again)
	if calls == 0 || calls > told+again+1 { // one may be on its way
		t.Errorf("%d calls for %d fires, of which only %d say that they may have run before", calls, told, again)
	}
}

func TestKillsAroundFires(t *testing.T) { killRounds(t, 8) }

func TestKillsAroundFiresEndurance(t *testing.T) {
	if os.Getenv("BULKHEAD_ENDURANCE") == "" {
		t.Skip("100 kills take minutes: make endurance runs them")
	}
	killRounds(t, 100)
}

// A webhook leaves the plugin's sandbox, signed, and what it did stands in the history.
func TestScheduledWebhook(t *testing.T) {
	got := make(chan http.Header, 8)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer server.Close()
	w := newWorld(t, "plugin \"scheduling\" {\n  grants = [\"runs\"]\n  config {\n    webhook {\n      secret      = \"0123456789abcdef\"\n      allow_hosts = [\"127.0.0.1\"]\n    }\n  }\n}\n", "scheduling")
	w.serve()
	w.ok("call", "schedule_task", fmt.Sprintf(`{"name":"hook","description":"Tell them.","cron":"0 0 1 1 *","webhook_url":%q}`, server.URL))
	w.ok("schedule", "run", "hook")
	select {
	case h := <-got:
		if !strings.HasPrefix(h.Get("Webhook-Id"), "t_") || !strings.HasPrefix(h.Get("Webhook-Signature"), "v1,") {
			t.Errorf("%v", h)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("no webhook came: %s", w.ok("schedule", "show", "hook"))
	}
	testbin.Await(t, 20*time.Second, "the outcome", func() bool {
		return strings.Contains(w.ok("schedule", "show", "hook"), "ok, by hand: answered 200 at attempt 1")
	})
}
