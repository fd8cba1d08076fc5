package question

import (
	"context"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Start takes up what an earlier host left: calls that were running are told as
// interrupted, answered ones go on. Then it watches expiry until Close.
func (d *Desk) Start(ctx context.Context) error {
	running, err := d.Store.ListFrozen(ctx, store.Running)
	if err != nil {
		return err
	}
	for _, f := range running {
		if _, err := d.Store.UpdateFrozen(ctx, f.ID, store.Running, store.Closed, store.FrozenChange{}); err != nil {
			return err
		}
		d.notice(ctx, f.ID, f.Agent, f.Session, "the host stopped while "+f.Tool+" was running after its questions were answered; call it again if it is still wanted")
	}
	asked, err := d.Store.InterruptQuestions(ctx, "")
	if err != nil {
		return err
	}
	for _, q := range asked {
		d.told(ctx, q.Session, q.ID)
		d.notice(ctx, q.ID, q.Agent, q.Session, "a question of "+q.Tool+" was interrupted by a restart; call it again if it is still wanted")
	}
	waiting, err := d.Store.ListFrozen(ctx, store.Waiting)
	if err != nil {
		return err
	}
	d.mu.Lock()
	for _, f := range waiting {
		if err := d.settled(ctx, f.ID); err != nil {
			d.mu.Unlock()
			return err
		}
	}
	d.mu.Unlock()
	d.wg.Add(1)
	go func() {
		defer d.wg.Done()
		d.watch()
	}()
	return nil
}

// Close stops the desk; what waits stays in the store.
func (d *Desk) Close() {
	d.cancel()
	d.wg.Wait()
}

func (d *Desk) watch() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, end := context.WithTimeout(d.ctx, 10*time.Second)
		if err := d.Expire(ctx); err != nil && d.ctx.Err() == nil {
			d.Log.Warn("open questions could not be looked through", "error", err)
		}
		end()
	}
}

// Expire closes the questions whose time is over.
func (d *Desk) Expire(ctx context.Context) error {
	expired, err := d.Store.ExpireQuestions(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range expired {
		d.publish("question.expired", q)
		if ask := d.asks[q.ID]; ask != nil {
			ask <- &pluginv1.Answer{Action: "cancel", Reason: "nobody answered in time"}
			delete(d.asks, q.ID)
		}
		if q.CallID == "" {
			d.told(ctx, q.Session, q.ID)
			continue
		}
		if err := d.settled(ctx, q.CallID); err != nil {
			return err
		}
	}
	return nil
}

// Ask is a blocking question of a handler that can't be re-entered. It returns
// when the question is answered, expired, or ctx ends; then it is closed as
// interrupted.
func (d *Desk) Ask(ctx context.Context, call store.FrozenCall, r *pluginv1.InputRequest, asked func(store.Question)) (*pluginv1.Answer, string, error) {
	now := d.Now().UTC()
	q, err := question(call, r, now)
	if err != nil {
		return nil, "", err
	}
	q.CallID = "" // it waits inside its handler and ends with the process
	ch := make(chan *pluginv1.Answer, 1)
	d.mu.Lock()
	if err = d.admit(ctx, call, 1); err == nil {
		err = d.Store.InsertQuestion(ctx, q)
	}
	if err == nil {
		d.asks[q.ID] = ch
		d.publish("question.open", q)
	}
	d.mu.Unlock()
	if err != nil {
		return nil, "", err
	}
	if asked != nil {
		asked(q)
	}
	select {
	case a := <-ch:
		return a, q.ID, nil
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.asks, q.ID)
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	q.Outcome = "interrupted"
	if _, err := d.Store.AnswerQuestion(end, q.ID, store.Answer{Outcome: q.Outcome, AnsweredBy: "host"}); err != nil {
		d.Log.Warn("an interrupted question could not be closed", "question", q.ID, "error", err)
	}
	d.told(end, q.Session, q.ID)
	d.publish("question.answered", q)
	return nil, q.ID, context.Cause(ctx)
}

// notice leaves word in the session's inbox.
func (d *Desk) notice(ctx context.Context, about, agent, session, text string) {
	_, _, err := d.Store.InboxAppend(ctx, store.InboxItem{Session: session, Agent: agent, Kind: "notice", Text: text, DedupID: about})
	if err != nil {
		d.Log.Warn("a notice could not be left", "session", session, "error", err)
	}
}

// told takes word out of the session's inbox that is told, or settled, otherwise:
// of a result that its caller has, of a question that is closed.
func (d *Desk) told(ctx context.Context, session, about string) {
	if err := d.Store.InboxRemove(ctx, session, about); err != nil {
		d.Log.Warn("an inbox entry could not be taken out", "session", session, "error", err)
	}
}

// List shows questions; agents see their own, an approver all.
func (d *Desk) List(ctx context.Context, by By, open bool) ([]store.Question, error) {
	f := store.QuestionFilter{Open: open}
	if !by.Approver {
		f.Agent = by.Name
	}
	return d.Store.ListQuestions(ctx, f)
}

// Get shows one question to whoever may see it.
func (d *Desk) Get(ctx context.Context, by By, id string) (store.Question, error) {
	q, found, err := d.Store.GetQuestion(ctx, id)
	if err == nil && (!found || (!by.Approver && q.Agent != by.Name)) {
		err = fault.New(fault.UnknownQuestion, "no question %.40q", id)
	}
	return q, err
}

// Call is the frozen call a question belongs to, with the arguments whole, for
// whoever may see the question.
func (d *Desk) Call(ctx context.Context, by By, id string) (store.FrozenCall, bool, error) {
	q, err := d.Get(ctx, by, id)
	if err != nil || q.CallID == "" {
		return store.FrozenCall{}, false, err
	}
	return d.Store.GetFrozen(ctx, q.CallID)
}
