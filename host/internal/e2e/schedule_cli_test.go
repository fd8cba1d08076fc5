package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

const scheduleConfig = "plugin \"scheduling\" {\n  grants = [\"runs\"]\n  config {\n    time_zone = \"UTC\"\n  }\n}\nagent \"ann\" {\n  token = secret(\"ann\")\n}\nagent \"boss\" {\n  token    = secret(\"boss\")\n  approver = true\n}\n" +
	"agent \"none\" {\n  token  = secret(\"none\")\n  groups = [\"research\"]\n}\n"

// scheduleWorld is a host whose agents ann and default have tasks.
func scheduleWorld(t *testing.T) *world {
	w := newWorld(t, scheduleConfig, "scheduling")
	w.mkdir("data/secrets")
	for _, n := range []string{"ann", "boss", "none"} {
		w.secret(n, "secret-token-of-"+n)
	}
	w.serve()
	w.ok("call", "schedule_task", `{"name":"Daily report","description":"Write the report.\nAnd send it.","cron":"0 9 * * 1-5"}`)
	w.ok("call", "--agent", "ann", "schedule_task", `{"name":"look","description":"Look at it.","every":"3h","tool":"web_search","tool_arguments":{"query":"weather","n":9007199254740993}}`)
	return w
}

// `bulkhead schedule` in every way it can end.
func TestScheduleCommandLine(t *testing.T) {
	w := scheduleWorld(t)
	tr := newTranscript(w, "schedule")
	tr.run("list", 0, "schedule")
	tr.run("list", 0, "schedule", "list", "--agent", "ann")
	tr.run("list", 0, "schedule", "--json")
	tr.run("list", 0, "schedule", "--agent", "boss")
	tr.run("show", 0, "schedule", "show", "daily REPORT")
	tr.run("show", 0, "schedule", "show", "look", "--agent", "ann", "--json")
	tr.run("show", 1, "schedule", "show", "look")
	tr.run("show", 1, "schedule", "show", "nothing", "--json")
	tr.run("pause", 0, "schedule", "pause", "look", "--agent", "ann")
	tr.run("pause", 0, "schedule", "list")
	tr.run("pause", 0, "schedule", "resume", "look", "--agent", "ann")
	tr.run("pause", 1, "schedule", "pause", "nothing")
	tr.run("pause", 1, "schedule", "resume", "nothing")
	tr.run("run", 0, "schedule", "run", "Daily report")
	testbin.Await(t, 20*time.Second, "the run", func() bool { return len(w.fires("daily-report")) == 1 })
	testbin.Await(t, 20*time.Second, "its outcome", func() bool { return strings.Contains(w.ok("schedule", "show", "Daily report"), "ok, by hand") })
	tr.run("run", 0, "schedule", "show", "Daily report")
	tr.run("run", 1, "schedule", "run", "nothing")
	tr.run("cancel", 0, "schedule", "cancel", "look", "--agent", "ann", "--json")
	tr.run("cancel", 1, "schedule", "cancel", "look", "--agent", "ann")
	tr.run("cancel", 0, "schedule", "list")
	if out := w.ok("schedule", "calendar"); strings.Count(out, "BEGIN:VEVENT\r\n") != 50 || !strings.Contains(out, "SUMMARY:Daily report") {
		t.Errorf("%s", clip(out))
	}
	tr.compare(t)
}

// An agent sees and steers its own tasks over the API, an approver all.
func TestScheduleAPI(t *testing.T) {
	w := scheduleWorld(t)
	ann, boss, none := w.as("ann"), w.as("boss"), w.as("none")
	names := func(s api.Schedule) (out []string) {
		for _, x := range s.Tasks {
			out = append(out, x.Agent+"/"+x.Name)
		}
		return out
	}
	for _, c := range []struct {
		who  asker
		path string
		want string
	}{{ann, "", "ann/look"}, {ann, "?agent=ann", "ann/look"}, {boss, "", "ann/look default/Daily report"}, {boss, "?agent=default", "default/Daily report"}, {boss, "?limit=1&offset=1", "default/Daily report"}} {
		if got := strings.Join(names(into[api.Schedule](c.who.do("GET", "/v1/schedule"+c.path, ""), 200)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
	for path, status := range map[string]int{"/v1/schedule?agent=default": 403, "/v1/schedule/Daily%20report": 404, "/v1/schedule/look?agent=default": 403, "/v1/schedule?limit=x": 400} {
		if got := ann.do("GET", path, ""); got.code != status {
			t.Errorf("%s: %d, want %d: %s", path, got.code, status, got.body)
		}
	}
	for _, path := range []string{"/v1/schedule", "/v1/schedule/look", "/v1/schedule.ics"} {
		if got := none.do("GET", path, ""); got.code != http.StatusForbidden {
			t.Errorf("an agent without the tools, %s: %d", path, got.code)
		}
	}
	if got := ann.do("POST", "/v1/schedule/look/pause", ""); got.code != 200 {
		t.Errorf("pause: %d %s", got.code, got.body)
	}
	one := into[api.Schedule](ann.do("GET", "/v1/schedule/look", ""), 200)
	if len(one.Tasks) != 1 || one.Tasks[0].Paused != "by ann" || !json.Valid(one.Tasks[0].Arguments) || !strings.Contains(string(one.Tasks[0].Arguments), "9007199254740993") {
		t.Errorf("%+v", one)
	}
	if got := ann.do("POST", "/v1/schedule/look/explode", ""); got.code != 400 {
		t.Errorf("an unknown action: %d", got.code)
	}
	into[api.Schedule](boss.do("POST", "/v1/schedule/look/cancel?agent=ann", ""), 200)
	if got := into[api.Schedule](ann.do("GET", "/v1/schedule", ""), 200); len(got.Tasks) != 0 {
		t.Errorf("%+v", got)
	}
}
