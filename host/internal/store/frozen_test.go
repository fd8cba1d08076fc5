package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

func frozenCall(id string, c *clock) FrozenCall {
	return FrozenCall{
		ID: id, Agent: "a", Session: "s", Run: "r", ModelTier: "high", Tool: "t", Plugin: "p", ArgsHash: "h",
		Arguments: []byte(`{"n":9007199254740993}`), State: []byte("state"), Chain: []string{"x", "y"},
		ExpiresAt: c.now().Add(time.Hour),
	}
}

func TestFrozenCallLife(t *testing.T) {
	c := &clock{t: time.UnixMilli(1_700_000_000_000)}
	dir := t.TempDir()
	s := open(t, dir, c)
	call := frozenCall("c1", c)
	must(t, s.InsertFrozen(ctx, call, []Question{
		{ID: "q1", RequestID: "one", Kind: "form", Agent: "a", Message: "m", Schema: []byte(`{}`), NoFallback: true, ExpiresAt: c.now().Add(time.Hour)},
		{ID: "q2", RequestID: "two", Kind: "approval", Agent: "a", Decision: true, ExpiresAt: c.now().Add(time.Hour)},
	}))
	must(t, s.Close())
	s = open(t, dir, c) // it outlives the host

	found, err := s.FindFrozen(ctx, "a", "s", "t", "h")
	must(t, err)
	if len(found) != 1 || string(found[0].Arguments) != string(call.Arguments) || string(found[0].State) != "state" ||
		fmt.Sprint(found[0].Chain) != "[x y]" || !found[0].ExpiresAt.Equal(call.ExpiresAt) || found[0].Status != Waiting {
		t.Fatalf("found %+v", found)
	}
	for _, other := range [][4]string{{"b", "s", "t", "h"}, {"a", "x", "t", "h"}, {"a", "s", "x", "h"}, {"a", "s", "t", "x"}} {
		if found, err := s.FindFrozen(ctx, other[0], other[1], other[2], other[3]); err != nil || len(found) != 0 {
			t.Errorf("%v found %v %v", other, found, err)
		}
	}
	must(t, s.MarkCallerGone(ctx, "c1"))
	got, err := s.AnswerQuestion(ctx, "q1", Answer{Outcome: "accept", Content: []byte(`{"x":1}`), AnsweredBy: "me"})
	must(t, err)
	if got.All || got.Call == nil || got.Call.ID != "c1" || !got.Question.CallerGone || string(got.Question.Content) != `{"x":1}` || !got.Question.NoFallback {
		t.Fatalf("first answer: %+v", got)
	}
	_, err = s.AnswerQuestion(ctx, "q1", Answer{Outcome: "decline"})
	wantRef(t, err, fault.QuestionClosed)
	_, err = s.AnswerQuestion(ctx, "nope", Answer{Outcome: "accept"})
	wantRef(t, err, fault.UnknownQuestion)
	_, err = s.AnswerQuestion(ctx, "q2", Answer{})
	wantRef(t, err, fault.BadArguments)
	got, err = s.AnswerQuestion(ctx, "q2", Answer{Outcome: "approve", AnsweredBy: "operator", Reason: "fine"})
	must(t, err)
	if !got.All {
		t.Error("all are answered, but it says no")
	}
	open, err := s.ListQuestions(ctx, QuestionFilter{Open: true})
	must(t, err)
	all, err := s.ListQuestions(ctx, QuestionFilter{Agent: "a", CallID: "c1"})
	must(t, err)
	if len(open) != 0 || len(all) != 2 || all[1].Reason != "fine" {
		t.Errorf("open %v, all %+v", open, all)
	}
	won, err := s.UpdateFrozen(ctx, "c1", Waiting, Running, FrozenChange{})
	must(t, err)
	if !won {
		t.Fatal("nobody could take the call")
	}
	must(t, s.NextRound(ctx, "c1", Running, 1, []byte("state 2"), c.now().Add(time.Hour), []Question{{ID: "q3", Kind: "form"}}))
	wantRef(t, s.NextRound(ctx, "c1", Running, 2, nil, c.now(), []Question{{ID: "q4"}}), fault.QuestionClosed)
	if _, found, err := s.GetQuestion(ctx, "q4"); err != nil || found {
		t.Errorf("a refused round left its question: %v %v", found, err)
	}
	won, err = s.UpdateFrozen(ctx, "c1", Waiting, Done, FrozenChange{Result: []byte("result")})
	must(t, err)
	kept, _, err := s.GetFrozen(ctx, "c1")
	must(t, err)
	if !won || kept.Status != Done || string(kept.Result) != "result" || string(kept.State) != "state 2" || kept.Round != 1 {
		t.Errorf("in the end %+v", kept)
	}
}

func TestOnlyOneTakerWins(t *testing.T) {
	c := &clock{t: time.UnixMilli(1_700_000_000_000)}
	s := open(t, t.TempDir(), c)
	must(t, s.InsertFrozen(ctx, frozenCall("c1", c), []Question{{ID: "q1"}}))
	var answered, taken atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := s.AnswerQuestion(ctx, "q1", Answer{Outcome: "accept"}); err == nil {
				answered.Add(1)
			} else if refOf(err) != fault.QuestionClosed {
				t.Error(err)
			}
			won, err := s.UpdateFrozen(ctx, "c1", Waiting, Running, FrozenChange{})
			if err != nil {
				t.Error(err)
			}
			if won {
				taken.Add(1)
			}
		})
	}
	wg.Wait()
	if answered.Load() != 1 || taken.Load() != 1 {
		t.Errorf("%d answered, %d took it", answered.Load(), taken.Load())
	}
}

func TestInsertFrozenIsAllOrNothing(t *testing.T) {
	c := &clock{t: time.UnixMilli(1_700_000_000_000)}
	s := open(t, t.TempDir(), c)
	if err := s.InsertFrozen(ctx, frozenCall("c1", c), []Question{{ID: "same"}, {ID: "same"}}); err == nil {
		t.Fatal("two questions with one id were stored")
	}
	if _, found, err := s.GetFrozen(ctx, "c1"); err != nil || found {
		t.Errorf("half of it is there: %v %v", found, err)
	}
}

func TestQuestionsExpire(t *testing.T) {
	c := &clock{t: time.UnixMilli(1_700_000_000_000)}
	s := open(t, t.TempDir(), c)
	must(t, s.InsertFrozen(ctx, frozenCall("c1", c), []Question{{ID: "q1", ExpiresAt: c.now().Add(time.Minute)}, {ID: "q2", ExpiresAt: c.now().Add(time.Hour)}}))
	must(t, s.InsertQuestion(ctx, Question{ID: "ask", Plugin: "p", Kind: "form"}))
	must(t, s.InsertQuestion(ctx, Question{ID: "other", Plugin: "x", Kind: "form"}))
	c.t = c.t.Add(time.Minute)
	_, err := s.AnswerQuestion(ctx, "q1", Answer{Outcome: "accept"})
	wantRef(t, err, fault.QuestionClosed)
	if n, err := s.CountQuestions(ctx, QuestionFilter{Open: true}); err != nil || n != 3 {
		t.Errorf("%d open: %v", n, err)
	}
	gone, err := s.ExpireQuestions(ctx)
	must(t, err)
	if len(gone) != 1 || gone[0].ID != "q1" || gone[0].Outcome != "expired" || gone[0].CallID != "c1" {
		t.Errorf("expired %+v", gone)
	}
	cut, err := s.InterruptQuestions(ctx, "p")
	must(t, err)
	if len(cut) != 1 || cut[0].ID != "ask" || cut[0].Outcome != "interrupted" {
		t.Errorf("interrupted %+v", cut)
	}
	c.t = c.t.Add(time.Hour)
	if found, err := s.FindFrozen(ctx, "a", "s", "t", "h"); err != nil || len(found) != 0 {
		t.Errorf("an expired call was found: %v %v", found, err)
	}
	if _, err = s.ExpireQuestions(ctx); err != nil {
		t.Fatal(err)
	}
	closed, err := s.SweepFrozen(ctx, c.now().Add(time.Minute))
	must(t, err)
	if _, found, err := s.GetFrozen(ctx, "c1"); err != nil || found || closed != 1 {
		t.Errorf("closed %d, still there: %v %v", closed, found, err)
	}
	if _, found, err := s.GetQuestion(ctx, "other"); err != nil || !found {
		t.Errorf("an open question was swept: %v", err)
	}
}

func TestHandlesAndSessions(t *testing.T) {
	c := &clock{t: time.UnixMilli(1_700_000_000_000)}
	s := open(t, t.TempDir(), c)
	must(t, s.HandlePut(ctx, Handle{Handle: "h1", Plugin: "p", Agent: "a", Session: "s", Namespace: "session/s", Profile: "main"}))
	must(t, s.HandlePut(ctx, Handle{Handle: "h2", Plugin: "p", Agent: "a", Session: "s", Namespace: "subagent/x", Profile: "subagent", Derived: true}))
	must(t, s.HandlePut(ctx, Handle{Handle: "h3", Plugin: "p", Agent: "gone", Derived: true}))
	must(t, s.HandlePut(ctx, Handle{Handle: "h4", Plugin: "p", Agent: "a", Derived: true, Expires: c.now().Add(time.Hour)}))
	if h, found, err := s.HandleFind(ctx, "p", "a", "s", "main"); err != nil || !found || h.Handle != "h1" {
		t.Fatalf("%v %v %v", h, found, err)
	}
	c.t = c.t.Add(23 * time.Hour)
	if _, found, err := s.HandleGet(ctx, "h4"); err != nil || found {
		t.Errorf("an expired handle is valid: %v", err)
	}
	must(t, s.HandleTouch(ctx, "h1"))
	c.t = c.t.Add(23 * time.Hour)
	n, err := s.HandleSweep(ctx, 24*time.Hour, func(agent string) bool { return agent == "a" })
	must(t, err)
	if n != 2 {
		t.Errorf("%d swept", n)
	}
	for handle, want := range map[string]bool{"h1": true, "h2": true, "h3": false, "h4": false} {
		if _, found, err := s.HandleGet(ctx, handle); err != nil || found != want {
			t.Errorf("%s: %v %v", handle, found, err)
		}
	}
	c.t = c.t.Add(2 * time.Hour)
	_, err = s.HandleSweep(ctx, 24*time.Hour, nil)
	must(t, err)
	if _, found, _ := s.HandleGet(ctx, "h1"); found {
		t.Error("an idle handle stayed")
	}
	if found, err := s.HandleDelete(ctx, "h2"); err != nil || !found {
		t.Errorf("delete: %v %v", found, err)
	}

	owned, err := s.SessionPut(ctx, Session{ID: "s1", Agent: "a", Data: []byte("d")})
	must(t, err)
	stolen, err := s.SessionPut(ctx, Session{ID: "s1", Agent: "b", Data: []byte("x")})
	must(t, err)
	again, err := s.SessionPut(ctx, Session{ID: "s1", Agent: "a"})
	must(t, err)
	v, found, err := s.SessionGet(ctx, "s1")
	must(t, err)
	if !owned || stolen || !again || !found || v.Agent != "a" || string(v.Data) != "d" {
		t.Errorf("%v %v %v %+v", owned, stolen, again, v)
	}
	c.t = c.t.Add(time.Hour)
	ids, err := s.SessionSweep(ctx, time.Minute)
	must(t, err)
	if fmt.Sprint(ids) != "[s1]" {
		t.Errorf("swept %v", ids)
	}
	must(t, s.DescribePut(ctx, "sha", []byte("answer")))
	if b, err := s.DescribeGet(ctx, "sha"); err != nil || string(b) != "answer" {
		t.Errorf("%q %v", b, err)
	}
	if b, err := s.DescribeGet(ctx, "other"); err != nil || b != nil {
		t.Errorf("%q %v", b, err)
	}
}

func TestInbox(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	changed := map[string]int{}
	s.OnInbox(func(session string) { changed[session]++ })
	first, added, err := s.InboxAppend(ctx, InboxItem{Session: "s", Kind: "k", Text: "one", DedupID: "d"})
	must(t, err)
	again, twice, err := s.InboxAppend(ctx, InboxItem{Session: "s", Kind: "k", Text: "two", DedupID: "d"})
	must(t, err)
	if !added || twice || again != first {
		t.Errorf("dedup: %v %v %d %d", added, twice, first, again)
	}
	_, added, err = s.InboxAppend(ctx, InboxItem{Session: "other", DedupID: "d"})
	must(t, err)
	if !added {
		t.Error("the id of another session counts")
	}
	for range 2 { // the second finds nothing to take out
		must(t, s.InboxRemove(ctx, "s", "d"))
	}
	must(t, s.InboxRemove(ctx, "s", ""))
	if changed["s"] != 2 || changed["other"] != 1 {
		t.Errorf("changes were told: %v", changed)
	}
	next, added, err := s.InboxAppend(ctx, InboxItem{Session: "s", Kind: "k", Text: "again", DedupID: "d"})
	must(t, err)
	if !added || next <= first {
		t.Errorf("the number %d after %d was given out twice", next, first)
	}
	_, _, err = s.InboxAppend(ctx, InboxItem{Session: "s", Data: make([]byte, MaxInboxItem+1)})
	wantRef(t, err, fault.StateTooLarge)
	for i := range MaxInbox + 5 {
		_, _, err := s.InboxAppend(ctx, InboxItem{Session: "s", Text: fmt.Sprint(i)})
		must(t, err)
	}
	items, err := s.InboxRead(ctx, "s", 0, 0)
	must(t, err)
	if len(items) != MaxInbox || items[0].Text != "5" {
		t.Errorf("%d items from %q on", len(items), items[0].Text)
	}
	rest, err := s.InboxRead(ctx, "s", items[len(items)-3].Seq, 10)
	must(t, err)
	if len(rest) != 2 {
		t.Errorf("%d after", len(rest))
	}
	tail, err := s.InboxTail(ctx, "s", 2)
	must(t, err)
	if len(tail) != 2 || tail[1].Text != items[len(items)-1].Text || tail[0].Seq != items[len(items)-2].Seq {
		t.Errorf("the tail: %+v", tail)
	}
	before := changed["other"]
	n, err := s.InboxPrune(ctx, time.Now().Add(time.Hour))
	must(t, err)
	if changed["other"] != before+1 {
		t.Errorf("the pruning was not told: %v", changed)
	}
	if n != MaxInbox+1 {
		t.Errorf("pruned %d", n)
	}
}
