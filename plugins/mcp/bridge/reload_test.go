package bridge

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// processOf says which process answers.
func processOf(s *sdktest.Session, tool string) string {
	return strings.TrimRight(after(s.Call(tool, "{}").Text, `"started":`), "}")
}

func after(s, sep string) string { _, rest, _ := strings.Cut(s, sep); return rest }

// What stands beside the servers' blocks reconnects no server, unless a connection is
// made by it, and is in force all the same.
func TestWideKeysReconnectNothing(t *testing.T) {
	one, two := bad(t, "one"), bad(t, "two")
	two["elicitation"] = conf{"mode": "auto"}
	s := start(t, nil, one, two)
	awaitTool(t, s, "one__sleep")
	awaitTool(t, s, "two__log")
	first, second := processOf(s, "one__log"), processOf(s, "two__log")
	for i, general := range []conf{
		{"default_timeout": "300ms"}, {"default_timeout": "20s", "wrapper_mode": "lazy"}, {"reconnect_sweep": "30s", "surface_refresh": "1s", "connect_timeout": "9s"},
		{"generate_summaries": false, "allow_hosts": []string{"10.0.0.0/8"}}, {"max_tasks": 3},
	} {
		general["server"] = []conf{one, two}
		if got := s.Configure(general.String()); got != "reconfigured" {
			t.Fatal(got)
		}
		if now := processOf(s, "one__log"); now != first {
			t.Errorf("step %d: process %s, then %s", i, first, now)
		}
		if i == 0 {
			s.Call("one__sleep", `{"ms":60000}`).WantError("timeout", "300ms")
		}
	}
	// What a server is told of questions is part of its connection.
	if got := s.Configure(conf{"default_elicitation": conf{"mode": "off"}, "server": []conf{one, two}}.String()); got != "reconfigured" {
		t.Fatal(got)
	}
	badtest.Await(t, "another connection", func() bool { return processOf(s, "one__log") != first })
	if now := processOf(s, "two__log"); now != second {
		t.Errorf("a server with a block of its own was reconnected: %s, then %s", second, now)
	}
}

// Calls that come while a server is replaced wait for its successor, and those that
// run end as they would have.
func TestCallsWaitForTheSuccessor(t *testing.T) {
	c := bad(t, "bad", "init=300ms")
	s := start(t, nil, c)
	awaitTool(t, s, "bad__sleep")
	var stop atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				s.Call("bad__echo", `{"n":1}`).WantText(`echo {"n":1}`)
				calls.Add(1)
			}
		})
	}
	wg.Go(func() { s.Call("bad__sleep", `{"ms":2500}`).WantText("slept") })
	for i := range 3 {
		before := calls.Load()
		c["tool_timeout"] = fmt.Sprintf("%ds", 20+i)
		if i == 2 { // another place
			c["env"] = conf{"ANOTHER": "one"}
		}
		if got := s.Configure(conf{"server": []conf{c}}.String()); got != "reconfigured" {
			t.Fatal(got)
		}
		badtest.Await(t, "calls to go on", func() bool { return calls.Load() > before+10 })
	}
	stop.Store(true)
	wg.Wait()
}

// Credentials that a server no longer takes end the attempts, also in the middle of a
// connection; what it forbids does not.
func TestCredentialsThatAreNoLongerTaken(t *testing.T) {
	target, err := url.Parse(badtest.HTTP(t))
	if err != nil {
		t.Fatal(err)
	}
	var status, requests atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if code := int(status.Load()); code != 0 {
			w.WriteHeader(code)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	server := conf{"name": "h", "url": srv.URL + "/mcp", "headers": conf{"X-Key": "one"}}
	s := start(t, conf{"surface_refresh": "0s"}, server)
	awaitTool(t, s, "h__echo")
	status.Store(403)
	s.Call("h__echo", "{}").WantError("auth_required", "403")
	status.Store(0)
	s.Call("h__echo", "{}").WantText("echo")
	status.Store(401)
	s.Call("h__echo", "{}").WantError("auth_required", "401")
	badtest.Await(t, "the state", func() bool { return services(t, s)["h"].State == stateAuth })
	before := requests.Load()
	for range 3 {
		s.Call("mcp_list_resources", args("server_name", "h")).WantError("auth_required", "other credentials")
	}
	if n := requests.Load(); n > before+1 { // the session may still be given back
		t.Errorf("%d more requests", n-before)
	}
	status.Store(0)
	server["headers"] = conf{"X-Key": "two"}
	if got := s.Configure(conf{"surface_refresh": "0s", "server": []conf{server}}.String()); got != "reconfigured" {
		t.Fatal(got)
	}
	awaitTool(t, s, "h__echo")
	s.Call("h__echo", "{}").WantText("echo")
}
