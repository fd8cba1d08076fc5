package bridge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	recentSessions = 500
	recentCalls    = 30
	recentArgs     = 300 // characters kept of a call's arguments
	recentAge      = time.Hour
	recentShown    = 5
)

// recent is the calls that succeeded lately, by session: where a field's value may
// be found when a server asks for it.
type recent struct {
	mu    sync.Mutex
	calls map[string][]succeeded
	order []string // of sessions, oldest first
}

type succeeded struct {
	at         time.Time
	name, args string
}

func (r *recent) note(session, name string, args json.RawMessage) {
	if session == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[string][]succeeded{}
	}
	if _, known := r.calls[session]; !known {
		r.order = append(r.order, session)
		if len(r.order) > recentSessions {
			delete(r.calls, r.order[0])
			r.order = r.order[1:]
		}
	}
	now := r.calls[session]
	if len(now) >= recentCalls {
		now = slices.Delete(now, 0, len(now)-recentCalls+1)
	}
	r.calls[session] = append(now, succeeded{time.Now(), name, clip(string(args[:min(len(args), recentArgs+1)]), recentArgs)})
}

// about gives calls of the session that have to do with a field, the newest first.
func (r *recent) about(session, field string) (out []string) {
	root := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(field, "_id"), "Id"))
	if len(root) < 2 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range slices.Backward(r.calls[session]) {
		if len(out) < recentShown && time.Since(c.at) < recentAge && strings.Contains(strings.ToLower(c.name+" "+c.args), root) {
			out = append(out, c.name+" "+c.args)
		}
	}
	return out
}

// enrich tells, beside a server's complaint about a field nobody here knows, what
// the field is and where its value may be found.
func (s *server) enrich(r *sdk.Result, session string, tool *downstream.Tool, field string) {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(tool.InputSchema, &schema) // the field was found in it
	text := fmt.Sprintf("[mcp-recovery] Nobody here knows %q. What the tool says of it: %s.", field, clip(string(schema.Properties[field]), 1000))
	for sentence := range strings.SplitSeq(tool.Description, ". ") {
		if strings.Contains(strings.ToLower(sentence), strings.ToLower(field)) {
			text += " " + clip(strings.TrimSpace(sentence), 300) + "."
			break
		}
	}
	if calls := s.b.recent.about(session, field); len(calls) > 0 {
		text += "\nEarlier calls that may have had it:\n- " + strings.Join(calls, "\n- ")
	}
	r.IsError = true
	r.Content = append(r.Content, sdk.Text(text))
}
