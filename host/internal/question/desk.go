package question

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

const (
	// PermitTTL is how long an approval stays good for the repeated call.
	PermitTTL = 10 * time.Minute
	// resultTTL is how long a result waits to be fetched.
	resultTTL   = time.Hour
	defaultTTL  = 10 * time.Minute
	maxTTL      = 24 * time.Hour
	maxRequests = 16
	maxText     = 16 << 10
)

// Resume runs a frozen call whose questions are answered when no caller waits.
type Resume func(ctx context.Context, frozen store.FrozenCall, input map[string]*pluginv1.Answer) *pluginv1.Result

// Options configure a Desk.
type Options struct {
	Store  *store.Store
	Events *event.Bus
	Log    hclog.Logger
	// PerSession, PerAgent and Total bound the open questions; zero is 5, 20 and 50.
	PerSession, PerAgent, Total int
	Now                         func() time.Time // nil: time.Now
}

// Desk owns all frozen calls. Create it with New, set Resume, then Start it.
type Desk struct {
	Options
	Resume Resume

	mu      sync.Mutex
	waiters map[string]*waiter   // frozen call → its waiting caller
	running map[string]chan bool // frozen call resumed by the host → closed when done
	asks    map[string]chan *pluginv1.Answer
	wg      sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc
}

// New makes a desk.
func New(o Options) *Desk {
	if o.PerSession == 0 {
		o.PerSession = 5
	}
	if o.PerAgent == 0 {
		o.PerAgent = 20
	}
	if o.Total == 0 {
		o.Total = 50
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Desk{Options: o, waiters: map[string]*waiter{}, running: map[string]chan bool{},
		asks: map[string]chan *pluginv1.Answer{}, ctx: ctx, cancel: cancel}
}

// Hash is how a repeated call is known again.
func Hash(arguments []byte) string {
	sum := sha256.Sum256(arguments)
	return hex.EncodeToString(sum[:])
}

// NewCall makes the frozen form of a call; Park stores it.
func NewCall(agent, session, run, modelTier, tool, plugin string, arguments []byte) store.FrozenCall {
	return store.FrozenCall{ID: "f_" + rand.Text(), Agent: agent, Session: session, Run: run, ModelTier: modelTier,
		Tool: tool, Plugin: plugin, ArgsHash: Hash(arguments), Arguments: arguments}
}

// Park stores a call and what it asks, and registers the caller as waiting.
func (d *Desk) Park(ctx context.Context, frozen store.FrozenCall, requests []*pluginv1.InputRequest) (*Parked, error) {
	if len(requests) == 0 || len(requests) > maxRequests || len(frozen.State) > wire.MaxState {
		return nil, fault.New(fault.PluginProtocol, "plugin %q asks %d things with %d bytes of state; 1 to %d and at most %d are admitted",
			frozen.Plugin, len(requests), len(frozen.State), maxRequests, wire.MaxState)
	}
	now := d.Now().UTC()
	frozen.Status, frozen.CreatedAt, frozen.ExpiresAt = store.Waiting, now, now
	questions := make([]store.Question, 0, len(requests))
	seen := map[string]bool{}
	for _, r := range requests {
		q, err := question(frozen, r, now)
		if err != nil {
			return nil, err
		}
		if seen[q.RequestID] {
			return nil, fault.New(fault.PluginProtocol, "plugin %q asks twice under the id %.80q", frozen.Plugin, q.RequestID)
		}
		seen[q.RequestID] = true
		if q.ExpiresAt.After(frozen.ExpiresAt) {
			frozen.ExpiresAt = q.ExpiresAt
		}
		questions = append(questions, q)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.admit(ctx, frozen, len(requests)); err != nil {
		return nil, err
	}
	if err := d.Store.InsertFrozen(ctx, frozen, questions); err != nil {
		return nil, err
	}
	for _, q := range questions {
		d.publish("question.open", q)
	}
	return d.wait(frozen, questions), nil
}

// admit keeps the number of open questions bounded. d.mu is held.
func (d *Desk) admit(ctx context.Context, f store.FrozenCall, more int) error {
	for _, b := range []struct {
		of     string
		filter store.QuestionFilter
		most   int
	}{
		{"in this session", store.QuestionFilter{Open: true, Session: f.Session}, d.PerSession},
		{"of this agent", store.QuestionFilter{Open: true, Agent: f.Agent}, d.PerAgent},
		{"in all", store.QuestionFilter{Open: true}, d.Total},
	} {
		open, err := d.Store.CountQuestions(ctx, b.filter)
		if err != nil {
			return err
		}
		if open+more > b.most {
			return fault.New(fault.QuestionLimit, "%d questions are open %s and %d more are asked; at most %d may be", open, b.of, more, b.most)
		}
	}
	return nil
}

// question checks what a plugin asks. Everything in it is outside text.
func question(frozen store.FrozenCall, r *pluginv1.InputRequest, now time.Time) (store.Question, error) {
	ttl := time.Duration(r.TtlMs) * time.Millisecond
	if ttl <= 0 {
		ttl = defaultTTL
	}
	q := store.Question{
		ID: "q_" + strings.ToLower(rand.Text()[:12]), CallID: frozen.ID, RequestID: r.Id, Kind: r.Kind,
		Agent: frozen.Agent, Session: frozen.Session, Tool: frozen.Tool, Plugin: frozen.Plugin,
		Message: r.Message, Schema: r.Schema, URL: r.Url, ModelRequest: r.ModelRequest, Audience: r.Audience,
		NoFallback: r.NoFallback, Decision: r.Decision, CreatedAt: now, ExpiresAt: now.Add(min(ttl, maxTTL)),
	}
	switch r.Kind {
	case "form", "url", "approval", "model", "roots":
	default:
		return q, fault.New(fault.PluginProtocol, "plugin %q asks a question of unknown kind %.40q", frozen.Plugin, r.Kind)
	}
	if r.Id == "" || len(r.Id) > 128 || len(r.Message) > maxText || len(r.Schema) > maxText || len(r.Url) > 2048 {
		return q, fault.New(fault.PluginProtocol, "plugin %q asks a question without an id, or too long", frozen.Plugin)
	}
	return q, nil
}

func (d *Desk) publish(kind string, q store.Question) {
	if d.Events == nil {
		return
	}
	d.Events.Publish(event.Event{Type: kind, Session: q.Session, CallID: q.CallID}, map[string]string{
		"id": q.ID, "kind": q.Kind, "tool": q.Tool, "agent": q.Agent, "outcome": q.Outcome})
}
