package bridge

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/guard"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// guardTime is how long a tool that decides on a call may take.
const guardTime = 10 * time.Second

// guarded lets the server's argument guards look at a call, in their order. The
// first that refuses ends it before anything is sent. It gives the arguments to go
// on with.
func (s *server) guarded(ctx context.Context, call *sdk.Call, tool string, args json.RawMessage) (json.RawMessage, error) {
	ask := func(ctx context.Context, name string, question json.RawMessage) (json.RawMessage, error) {
		ctx, cancel := context.WithTimeout(ctx, guardTime)
		defer cancel()
		r, err := call.Host().CallTool(ctx, name, question, guardTime)
		switch {
		case err != nil:
			return nil, err
		case r.Error != nil:
			return nil, r.Error
		case r.IsError:
			return nil, sdk.Errorf(sdk.ExecutionFailed, "%s", clip(r.Text(), 500))
		case len(r.Structured) > 0:
			return r.Structured, nil
		}
		return json.RawMessage(r.Text()), nil
	}
	for _, g := range s.guards {
		if !g.For(tool) {
			continue
		}
		now, err := g.Check(ctx, guard.Call{Server: s.conf.Name, Tool: tool, Agent: call.Agent, Arguments: args}, ask)
		switch {
		case err == nil:
			args = now
		case ctx.Err() != nil:
			return nil, s.failure(ctx, "the guards of the tool "+tool, s.inForce().CallTimeout(&s.conf), ctx.Err())
		case g.Warn:
			s.log.Warn("a guard would refuse this call", "guard", g.Handler, "tool", tool, "reason", err, "call_id", call.ID)
		default:
			return nil, sdk.Errorf(sdk.InvalidArguments, "the call of %q on server %q is refused by its arg_guard %s and was not sent: %v", tool, s.conf.Name, g.Handler, err)
		}
	}
	return args, nil
}
