//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// args are the arguments of all tools together.
type args struct {
	MS     int      `json:"ms"`
	MB     int      `json:"mb"`
	N      int      `json:"n"`
	Code   int      `json:"code"`
	Deaf   bool     `json:"deaf"`   // ignore the cancel
	Setsid bool     `json:"setsid"` // leave session and group
	Stdio  bool     `json:"stdio"`  // keep the plugin's own stdio
	Line   bool     `json:"line"`   // end lines
	Text   string   `json:"text"`
	Read   []string `json:"read"`
	Write  []string `json:"write"`
	Dial   []string `json:"dial"` // network:address
	Signal int      `json:"signal"`
	Tool   string   `json:"tool"`
}

type out = grpc.ServerStreamingServer[pluginv1.InvokeEvent]

func send(o out, r *pluginv1.Result) error {
	return o.Send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Result{Result: r}})
}

func say(o out, format string, a ...any) error {
	return send(o, &pluginv1.Result{Content: []*pluginv1.Content{{Block: &pluginv1.Content_Text{Text: fmt.Sprintf(format, a...)}}}})
}

func progress(o out, text string) error {
	return o.Send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Progress{Progress: &pluginv1.Progress{Message: text}}})
}

// tool does what the tool's name says.
func (s *server) tool(ctx context.Context, r *pluginv1.InvokeRequest, o out) error {
	var a args
	json.Unmarshal(r.GetArguments(), &a)
	switch r.GetName() {
	case "echo":
		return send(o, &pluginv1.Result{Structured: r.GetArguments(), Content: []*pluginv1.Content{{Block: &pluginv1.Content_Text{Text: string(r.GetArguments())}}}})
	case "sleep":
		progress(o, "sleeping")
		timer := time.NewTimer(time.Duration(a.MS) * time.Millisecond)
		defer timer.Stop()
		if a.Deaf {
			<-timer.C
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		return say(o, "slept")
	case "life":
		s.mu.Lock()
		defer s.mu.Unlock()
		return say(o, "%s", strings.Join(s.life, ","))
	case "facts":
		s.mu.Lock()
		defer s.mu.Unlock()
		return say(o, "%d %s %s %s", s.facts.GetGeneration(), s.facts.GetDataDir(), s.facts.GetSharedDir(), s.facts.GetTempDir())
	case "needs_input":
		if in := r.GetAttempt().GetInput()["form"]; in != nil {
			return send(o, &pluginv1.Result{Structured: in.GetContent()})
		}
		return send(o, &pluginv1.Result{NeedsInput: &pluginv1.NeedsInput{
			Requests: []*pluginv1.InputRequest{{Id: "form", Kind: "form", Message: "a name?", Schema: []byte(`{"type":"object"}`)}},
			State:    make([]byte, a.N),
		}})
	case "nested":
		return s.nested(ctx, r, a, o)
	case "offer":
		s.changed <- struct{}{}
		return say(o, "offered")
	case "degrade":
		s.mu.Lock()
		s.degraded = a.Text
		s.mu.Unlock()
		return say(o, "degraded")
	case "probe":
		return send(o, &pluginv1.Result{Structured: probe(a)})
	case "pivot":
		return say(o, "%s", pivotChild())
	case "spawn":
		return spawn(a, o)
	}
	return s.misbehave(ctx, r.GetName(), a, o)
}

func (s *server) nested(ctx context.Context, r *pluginv1.InvokeRequest, a args, o out) error {
	var host pluginv1.HostServiceClient
	select {
	case host = <-s.host:
		s.host <- host
	case <-ctx.Done():
		return ctx.Err()
	}
	stream, err := host.CallTool(ctx, &pluginv1.CallToolRequest{
		Scope: &pluginv1.Scope{By: &pluginv1.Scope_CallId{CallId: r.GetCallId()}}, Tool: a.Tool, Arguments: []byte(a.Text),
	})
	for err == nil {
		var ev *pluginv1.InvokeEvent
		if ev, err = stream.Recv(); err == nil && ev.GetResult() != nil {
			return send(o, ev.GetResult())
		}
	}
	return say(o, "error: %v", err)
}

// misbehave is what no honest plugin does.
func (s *server) misbehave(ctx context.Context, name string, a args, o out) error {
	switch name {
	case "panic":
		panic("the handler's own panic")
	case "gopanic":
		go panic("a goroutine's panic")
		<-ctx.Done()
	case "exit":
		os.Exit(a.Code)
	case "stop":
		stopSelf()
	case "spin":
		for ctx.Err() == nil {
			runtime.Gosched()
		}
	case "hang":
		select {}
	case "hog":
		var held [][]byte
		for range a.MB {
			b := make([]byte, 1<<20)
			rand.Read(b[:4096])
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			held = append(held, b)
		}
		return say(o, "holds %d MiB", len(held))
	case "stderr_json":
		for _, line := range []string{`{"@message": 1}`, `{"@level": 7, "@message": "x"}`, `{"@timestamp": {}, "@message": []}`, `{"a":`, `null`, "{}"} {
			fmt.Fprintln(os.NewFile(2, "fd2"), line)
		}
		return say(o, "written")
	case "stderr":
		chunk := []byte(strings.Repeat("x", 64<<10))
		if a.Line {
			chunk = []byte(strings.Repeat(strings.Repeat("x", 63)+"\n", 1<<10))
		}
		fd := os.NewFile(2, "fd2") // os.Stderr is go-plugin's pipe
		for range a.MB * 16 {
			fd.Write(chunk)
		}
		return say(o, "written")
	case "stdout":
		fd := os.NewFile(1, "fd1")
		chunk := []byte(strings.Repeat("x", 64<<10))
		for range a.MB * 16 {
			if _, err := fd.Write(chunk); err != nil {
				return err
			}
		}
		return say(o, "written")
	case "print":
		for range a.MB * 1024 {
			fmt.Println(strings.Repeat("o", 1023))
			fmt.Fprintln(os.Stderr, strings.Repeat("e", 1023))
		}
		return say(o, "written")
	case "knock":
		for i := range a.N {
			ln, err := s.broker.Accept(uint32(1000 + i))
			if err != nil {
				return say(o, "refused after %d", i)
			}
			ln.Close()
		}
		return say(o, "knocked")
	case "big":
		return say(o, "%s", strings.Repeat("y", a.MB<<20))
	case "noresult":
		return progress(o, "that is all")
	case "twice":
		for i := range 50 {
			say(o, "result %d", i)
		}
		<-ctx.Done()
	case "badutf8":
		return o.SendMsg(rawMessage{})
	case "badjson":
		return send(o, &pluginv1.Result{Structured: []byte(`{"a":`)})
	case "events":
		for i := range a.N {
			if err := progress(o, fmt.Sprint(i)); err != nil {
				return err
			}
		}
		return say(o, "sent")
	case "signal_host":
		return say(o, "%v", signalHost(a.Signal))
	case "stdin":
		b, err := io.ReadAll(io.LimitReader(os.Stdin, 16))
		return say(o, "%q %v", b, err)
	}
	return errors.New("no such tool")
}

// spawn starts a process that would outlive the plugin.
func spawn(a args, o out) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TESTPLUGIN_CHILD=sleep")
	cmd.SysProcAttr = leave(a.Setsid)
	if a.Stdio {
		cmd.Stdout, cmd.Stderr = os.NewFile(1, "fd1"), os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return say(o, "error: %v", err)
	}
	return say(o, "%d", cmd.Process.Pid)
}
