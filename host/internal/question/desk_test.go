package question

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

var (
	agent    = By{Name: "a"}
	approver = By{Name: "operator", Approver: true, Person: true}
)

type fixture struct {
	*Desk
	dir  string
	runs atomic.Int64
}

// desk opens a desk on a store in dir, as a host does at its start.
func desk(t *testing.T, dir string) *fixture {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Desk: New(Options{Store: db, Log: hclog.NewNullLogger()}), dir: dir}
	f.Resume = func(_ context.Context, c store.FrozenCall, input map[string]*pluginv1.Answer) *pluginv1.Result {
		f.runs.Add(1)
		text := fmt.Sprintf("%s %s %s", c.Arguments, c.State, input["who"].GetContent())
		return &pluginv1.Result{Content: []*pluginv1.Content{{Block: &pluginv1.Content_Text{Text: text}}}}
	}
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}

func (f *fixture) close() {
	if f.dir == "" {
		return
	}
	f.dir = ""
	f.Close()
	_ = f.Store.Close()
}

func form() []*pluginv1.InputRequest {
	return []*pluginv1.InputRequest{{Id: "who", Kind: "form", Message: "who?",
		Schema: []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}}
}

func approval() []*pluginv1.InputRequest {
	return []*pluginv1.InputRequest{{Id: "approval", Kind: "approval", Message: "may it?"}}
}

func (f *fixture) park(t *testing.T, args string, requests []*pluginv1.InputRequest) *Parked {
	t.Helper()
	c := NewCall("a", "s", "r", "low", "tool", "plugin", []byte(args))
	c.Round, c.State = 1, []byte("st")
	p, err := f.Park(t.Context(), c, requests)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func text(r *pluginv1.Result) string { return r.GetContent()[0].GetText() }

// The caller that still waits goes on itself; the host does not.
func TestWaitingCallerTakes(t *testing.T) {
	f := desk(t, t.TempDir())
	p := f.park(t, `{"x":1}`, form())
	got := make(chan map[string]*pluginv1.Answer, 1)
	go func() {
		input, err := p.Wait(t.Context(), time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- input
	}()
	if _, err := f.Answer(t.Context(), p.Questions[0].ID, agent, "accept", []byte(`{"n":9007199254740993}`), ""); err != nil {
		t.Fatal(err)
	}
	if input := <-got; string(input["who"].Content) != `{"n":9007199254740993}` {
		t.Errorf("got %v", input)
	}
	if f.runs.Load() != 0 {
		t.Error("the host ran it too")
	}
	if found, err := f.Match(t.Context(), "a", "s", "tool", []byte(`{"x":1}`)); found != nil || err != nil {
		t.Errorf("a spent call is found: %+v %v", found, err)
	}
}

// With nobody waiting the host goes on; exactly one repeat gets the result.
func TestHostTakes(t *testing.T) {
	f := desk(t, t.TempDir())
	p := f.park(t, `{"x":1}`, form())
	if _, err := p.Wait(t.Context(), 0); !errors.Is(err, ErrStillOpen) {
		t.Fatal(err)
	}
	if _, err := f.Answer(t.Context(), p.Questions[0].ID, agent, "accept", []byte(`{"n":1}`), ""); err != nil {
		t.Fatal(err)
	}
	var results atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			found, err := f.Match(t.Context(), "a", "s", "tool", []byte(`{"x":1}`))
			if err != nil {
				t.Error(err)
			}
			if found != nil && found.Result != nil {
				results.Add(1)
				if text(found.Result) != `{"x":1} st {"n":1}` {
					t.Errorf("got %s", text(found.Result))
				}
			}
		})
	}
	wg.Wait()
	if results.Load() != 1 || f.runs.Load() != 1 {
		t.Errorf("%d results of %d runs", results.Load(), f.runs.Load())
	}
}

func TestApprovalPermitsOnce(t *testing.T) {
	f := desk(t, t.TempDir())
	p := f.park(t, `{}`, approval())
	if _, err := p.Wait(t.Context(), 0); !errors.Is(err, ErrStillOpen) {
		t.Fatal(err)
	}
	id := p.Questions[0].ID
	if _, err := f.Answer(t.Context(), id, agent, "approve", nil, ""); fault.From(err).Ref != fault.NotApprover {
		t.Errorf("the agent approved itself: %v", err)
	}
	if _, err := f.Answer(t.Context(), id, approver, "approve", nil, ""); err != nil {
		t.Fatal(err)
	}
	if found, err := f.Match(t.Context(), "a", "s", "tool", []byte(`{"other":1}`)); found != nil || err != nil {
		t.Errorf("other arguments were permitted: %+v %v", found, err)
	}
	if found, err := f.Match(t.Context(), "b", "s", "tool", []byte(`{}`)); found != nil || err != nil {
		t.Errorf("another agent was permitted: %+v %v", found, err)
	}
	var permits atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			found, err := f.Match(t.Context(), "a", "s", "tool", []byte(`{}`))
			if err != nil {
				t.Error(err)
			}
			if found != nil && found.Permit != nil {
				permits.Add(1)
			}
		})
	}
	wg.Wait()
	if permits.Load() != 1 || f.runs.Load() != 0 {
		t.Errorf("%d permits, %d runs", permits.Load(), f.runs.Load())
	}
}

func TestDenied(t *testing.T) {
	f := desk(t, t.TempDir())
	p := f.park(t, `{}`, approval())
	go func() {
		if _, err := f.Answer(t.Context(), p.Questions[0].ID, approver, "deny", nil, "not today"); err != nil {
			t.Error(err)
		}
	}()
	_, err := p.Wait(t.Context(), time.Minute)
	if f := fault.From(err); f.Ref != fault.WasDenied || f.Message != "the call was denied: not today" {
		t.Error(err)
	}
}

// A caller that left hears of the denial when it comes back, once, and in its inbox.
func TestDenialIsKept(t *testing.T) {
	f := desk(t, t.TempDir())
	p := f.park(t, `{}`, approval())
	if _, err := p.Wait(t.Context(), 0); !errors.Is(err, ErrStillOpen) {
		t.Fatal(err)
	}
	if _, err := f.Answer(t.Context(), p.Questions[0].ID, approver, "deny", nil, "not today"); err != nil {
		t.Fatal(err)
	}
	if items, err := f.Store.InboxRead(t.Context(), "s", 0, 10); err != nil || len(items) != 1 {
		t.Errorf("inbox: %+v %v", items, err)
	}
	found, err := f.Match(t.Context(), "a", "s", "tool", []byte(`{}`))
	if err != nil || found == nil || found.Result.GetError().GetRef() != string(fault.WasDenied) || text(found.Result) != "the call was denied: not today" {
		t.Errorf("the repeated call met %+v %v", found, err)
	}
	if again, err := f.Match(t.Context(), "a", "s", "tool", []byte(`{}`)); again != nil || err != nil {
		t.Errorf("the denial came twice: %+v %v", again, err)
	}
	if items, err := f.Store.InboxRead(t.Context(), "s", 0, 10); err != nil || len(items) != 0 {
		t.Errorf("the inbox keeps what was told: %+v %v", items, err)
	}
}

// All of it survives the process: what was answered runs, what was running is told.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	f := desk(t, dir)
	p := f.park(t, `{"x":1}`, form())
	running := f.park(t, `{"x":2}`, form())
	if _, err := f.Store.UpdateFrozen(t.Context(), running.Frozen.ID, store.Waiting, store.Running, store.FrozenChange{ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	f.close()
	f = desk(t, dir)
	if items, err := f.Store.InboxRead(t.Context(), "s", 0, 10); err != nil || len(items) != 1 || items[0].Kind != "notice" {
		t.Errorf("inbox: %+v %v", items, err)
	}
	found, err := f.Match(t.Context(), "a", "s", "tool", []byte(`{"x":1}`))
	if err != nil || found == nil || found.Parked == nil || found.Parked.Questions[0].ID != p.Questions[0].ID {
		t.Fatalf("after the restart: %+v %v", found, err)
	}
	if _, err := found.Parked.Wait(t.Context(), 0); !errors.Is(err, ErrStillOpen) {
		t.Fatal(err)
	}
	if _, err := f.Answer(t.Context(), p.Questions[0].ID, agent, "accept", []byte(`{"n":5}`), ""); err != nil {
		t.Fatal(err)
	}
	found, err = f.Match(t.Context(), "a", "s", "tool", []byte(`{"x":1}`))
	if err != nil || found == nil || text(found.Result) != `{"x":1} st {"n":5}` {
		t.Errorf("got %+v %v", found, err)
	}
}

func TestRefusals(t *testing.T) {
	f := desk(t, t.TempDir())
	p := f.park(t, `{}`, form())
	id := p.Questions[0].ID
	for name, c := range map[string]struct {
		id, action, content string
		by                  By
		want                fault.Ref
	}{
		"unknown id":             {"q_x", "accept", `{"n":1}`, agent, fault.UnknownQuestion},
		"another agent's":        {id, "accept", `{"n":1}`, By{Name: "b"}, fault.UnknownQuestion},
		"never coerced":          {id, "accept", `{"n":"1"}`, agent, fault.BadArguments},
		"missing field":          {id, "accept", `{}`, agent, fault.BadArguments},
		"no JSON":                {id, "accept", `{`, agent, fault.BadArguments},
		"approve a form":         {id, "approve", ``, approver, fault.BadArguments},
		"an action nobody knows": {id, "maybe", ``, agent, fault.BadArguments},
	} {
		if _, err := f.Answer(t.Context(), c.id, c.by, c.action, []byte(c.content), ""); fault.From(err) == nil || fault.From(err).Ref != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := f.Answer(t.Context(), id, agent, "decline", nil, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Answer(t.Context(), id, agent, "accept", []byte(`{"n":1}`), ""); fault.From(err).Ref != fault.QuestionClosed {
		t.Errorf("answered twice: %v", err)
	}
	decision := form()
	decision[0].Decision = true
	d := f.park(t, `{"d":1}`, decision)
	if _, err := f.Answer(t.Context(), d.Questions[0].ID, agent, "accept", []byte(`{"n":1}`), ""); fault.From(err).Ref != fault.NotApprover {
		t.Errorf("an agent took a decision: %v", err)
	}
	for i := range 10 {
		c := NewCall("a", "s", "", "", "tool", "plugin", fmt.Appendf(nil, `{"i":%d}`, i))
		if _, err := f.Park(t.Context(), c, form()); err != nil {
			if fault.From(err).Ref != fault.QuestionLimit || i < 3 {
				t.Errorf("question %d: %v", i, err)
			}
			return
		}
	}
	t.Error("the number of open questions is not bounded")
}

func TestExpiry(t *testing.T) {
	f := desk(t, t.TempDir())
	requests := form()
	requests[0].TtlMs = 1
	p := f.park(t, `{}`, requests)
	_, err := p.Wait(t.Context(), time.Minute)
	if fault.From(err) == nil || fault.From(err).Ref != fault.QuestionClosed {
		t.Errorf("got %v", err)
	}
}

func TestAskEndsWithItsCall(t *testing.T) {
	f := desk(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan store.Question, 1)
	done := make(chan error, 1)
	go func() {
		_, _, err := f.Ask(ctx, NewCall("a", "s", "", "", "tool", "plugin", nil), form()[0], func(q store.Question) { asked <- q })
		done <- err
	}()
	q := <-asked
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	got, err := f.Get(t.Context(), approver, q.ID)
	if err != nil || got.Outcome != "interrupted" {
		t.Errorf("%+v %v", got, err)
	}
}

// A plugin settles its own questions for the session that was asked, and no others;
// the outcome is told once.
func TestAnswerOwn(t *testing.T) {
	f := desk(t, t.TempDir())
	p := f.park(t, `{"x":1}`, form())
	if _, err := p.Wait(t.Context(), 0); !errors.Is(err, ErrStillOpen) {
		t.Fatal(err)
	}
	id := p.Questions[0].ID
	never, always := func(time.Time) bool { return false }, func(time.Time) bool { return true }
	own := Whose{"plugin", "a", "s"}
	for name, w := range map[string]Whose{"plugin": {"other", "a", "s"}, "agent": {"plugin", "b", "s"}, "session": {"plugin", "a", "t"}} {
		if _, err := f.AnswerOwn(t.Context(), w, id, always, "accept", []byte(`{"n":1}`)); fault.From(err) == nil || fault.From(err).Ref != fault.UnknownQuestion {
			t.Errorf("another %s: %v", name, err)
		}
	}
	approval := f.park(t, `{"x":2}`, []*pluginv1.InputRequest{{Id: "approval", Kind: "approval"}})
	if _, err := f.AnswerOwn(t.Context(), own, approval.Questions[0].ID, always, "accept", nil); fault.From(err) == nil || fault.From(err).Ref != fault.UnknownQuestion {
		t.Errorf("an approval: %v", err)
	}
	q, err := f.AnswerOwn(t.Context(), own, id, never, "accept", []byte(`{"n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	r, open, err := f.Outcome(t.Context(), q)
	if err != nil || len(open) != 0 || text(r) != `{"x":1} st {"n":1}` {
		t.Errorf("%v %v %v", r, open, err)
	}
	if r, _, err := f.Outcome(t.Context(), q); r != nil || err != nil {
		t.Errorf("told twice: %v %v", r, err)
	}
	decision := form()
	decision[0].Decision = true
	id = f.park(t, `{"x":3}`, decision).Questions[0].ID
	if _, err := f.AnswerOwn(t.Context(), own, id, never, "accept", []byte(`{"n":1}`)); fault.From(err) == nil || fault.From(err).Ref != fault.NotApprover {
		t.Errorf("a decision nobody took: %v", err)
	}
	if _, err := f.AnswerOwn(t.Context(), own, id, always, "accept", []byte(`{"n":1}`)); err != nil {
		t.Error(err)
	}
}
