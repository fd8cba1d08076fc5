package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// events tells what happens, beginning with the kept tail. On TCP it is a stream of
// server-sent events that goes on; on the control socket JSON lines, which go on
// with follow=true.
func (a *API) events(w http.ResponseWriter, r *http.Request, who who) {
	after, err := number(r, "after")
	if id := r.Header.Get("Last-Event-ID"); id != "" && err == nil {
		if after, err = strconv.ParseUint(id, 10, 64); err != nil {
			err = fault.New(fault.BadArguments, "Last-Event-ID is a number, not %.40q", id)
		}
	}
	if err != nil {
		fail(w, err)
		return
	}
	kinds := []string{eventStream, ndjson}
	if who.operator {
		kinds = []string{ndjson, eventStream}
	}
	kind, err := wants(r, kinds...)
	if err != nil {
		fail(w, err)
		return
	}
	follow, err := flag(r, "follow", kind == eventStream)
	if err != nil {
		fail(w, err)
		return
	}
	if err := who.hand.lasts(); err != nil {
		fail(w, err)
		return
	}
	ctx, out := r.Context(), open(w, kind)
	out.begin()
	var tail []event.Event
	var next <-chan event.Event
	if follow {
		var end func()
		tail, next, end = a.Events.Follow(after)
		defer end()
	} else {
		tail = a.Events.Tail(after)
	}
	for _, e := range tail {
		if a.concerns(ctx, who, e) {
			out.send(e.Type, e.Seq, e)
		}
	}
	alive := time.NewTicker(beatTime)
	defer alive.Stop()
	for next != nil {
		select {
		case e := <-next:
			if a.concerns(ctx, who, e) {
				out.send(e.Type, e.Seq, e)
			}
		case <-alive.C:
			out.beat()
		case <-ctx.Done():
			return
		}
	}
}

// concerns says whether a caller may hear of an event: its own sessions', or with
// the power to approve everyone's.
func (a *API) concerns(ctx context.Context, who who, e event.Event) bool {
	if who.all() {
		return true
	}
	if agent := gjson.GetBytes(e.Data, "agent"); agent.Exists() && agent.Str != who.agent.Name {
		return false
	}
	return e.Session != "" && a.Sessions.Owns(ctx, who.agent, e.Session)
}
