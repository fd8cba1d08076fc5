//go:build linux

package supervise

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

func TestSlotsAndQueue(t *testing.T) {
	b := newBench(t, nil)
	p := b.plugin("p")
	p.Limits = Limits{Calls: 4, Queue: 2}
	b.add(p)
	done := make(chan error, 10)
	for range 4 { // two run, two wait
		go func() {
			_, err := b.call("p", "sleep", `{"ms":1000}`)
			done <- err
		}()
	}
	testbin.Await(t, 5*time.Second, "slots and queue are full", func() bool { s := b.of("p"); return s.InFlight == 2 && s.Queued == 2 })
	_, err := b.call("p", "echo", `{}`)
	is(t, err, fault.PluginBusy, "all 4 slots and 2 places")
	// Nested calls have slots of their own.
	if r, _, err := b.Invoke(t.Context(), "p", true, &pluginv1.InvokeRequest{CallId: callID(), Name: "echo", Arguments: []byte(`{}`)}, nil); err != nil || string(r.GetStructured()) != "{}" {
		t.Errorf("nested: %v %v", r, err)
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if s := b.of("p"); s.InFlight != 0 || s.Queued != 0 {
		t.Errorf("%+v", s)
	}
}

func TestNestedCallsWaitShortlyOnly(t *testing.T) {
	s := newSlots("p", Limits{Calls: 2, Queue: 4})
	for range 2 {
		if err := s.take(t.Context(), true, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	err := s.take(t.Context(), true, 20*time.Millisecond)
	is(t, err, fault.NestedBusy, "20ms")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is(t, s.take(ctx, false, time.Second), fault.CallCancelled, "")
	got := make(chan error)
	go func() { got <- s.take(t.Context(), false, 0) }()
	testbin.Await(t, time.Second, "the root call waits", func() bool { _, queued := s.count(); return queued == 1 })
	s.give(true)
	if err := <-got; err != nil {
		t.Error(err)
	}
	s.give(true)
	s.give(false)
	if in, queued := s.count(); in != 0 || queued != 0 {
		t.Errorf("%d taken, %d waiting", in, queued)
	}
}

// Two plugins that call each other with all root slots taken do not lock up.
func TestNestedCallsThroughTheHost(t *testing.T) {
	b := newBench(t, nil)
	one, two := b.plugin("one"), b.plugin("two")
	one.Limits, two.Limits = Limits{Calls: 2}, Limits{Calls: 2}
	b.add(one, two)
	const n = 8
	done := make(chan error, 2*n)
	for i := range n {
		for _, pair := range [][2]string{{"one", "two"}, {"two", "one"}} {
			go func() {
				want := fmt.Sprintf(`{"i":%d}`, i)
				text, err := b.call(pair[0], "nested", fmt.Sprintf(`{"tool":"%s/echo","text":%q}`, pair[1], want))
				if err == nil && text != want {
					err = fmt.Errorf("got %q", text)
				}
				done <- err
			}()
		}
	}
	for range 2 * n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestCancelReachesTheHandlerAndKeepsTheSlotUntilItReturns(t *testing.T) {
	b := newBench(t, func(o *Options) { o.AbandonAfter = 20 * time.Second })
	b.add(b.plugin("p"))
	for args, deaf := range map[string]bool{`{"ms":60000}`: false, `{"ms":1500,"deaf":true}`: true} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		started := make(chan struct{})
		go func() {
			_, _, err := b.Invoke(ctx, "p", false, &pluginv1.InvokeRequest{CallId: callID(), Name: "sleep", Arguments: []byte(args)}, func(*pluginv1.InvokeEvent) { close(started) })
			done <- err
		}()
		<-started
		cancel()
		is(t, <-done, fault.CallCancelled, "")
		if n := b.of("p").InFlight; deaf && n != 1 {
			t.Errorf("the slot of a running handler was freed: %d", n)
		}
		testbin.Await(t, 10*time.Second, "the slot is free", func() bool { return b.of("p").InFlight == 0 })
	}
	if s := b.of("p"); s.Abandoned != 0 || s.Generation != 1 {
		t.Errorf("%+v", s)
	}
}

func TestQuestionIsAResult(t *testing.T) {
	b := newBench(t, nil)
	b.add(b.plugin("p"))
	req := &pluginv1.InvokeRequest{CallId: callID(), Name: "needs_input", Arguments: []byte(`{"n":65536}`)}
	r, d, err := b.Invoke(t.Context(), "p", false, req, nil)
	if err != nil || r.GetNeedsInput().GetRequests()[0].GetKind() != "form" || !d.Sent || d.Generation != 1 {
		t.Fatalf("%v %+v %v", r, d, err)
	}
	req.Attempt = &pluginv1.Attempt{Round: 1, State: r.GetNeedsInput().GetState(), Input: map[string]*pluginv1.Answer{"form": {Action: "accept", Content: []byte(`{"name":"x"}`)}}}
	if r, _, err = b.Invoke(t.Context(), "p", false, req, nil); err != nil || string(r.GetStructured()) != `{"name":"x"}` {
		t.Errorf("%v %v", r, err)
	}
}

func TestArgumentsTooLarge(t *testing.T) {
	b := newBench(t, nil)
	b.add(b.plugin("p"))
	big := append(append([]byte(`{"text":"`), make([]byte, 5<<20)...), `"}`...)
	_, d, err := b.Invoke(t.Context(), "p", false, &pluginv1.InvokeRequest{CallId: callID(), Name: "echo", Arguments: big}, nil)
	is(t, err, fault.ArgumentsTooBig, "")
	if d.Sent {
		t.Error("it was not sent")
	}
	b.works("p")
}
