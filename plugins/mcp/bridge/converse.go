package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/elicit"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// exchange is one request to a server with all that is needed to go on with it
// when the server asks something first.
type exchange struct {
	method   string
	params   json.RawMessage
	look     func(*view) (*downstream.Tool, error)
	progress downstream.Progress
	asking   *asking
	back     bool // questions may be handed back to whoever called
	tasks    bool // the server may make a task of it, if it can
	// extension tells the server that tasks are known here; of the newer era.
	extension bool
	modern    bool             // found out when it was sent
	created   *downstream.Task // the answer is a task
	save      bool             // the result is to become a file
	free      func()           // gives back the place of a task that was created

	responses map[string]json.RawMessage // answers of the round before
	state     json.RawMessage            // the server's, of the round before
	round     int
}

// converse sends a request until the server answers it, and answers what the
// server asks in between. A question that is handed back ends it with *handedBack.
func (s *server) converse(ctx context.Context, x *exchange) (json.RawMessage, error) {
	ctx, done := s.during(ctx, x.asking)
	defer done()
	for {
		params, err := downstream.WithInput(x.params, x.responses, x.state)
		if err != nil {
			return nil, err
		}
		raw, input, err := s.request(ctx, x, params)
		if err != nil {
			return nil, err
		}
		if input == nil {
			return raw, nil
		}
		if x.round++; x.round > maxInputRounds {
			return nil, sdk.Errorf(sdk.ExecutionFailed, "server %q asked %d times during %s and gave no result", s.conf.Name, x.round-1, x.asking.what)
		}
		if err := s.round(ctx, x, input); err != nil {
			return nil, err
		}
	}
}

// round answers what a server asks by a result.
func (s *server) round(ctx context.Context, x *exchange, input *downstream.Input) error {
	x.responses, x.state = map[string]json.RawMessage{}, input.State
	if len(input.Keys) == 0 {
		// It only wants to be asked again, later.
		select {
		case <-time.After(min(time.Duration(x.round)*250*time.Millisecond, 2*time.Second)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	back := &handedBack{}
	for _, key := range input.Keys {
		r := input.Requests[key]
		if r.Method != downstream.Elicit {
			return sdk.Errorf(sdk.ExecutionFailed, "server %q asked for %s during %s, which this client does not have, as it said", s.conf.Name, clip(r.Method, 60), x.asking.what)
		}
		mayBack := x.back && !x.asking.repeated && key != "" && len(key) <= 128
		a := s.answer(ctx, []*asking{x.asking}, r.Params, mayBack)
		if a.back != nil {
			a.back.ID = key
			back.add(key, r.Params, *a.back)
			continue
		}
		x.responses[key] = a.response()
	}
	if len(back.requests) == 0 {
		return nil
	}
	err := s.b.handBack(ctx, s, x, back)
	if err == nil {
		return back
	}
	// It can't be kept open: the server hears so at once, and so does the agent.
	s.log.Info("a question is not handed back", "reason", err)
	for _, r := range back.requests {
		x.asking.record(elicit.Asked{Message: r.Message, Action: "decline", Why: err.Error()})
		x.responses[r.ID] = answered{action: "decline"}.response()
	}
	return nil
}

// request sends a request over a leased link. It is sent again, once and over a
// new connection, when it provably did not run or may run twice, and nothing the
// server asked was declined.
func (s *server) request(ctx context.Context, x *exchange, params json.RawMessage) (json.RawMessage, *downstream.Input, error) {
	for again := false; ; again = true {
		l, err := s.acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		raw, input, tool, err := s.over(ctx, l, x, params)
		if err == nil {
			return raw, input, nil
		}
		var auth *downstream.AuthError
		if errors.As(err, &auth) {
			if refusal(err) != nil {
				l.server.deny(l, auth)
			}
			return nil, nil, err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			l.server.doubt(l)
		}
		if !downstream.Broken(err) {
			return nil, nil, err
		}
		l.server.renew(l)
		if again {
			return nil, nil, fmt.Errorf("%w (%w)", err, errRepeated)
		}
		repeatable := x.method != "tools/call" || (tool != nil && tool.Repeatable)
		if ctx.Err() != nil || x.asking.refused() || (!downstream.Unsent(err) && !repeatable) {
			return nil, nil, err
		}
		s.log.Info("once more over a new connection", "method", x.method, "reason", err)
		x.asking.mu.Lock()
		x.asking.repeated = true
		x.asking.mu.Unlock()
		if err := l.server.left(ctx, l); err != nil {
			return nil, nil, err
		}
	}
}

// errRepeated marks the failure of a request that was sent twice.
var errRepeated = errors.New("it was sent again, over a new connection")

func (s *server) over(ctx context.Context, l *link, x *exchange, params json.RawMessage) (json.RawMessage, *downstream.Input, *downstream.Tool, error) {
	defer l.release()
	var tool *downstream.Tool
	if x.look != nil {
		var err error
		if tool, err = x.look(l.view.Load()); err != nil {
			return nil, nil, nil, err
		}
	}
	x.modern, x.created = l.conn.Modern(), nil
	how := downstream.Sending{Tool: tool, Progress: x.progress, Tasks: x.extension}
	task := x.tasks && l.conn.MayTask(tool)
	if task {
		free, err := s.b.tasks.reserve(x.asking.session, s.inForce())
		if err != nil {
			return nil, nil, tool, err
		}
		x.free = free
		if how.Tasks = true; !x.modern {
			params = with(params, "task", mustJSON(map[string]int64{"ttl": s.taskTimeout().Milliseconds()}))
		}
	}
	raw, err := l.conn.Send(ctx, x.method, params, how)
	if task && err == nil {
		x.created = l.conn.TaskCreated(raw)
	}
	if task && x.created == nil {
		x.free() // else a task takes the place
	}
	if err != nil {
		return nil, nil, tool, err
	}
	input, err := l.conn.NeedsInput(raw)
	if err != nil {
		err = sdk.Errorf(sdk.ExecutionFailed, "server %q asks during %s what can't be answered: %v", s.conf.Name, x.asking.what, err)
	}
	return raw, input, tool, err
}

// handedBack ends a call whose question goes to whoever made it.
type handedBack struct {
	requests []sdk.InputRequest
	params   map[string]json.RawMessage // of the requests, as the server sent them
	result   sdk.Result
}

func (h *handedBack) Error() string {
	return fmt.Sprintf("%d questions were handed back", len(h.requests))
}

func (h *handedBack) add(key string, params json.RawMessage, r sdk.InputRequest) {
	if h.params == nil {
		h.params = map[string]json.RawMessage{}
	}
	h.params[key] = params
	h.requests = append(h.requests, r)
}
