package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// process is a command that runs on until it is interrupted.
type process struct {
	cmd         *exec.Cmd
	out, errOut testbin.Buffer
	done        chan struct{}
}

// start starts a command and waits until its stdout holds word.
func (w *world) start(word string, args ...string) *process {
	w.t.Helper()
	p := &process{cmd: exec.Command(bulkhead(w.t), args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = w.dir, &p.out, &p.errOut
	p.cmd.WaitDelay = 2 * time.Second
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the exit code is read below
	}()
	w.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	})
	p.await(w.t, word)
	return p
}

func (p *process) await(t *testing.T, word string) {
	t.Helper()
	testbin.Await(t, 30*time.Second, "the output "+word, func() bool {
		select {
		case <-p.done:
			t.Fatalf("ended early:\n%s%s", p.out.String(), p.errOut.String())
		default:
		}
		return strings.Contains(p.out.String(), word)
	})
}

// interrupt ends the command as a person would and returns its exit code.
func (p *process) interrupt(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(40 * time.Second):
		t.Fatalf("%v did not end on an interrupt", p.cmd.Args)
	}
	return p.cmd.ProcessState.ExitCode()
}

// inbox waits until a session's inbox holds word.
func (w *world) inbox(session, word string) {
	w.t.Helper()
	testbin.Await(w.t, 10*time.Second, word+" in the inbox of "+session, func() bool {
		return strings.Contains(w.ok("inbox", "--session", session), word)
	})
}

// TestCommandLine runs every command of the command line in every way it can end.
func TestCommandLine(t *testing.T) {
	w := newWorld(t, instance("fx", "")+"\nagent \"reader\" {\n  groups = [\"none\"]\n}\n", "fixture")
	w.write("args.json", `{"from": "a file", "id": 9007199254740993}`)
	w.write("broken.hcl", "host {\n  data_dri = \"data\"\n}\n")
	w.write("refused.hcl", "host {\n  data_dir = \"data\"\n  plugins  = \"plugins\"\n  shared   = \"shared\"\n}\n\n"+instance("fx", "  config {\n    fail = true\n  }\n"))
	w.write("same.hcl", head)
	w.write("blocked", "a file where a folder should be")
	w.write("blocked.hcl", "host {\n  data_dir = \"blocked\"\n  plugins  = \"plugins\"\n}\n")
	tr := newTranscript(w, "cli")
	noHost(tr)
	wrongUsage(tr)
	checks(tr)

	host := w.start("plugin fx: ready", "serve")
	calls(tr)
	asking(tr)
	looking(tr)
	steering(tr)
	mcpOnStdio(tr)
	tr.run("serve", 3, "serve")
	tr.run("serve", 3, "--json", "serve")
	if code := host.interrupt(t); code != 0 {
		t.Errorf("an interrupted host: exit %d\n%s", code, host.errOut.String())
	}
	host = w.start("plugin fx: ready", "serve")
	code := host.interrupt(t)
	tr.add("serve", "", []string{"serve"}, host.out.String(), host.errOut.String(), 0, code)
	host = w.start("sandbox", "serve", "--json")
	code = host.interrupt(t)
	tr.add("serve", "", []string{"serve", "--json"}, host.out.String(), host.errOut.String(), 0, code)
	tr.compare(t)
}

// noHost: what needs a running host ends with 3 and says how to get one.
func noHost(tr *transcript) {
	for _, c := range []struct {
		file string
		args []string
	}{
		{"status", []string{"status"}}, {"status", []string{"status", "--json"}},
		{"tools", []string{"tools"}}, {"tools", []string{"tools", "fx_echo"}},
		{"guide", []string{"guide"}}, {"guide", []string{"guide", "fx"}},
		{"questions", []string{"questions"}}, {"answer", []string{"answer", "q_x", "name=Ada"}},
		{"approve", []string{"approve", "q_x"}}, {"deny", []string{"deny", "q_x"}},
		{"events", []string{"events"}}, {"events", []string{"events", "--follow"}},
		{"inbox", []string{"inbox", "--session", "s1"}}, {"schedule", []string{"schedule"}}, {"schedule", []string{"schedule", "run", "x"}}, {"schedule", []string{"schedule", "calendar"}}, {"reload", []string{"reload"}},
		{"plugin", []string{"plugin", "restart", "fx"}}, {"plugin", []string{"plugin", "stop", "fx"}}, {"plugin", []string{"plugin", "start", "fx"}},
	} {
		tr.run(c.file, 3, c.args...)
	}
	// call and mcp start a host of their own; 3 when that can't be had.
	tr.run("call", 0, "call", "fx_echo", "own=host")
	tr.run("call", 3, "call", "--config", "blocked.hcl", "fx_echo")
	tr.runIn("mcp", "", 3, "mcp", "--config", "blocked.hcl")
}

func wrongUsage(tr *transcript) {
	for _, c := range []struct {
		file string
		args []string
	}{
		{"usage", []string{"nonsense"}}, {"usage", []string{"stats"}}, {"usage", []string{"--nonsense"}}, {"usage", []string{"--json", "nonsense"}},
		{"serve", []string{"serve", "now"}}, {"serve", []string{"serve", "--nonsense"}},
		{"mcp", []string{"mcp", "x"}}, {"mcp", []string{"mcp", "--agent"}},
		{"check", []string{"check", "config.hcl"}},
		{"status", []string{"status", "fx"}},
		{"tools", []string{"tools", "a", "b"}}, {"tools", []string{"tools", "--format", "yaml"}},
		{"guide", []string{"guide", "a", "b"}},
		{"call", []string{"call"}}, {"call", []string{"call", "fx_echo", "{not json"}}, {"call", []string{"call", "fx_echo", "@missing.json"}},
		{"call", []string{"call", "fx_echo", "a=1", "b"}}, {"call", []string{"call", "--timeout", "soon", "fx_echo"}}, {"call", []string{"call", "--timeout", "-1s", "fx_echo"}},
		{"questions", []string{"questions", "q_x", "q_y"}}, {"answer", []string{"answer"}}, {"answer", []string{"answer", "q_x", "{"}},
		{"approve", []string{"approve"}}, {"approve", []string{"approve", "a", "b"}}, {"deny", []string{"deny"}}, {"deny", []string{"deny", "--reason"}},
		{"events", []string{"events", "--after", "x"}}, {"inbox", []string{"inbox"}}, {"inbox", []string{"inbox", "--after", "-1"}},
		{"schedule", []string{"schedule", "now"}}, {"schedule", []string{"schedule", "show"}}, {"schedule", []string{"schedule", "run", "a", "b"}}, {"schedule", []string{"schedule", "cancel", " "}},
		{"plugin", []string{"plugin"}}, {"plugin", []string{"plugin", "nonsense"}}, {"plugin", []string{"plugin", "restart"}},
		{"plugin", []string{"plugin", "stop"}}, {"plugin", []string{"plugin", "start", "a", "b"}}, {"plugin-inspect", []string{"plugin", "inspect"}},
	} {
		tr.run(c.file, 2, c.args...)
	}
	tr.run("usage", 2)
	tr.run("usage", 0, "--help")
	tr.run("usage", 0, "call", "--help")
}

func checks(tr *transcript) {
	tr.run("check", 0, "check")
	tr.run("check", 0, "check", "--json")
	for _, json := range []bool{false, true} {
		for _, file := range []string{"broken.hcl", "refused.hcl", "nowhere.hcl"} {
			args := []string{"check", "--config", file}
			if json {
				args = append(args, "--json")
			}
			tr.run("check", 1, args...)
		}
	}
	tr.run("serve", 1, "serve", "--config", "broken.hcl")
	tr.run("serve", 1, "serve", "--json", "--config", "broken.hcl")
	tr.run("serve", 1, "serve", "--config", "blocked.hcl")
	tr.run("status", 1, "status", "--config", "broken.hcl")
}

func calls(tr *transcript) {
	tr.run("call", 0, "call", "fx_echo")
	tr.run("call", 0, "call", "fx_echo", `{"id":9007199254740993,"b":{"z":1,"a":2.50}}`)
	tr.runIn("call", `{"from":"stdin"}`, 0, "call", "fx_echo", "-")
	tr.run("call", 0, "call", "fx_echo", "@args.json")
	tr.run("call", 0, "call", "fx_echo", "text=two words", "n=1", "flag=true", "list=[1,2]", "dotted.key=x", "empty=", "quoted=\"5\"")
	tr.run("call", 0, "call", "--json", "fx_echo", "a=1")
	tr.run("call", 0, "call", "--session", "kept", "save_to_working_memory", "key=k", "data=remembered")
	tr.run("call", 0, "call", "--session", "kept", "get_from_working_memory", "key=k")
	tr.run("call", 1, "call", "get_from_working_memory", "key=k")
	tr.run("call", 1, "call", "--agent", "reader", "fx_echo")
	tr.run("call", 1, "call", "--agent", "nobody", "fx_echo")
	tr.run("call", 1, "call", "--agent", "reader", "--session", "kept", "get_from_working_memory", "key=k")
	tr.run("call", 1, "call", "fx_hidden")
	tr.run("call", 0, "call", "--internal", "fx_hidden")
	tr.run("call", 1, "call", "fx_ecko")
	tr.run("call", 1, "call", "--json", "fx_ecko")
	tr.run("call", 1, "call", "fx_slow", "ms=soon")
	tr.run("call", 1, "call", "--timeout", "200ms", "fx_slow", "ms=60000")
	tr.run("call", 1, "call", "fx_nest", "tool=fx_nothing")
	tr.run("call", 0, "call", "--session", "kept", "fx_long", "chars=70000")
	if whole := tr.w.ok("call", "--raw", "fx_long", "chars=70000"); len(whole) != 70001 {
		tr.w.t.Errorf("--raw printed %d bytes of 70001", len(whole))
	}
}

func asking(tr *transcript) {
	open := func() string {
		tr.w.t.Helper()
		list := tr.w.openQuestions()
		if len(list) == 0 {
			tr.w.t.Fatal("no question is open")
		}
		return list[0].ID
	}
	tr.run("questions", 0, "questions")
	tr.run("questions", 0, "questions", "--json")

	tr.run("call", 1, "call", "--session", "a", "fx_ask")
	tr.run("questions", 0, "questions")
	tr.run("questions", 0, "questions", "--json")
	tr.run("answer", 1, "answer", "q_nothing", "name=Ada")
	tr.run("answer", 1, "answer", open(), "nom=Ada")
	tr.run("approve", 1, "approve", open())
	tr.run("answer", 0, "answer", open(), "name=Ada")
	tr.w.inbox("a", "hello Ada")
	tr.run("call", 0, "call", "--session", "a", "fx_ask")
	tr.run("call", 1, "call", "--session", "b", "--json", "fx_ask")
	tr.run("answer", 0, "answer", "--json", open(), `{"name":"Grace"}`)
	tr.w.inbox("b", "hello Grace") // what goes on by itself has ended
	tr.run("call", 1, "call", "--session", "c", "fx_ask")
	tr.run("answer", 0, "answer", "--decline", open())
	tr.w.inbox("c", "was answered")

	tr.run("call", 1, "call", "--session", "a", "fx_guarded", "name=Ada")
	tr.run("questions", 0, "questions")
	id := open()
	tr.run("approve", 0, "approve", id)
	tr.run("approve", 1, "approve", id)
	tr.run("approve", 1, "approve", "--json", id)
	tr.run("call", 0, "call", "--session", "a", "fx_guarded", "name=Ada")
	tr.run("call", 1, "call", "--session", "a", "fx_guarded", "name=Eve")
	tr.run("approve", 0, "approve", "--json", open())
	tr.run("call", 1, "call", "--session", "a", "fx_guarded", "name=Bob")
	tr.run("deny", 0, "deny", open(), "--reason", "not now")
	tr.run("call", 1, "call", "--session", "a", "fx_guarded", "name=Zoe")
	tr.run("deny", 0, "deny", "--json", open())
	tr.run("deny", 1, "deny", "q_nothing")
	tr.run("questions", 0, "questions", "--all")

	tr.run("inbox", 0, "inbox", "--session", "a")
	tr.run("inbox", 0, "inbox", "--session", "a", "--json")
	tr.run("inbox", 0, "inbox", "--session", "kept")
	tr.run("inbox", 1, "inbox", "--session", "nowhere")
	tr.run("inbox", 1, "inbox", "--session", "a", "--agent", "reader")
}

func looking(tr *transcript) {
	t := tr.w.t
	tr.run("status", 0, "status")
	var s api.Status
	if err := json.Unmarshal([]byte(tr.run("status", 0, "status", "--json")), &s); err != nil || s.Host.PID == 0 || len(s.Plugins) != 1 {
		t.Errorf("status: %v %+v", err, s)
	}
	tr.run("tools", 0, "tools")
	var list []api.Tool
	if err := json.Unmarshal([]byte(tr.w.ok("tools", "--json")), &list); err != nil || len(list) < 10 {
		t.Errorf("tools: %v, %d", err, len(list))
	}
	tr.run("tools", 0, "tools", "fx_slow")
	tr.run("tools", 0, "tools", "fx_slow", "--json")
	for _, format := range []string{"mcp", "openai", "anthropic"} {
		tr.run("tools", 0, "tools", "fx_slow", "--format", format)
		var all []map[string]any
		if err := json.Unmarshal([]byte(tr.w.ok("tools", "--format", format)), &all); err != nil || len(all) != len(list)-1 {
			t.Errorf("%s: %v, %d of %d tools that are not internal", format, err, len(all), len(list)-1)
		}
	}
	tr.run("tools", 0, "tools", "--agent", "reader")
	tr.run("tools", 0, "tools", "--session", "a")
	tr.run("tools", 1, "tools", "--agent", "nobody")
	tr.run("tools", 1, "tools", "--session", "nowhere")
	tr.run("tools", 1, "tools", "fx_ecko")
	tr.run("tools", 1, "tools", "fx_ecko", "--json")
	tr.run("tools", 1, "tools", "fx_echo", "--agent", "reader")

	tr.run("guide", 0, "guide")
	tr.run("guide", 0, "guide", "--json")
	tr.run("guide", 0, "guide", "fx")
	tr.run("guide", 0, "guide", "fx", "--json")
	tr.run("guide", 1, "guide", "fy")

	tr.run("schedule", 1, "schedule") // no plugin schedules here
	tr.run("schedule", 1, "schedule", "--json", "show", "x")

	tr.run("events", 0, "events")
	tr.run("events", 0, "events", "--json", "--after", "19")
	follow := tr.w.start("plugin.state", "events", "--follow")
	tr.w.ok("call", "--session", "live", "fx_echo")
	follow.await(t, "session=live")
	if code := follow.interrupt(t); code != 0 || follow.errOut.String() != "" {
		t.Errorf("an interrupted --follow: exit %d, %s", code, follow.errOut.String())
	}
}

func steering(tr *transcript) {
	binary := "plugins/bulkhead-plugin-fixture"
	tr.run("plugin-inspect", 0, "plugin", "inspect", binary)
	tr.run("plugin-inspect", 0, "plugin", "inspect", binary, "--json")
	tr.run("plugin-inspect", 1, "plugin", "inspect", "args.json")
	tr.run("plugin-inspect", 1, "plugin", "inspect", "nowhere")
	tr.run("plugin", 0, "plugin", "stop", "fx")
	tr.run("plugin", 1, "call", "fx_echo")
	tr.run("plugin", 0, "plugin", "start", "fx")
	tr.run("plugin", 0, "plugin", "restart", "fx")
	tr.run("plugin", 0, "plugin", "restart", "fx", "--json")
	for _, action := range []string{"restart", "stop", "start"} {
		tr.run("plugin", 1, "plugin", action, "nobody")
	}
	tr.run("plugin", 1, "--json", "plugin", "stop", "nobody")

	tr.run("reload", 0, "reload")
	tr.run("reload", 0, "reload", "--json")
	tr.run("reload", 2, "reload", "now")
	good, err := os.ReadFile(filepath.Join(tr.w.dir, "config.hcl"))
	if err != nil {
		tr.w.t.Fatal(err)
	}
	tr.w.write("config.hcl", strings.Replace(string(good), "shared   =", "shraed   =", 1))
	tr.run("reload", 1, "reload", "--config", "same.hcl")
	tr.w.write("config.hcl", string(good))
}

func mcpOnStdio(tr *transcript) {
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	tr.runIn("mcp", ping, 0, "mcp")
	tr.runIn("mcp", "not json\n"+ping, 0, "mcp", "--session", "a")
	tr.runIn("mcp", ping, 1, "mcp", "--agent", "nobody")
	tr.runIn("mcp", ping, 1, "mcp", "--agent", "reader", "--session", "a")
}
