//go:build linux

package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const fixture = "github.com/bulkhead-dev/bulkhead/host/internal/testplugin"

func TestMain(m *testing.M) {
	sandbox.MaybeRun()
	if os.Getenv("TESTHOST") != "" {
		hostToKill()
		return
	}
	code := m.Run()
	testbin.Cleanup()
	os.Exit(code)
}

// registry records what is published.
type registry struct {
	mu   sync.Mutex
	last map[string]*pluginv1.OfferSnapshot
	gens map[string][]uint64
}

func (r *registry) Publish(p string, gen uint64, s *pluginv1.OfferSnapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last, r.gens = map[string]*pluginv1.OfferSnapshot{}, map[string][]uint64{}
	}
	r.last[p] = s
	r.gens[p] = append(r.gens[p], gen)
}

func (r *registry) Withdraw(p string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, p)
}

func (r *registry) tools(p string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, t := range r.last[p].GetTools() {
		names = append(names, t.GetName())
	}
	return strings.Join(names, ",")
}

func (r *registry) published(p string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.gens[p])
}

// services lets plugins call one another: tool "PLUGIN/NAME".
type services struct {
	pluginv1.UnimplementedHostServiceServer
	s *Supervisor
}

func (h *services) For(string, uint64) pluginv1.HostServiceServer { return h }
func (h *services) Revoke(string, uint64)                         {}
func (h *services) Serving(string, uint64)                        {}

func (h *services) CallTool(r *pluginv1.CallToolRequest, out grpc.ServerStreamingServer[pluginv1.InvokeEvent]) error {
	plugin, tool, _ := strings.Cut(r.GetTool(), "/")
	if tool == "panic" {
		panic("a host service that panics")
	}
	result, _, err := h.s.Invoke(out.Context(), plugin, true, &pluginv1.InvokeRequest{CallId: callID(), Name: tool, Arguments: r.GetArguments()}, nil)
	if err != nil {
		result = &pluginv1.Result{IsError: true, Error: fault.From(err).Proto()}
	}
	return out.Send(&pluginv1.InvokeEvent{Event: &pluginv1.InvokeEvent_Result{Result: result}})
}

var ids struct {
	sync.Mutex
	n int
}

func callID() string {
	ids.Lock()
	defer ids.Unlock()
	ids.n++
	return fmt.Sprintf("call-%d", ids.n)
}

// described answers for every binary, so that a row may misbehave from its start.
type described struct{ swap pluginv1.Swap }

func (d described) Get(string) (*pluginv1.DescribeResponse, bool) {
	return &pluginv1.DescribeResponse{Name: "testplugin", Version: "1.0.0", Swap: d.swap, Grants: []string{"tool:echo"}}, true
}
func (described) Put(string, *pluginv1.DescribeResponse) error { return nil }

// bench is a supervisor in a folder of its own.
type bench struct {
	*Supervisor
	t      testing.TB
	dir    string
	offers *registry
	log    *testbin.Buffer
	mu     sync.Mutex
	events []Event
}

func newBench(t testing.TB, change func(*Options)) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "v")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: dir, offers: &registry{}, log: &testbin.Buffer{}}
	hs := &services{}
	opts := Options{
		DataDir: filepath.Join(dir, "data"), RunDir: filepath.Join(dir, "r"), SharedDir: filepath.Join(dir, "shared"),
		Offers: b.offers, HostServices: hs, DescribeCache: described{pluginv1.Swap_SWAP_OVERLAP},
		Log: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: b.log}),
		OnEvent: func(e Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, e)
		},
		StartTimeout: 5 * time.Second, ConfigTimeout: 5 * time.Second,
		BackoffBase: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond,
		AbandonAfter: 500 * time.Millisecond, RestartWait: 5 * time.Second,
	}
	if change != nil {
		change(&opts)
	}
	b.Supervisor = New(opts)
	hs.s = b.Supervisor
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		b.Close(ctx)
		os.RemoveAll(dir)
	})
	return b
}

func (b *bench) plugin(name string, env ...string) Plugin {
	p := Plugin{Name: name, Binary: testbin.Build(b.t, fixture), Configured: true, Env: map[string]string{}}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		p.Env[k] = v
	}
	return p
}

// add adds plugins and waits until each was ready or failed once.
func (b *bench) add(list ...Plugin) {
	b.t.Helper()
	for _, p := range list {
		if err := b.Add(p); err != nil {
			b.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := b.Settled(ctx); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) of(name string) Status {
	for _, s := range b.Status() {
		if s.Name == name {
			return s
		}
	}
	return Status{}
}

func (b *bench) await(name string, state State) Status {
	b.t.Helper()
	testbin.Await(b.t, 20*time.Second, fmt.Sprintf("%s is %s, now %+v", name, state, b.of(name)), func() bool { return b.of(name).State == state })
	return b.of(name)
}

// call runs one tool with a generous deadline and returns its text.
func (b *bench) call(plugin, tool, args string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return b.callIn(ctx, plugin, tool, args)
}

func (b *bench) callIn(ctx context.Context, plugin, tool, args string) (string, error) {
	r, _, err := b.Invoke(ctx, plugin, false, &pluginv1.InvokeRequest{CallId: callID(), Name: tool, Arguments: json.RawMessage(args)}, nil)
	if err != nil {
		return "", err
	}
	if e := r.GetError(); e != nil {
		return e.GetRef() + " " + e.GetMessage(), nil
	}
	if len(r.GetContent()) > 0 {
		return r.GetContent()[0].GetText(), nil
	}
	return string(r.GetStructured()), nil
}

// works fails the test unless the plugin answers.
func (b *bench) works(plugin string) {
	b.t.Helper()
	if text, err := b.call(plugin, "echo", `{"n":1}`); err != nil || text != `{"n":1}` {
		b.t.Errorf("%s does not work: %q, %v, %+v", plugin, text, err, b.of(plugin))
	}
}

// is checks an error's place in the table and its words.
func is(t testing.TB, err error, ref fault.Ref, says string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s with %q", ref, says)
		return
	}
	if f := fault.From(err); f.Ref != ref || !strings.Contains(f.Message, says) {
		t.Errorf("got %s %q, want %s with %q", f.Ref, f.Message, ref, says)
	}
}
