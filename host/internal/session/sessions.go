package session

import (
	"context"
	"crypto/rand"
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
)

const (
	// Idle is how long an unused handle, and the session it names, lives.
	Idle = 24 * time.Hour
	// maxOpen bounds the sessions held in memory, maxAgent those of one agent; the
	// longest unused goes first.
	maxOpen  = 10_000
	maxAgent = 2_000
	// maxKept bounds the sessions of one agent in the store, and trimEvery is after
	// how many new ones it is looked at.
	maxKept   = 10_000
	trimEvery = 500
	// maxRuns bounds the derived runs of one plugin that are not released.
	maxRuns = 1_000

	// defaultPrefix begins the id of an agent's default session.
	defaultPrefix = "default:"
)

// Default is the id of the session an agent is in when it names none.
func Default(agent string) string { return defaultPrefix + agent }

var idRule = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// Sessions owns all sessions and handles of a host.
type Sessions struct {
	db        *store.Store
	policy    *policy.Policy
	activated int

	mu    sync.Mutex
	open  map[string]*Session
	count map[string]int  // open ones by agent
	made  map[string]int  // since the last trim, by agent
	held  map[string]held // by handle
	turns weights
}

type held struct {
	plugin  string
	agent   string
	profile string
	expires time.Time // zero = it doesn't
	session *Session
}

// New makes the sessions of a host; activated is how many tools one session may
// have activated.
func New(db *store.Store, p *policy.Policy, activated int) *Sessions {
	return &Sessions{db: db, policy: p, activated: activated, open: map[string]*Session{},
		count: map[string]int{}, made: map[string]int{}, held: map[string]held{}, turns: weights{agent: map[string]int{}}}
}

// Open returns the agent's session id, making it when there is none; an empty id
// makes a fresh one. A session of another agent is unknown.
func (ss *Sessions) Open(ctx context.Context, agent *policy.Agent, id string) (*Session, error) {
	if id == "" {
		id = "s_" + rand.Text()[:16]
	}
	if s, err := ss.taken(agent, id); s != nil || err != nil {
		return s, err
	}
	if !idRule.MatchString(id) {
		return nil, fault.New(fault.BadArguments, "a session id has 1 to 128 letters, digits and . _ : -")
	}
	if whose, ok := strings.CutPrefix(id, defaultPrefix); ok && whose != agent.Name {
		return nil, unknown(id)
	}
	if whose, ok := strings.CutPrefix(id, patrolPrefix); ok && !strings.HasPrefix(whose, agent.Name+":") {
		return nil, unknown(id)
	}
	// Others are not held up while the store is asked.
	row, found, err := ss.db.SessionGet(ctx, id)
	if err != nil {
		return nil, err
	}
	if found && row.Agent != agent.Name {
		return nil, unknown(id)
	}
	owned, err := ss.db.SessionPut(ctx, store.Session{ID: id, Agent: agent.Name, CreatedAt: row.CreatedAt})
	if err != nil {
		return nil, err
	}
	if !owned {
		return nil, unknown(id)
	}
	if !found {
		if err := ss.trim(ctx, agent.Name); err != nil {
			return nil, err
		}
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s := ss.open[id]; s != nil && s.Agent == agent.Name { // another request was faster
		s.touch(time.Now())
		return s, nil
	}
	s := ss.add(id, agent.Name, "session/"+id)
	s.asked = found
	return s, nil
}

// taken is the open session id, an error when it is another agent's, or nothing.
func (ss *Sessions) taken(agent *policy.Agent, id string) (*Session, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.open[id]
	switch {
	case s == nil:
		return nil, nil
	case s.Agent != agent.Name:
		return nil, unknown(id)
	}
	s.touch(time.Now())
	return s, nil
}

// trim keeps an agent that opens session after session from filling the store.
func (ss *Sessions) trim(ctx context.Context, agent string) error {
	ss.mu.Lock()
	ss.made[agent]++
	due := ss.made[agent] >= trimEvery
	if due {
		ss.made[agent] = 0
	}
	ss.mu.Unlock()
	if !due {
		return nil
	}
	return ss.db.SessionTrim(ctx, agent, maxKept)
}

// Owns says whether the session, or run, is one of the agent's.
func (ss *Sessions) Owns(ctx context.Context, agent *policy.Agent, id string) bool {
	_, err := ss.Lookup(ctx, agent, id)
	return err == nil
}

// Lookup returns a session that is known, without making one.
func (ss *Sessions) Lookup(ctx context.Context, agent *policy.Agent, id string) (*Session, error) {
	if s, err := ss.taken(agent, id); s != nil || err != nil {
		return s, err
	}
	row, found, err := ss.db.SessionGet(ctx, id)
	if err != nil {
		return nil, err
	}
	if !found || row.Agent != agent.Name {
		return nil, unknown(id)
	}
	return ss.Open(ctx, agent, id)
}

func unknown(id string) error { return fault.New(fault.UnknownSession, "no session %q", id) }

// add holds a session in memory, making room by dropping the longest unused.
func (ss *Sessions) add(id, agent, namespace string) *Session {
	switch {
	case ss.count[agent] >= maxAgent:
		ss.drop(func(s *Session) bool { return s.Agent == agent })
	case len(ss.open) >= maxOpen:
		ss.drop(func(*Session) bool { return true })
	}
	s := &Session{ID: id, Agent: agent, Namespace: namespace, limit: ss.activated, handles: map[string]string{}, all: ss}
	s.touch(time.Now())
	ss.open[id] = s
	ss.count[agent]++
	return s
}

// drop lets the longest unused of some sessions go from memory.
func (ss *Sessions) drop(among func(*Session) bool) {
	var oldest *Session
	for _, s := range ss.open {
		if among(s) && (oldest == nil || s.used.Load() < oldest.used.Load()) {
			oldest = s
		}
	}
	if oldest == nil {
		return
	}
	ss.forget(oldest.ID)
	for h, x := range ss.held {
		if x.session == oldest {
			delete(ss.held, h)
		}
	}
}

func (ss *Sessions) forget(id string) {
	s := ss.open[id]
	if s == nil {
		return
	}
	delete(ss.open, id)
	ss.turns.add(s.Agent, -s.weight)
	s.weight = 0
	if ss.count[s.Agent]--; ss.count[s.Agent] <= 0 {
		delete(ss.count, s.Agent)
	}
}

// Handle is the durable handle by which plugin may act for (agent, session). It
// is minted once and then found again.
func (ss *Sessions) Handle(ctx context.Context, plugin string, agent *policy.Agent, s *Session) (string, error) {
	key := handleKey(plugin, agent)
	s.mu.Lock()
	h := s.handles[key]
	s.mu.Unlock()
	if h != "" {
		return h, nil
	}
	row, found, err := ss.db.HandleFind(ctx, plugin, agent.Name, s.ID, agent.Profile)
	if err != nil {
		return "", err
	}
	if !found {
		row = store.Handle{Handle: "h_" + rand.Text(), Plugin: plugin, Agent: agent.Name, Session: s.ID,
			Namespace: s.Namespace, Profile: agent.Profile, LastUsed: time.Now()}
		if err := ss.db.HandlePut(ctx, row); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	s.handles[key] = row.Handle
	s.mu.Unlock()
	ss.mu.Lock()
	ss.held[row.Handle] = held{plugin: plugin, agent: agent.Name, profile: agent.Profile, session: s}
	ss.mu.Unlock()
	return row.Handle, nil
}

// ByHandle finds what a handle of plugin names: the agent, as narrow as the
// handle's profile, and the session. The agent must still be in the config.
func (ss *Sessions) ByHandle(ctx context.Context, plugin, handle string) (*policy.Agent, *Session, error) {
	ss.mu.Lock()
	x, ok := ss.held[handle]
	if ok && !x.expires.IsZero() && time.Now().After(x.expires) {
		delete(ss.held, handle)
		ok = false // and the store says so too
	}
	ss.mu.Unlock()
	var row store.Handle
	if !ok {
		var found bool
		var err error
		if row, found, err = ss.db.HandleGet(ctx, handle); err != nil {
			return nil, nil, err
		}
		if !found || (!row.Derived && time.Since(row.LastUsed) > Idle) {
			return nil, nil, badHandle(plugin)
		}
		x = held{plugin: row.Plugin, agent: row.Agent, profile: row.Profile, expires: row.Expires}
	}
	if x.plugin != plugin {
		return nil, nil, badHandle(plugin)
	}
	if !ok {
		if err := ss.db.HandleTouch(ctx, handle); err != nil {
			return nil, nil, err
		}
		x.session = ss.restore(row)
		ss.mu.Lock()
		ss.held[handle] = x
		ss.mu.Unlock()
	}
	agent, err := ss.policy.Agent(x.agent)
	if err != nil {
		return nil, nil, err
	}
	x.session.touch(time.Now())
	return agent.Narrow(x.profile), x.session, nil
}

func badHandle(plugin string) error {
	return fault.New(fault.BadHandle, "the handle is not one of plugin %q, or has expired", plugin)
}

func (ss *Sessions) restore(row store.Handle) *Session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	id := row.Session
	if row.Derived {
		id = row.Handle
	}
	if s := ss.open[id]; s != nil {
		return s
	}
	return ss.add(id, row.Agent, row.Namespace)
}

// Touch notes in the store which handles are in use, so that a sweep of idle ones
// leaves them.
func (ss *Sessions) Touch(ctx context.Context) error {
	ss.mu.Lock()
	var used []string
	for handle, x := range ss.held {
		if x.session.usedSince(time.Now().Add(-Idle)) {
			used = append(used, handle)
		}
	}
	ss.mu.Unlock()
	var errs []error
	for _, handle := range used {
		errs = append(errs, ss.db.HandleTouch(ctx, handle))
	}
	return errors.Join(errs...)
}

// Derive mints a handle for a run of its own (subagent/{id}, wisp/{id},
// patrol/{task}) below an existing handle, with a profile no wider than it. What it
// remembers under this name is its plugin's and its agent's alone, whatever names
// others choose. It lives until Release, or for ttl when that is not zero.
func (ss *Sessions) Derive(ctx context.Context, plugin, handle, namespace, profile string, ttl time.Duration) (string, error) {
	agent, _, err := ss.ByHandle(ctx, plugin, handle)
	if err != nil {
		return "", err
	}
	if !namespaceRule.MatchString(namespace) {
		return "", fault.New(fault.BadHandle, "a run's namespace is subagent/ID, wisp/ID or patrol/TASK, not %q", namespace)
	}
	row := store.Handle{Handle: "r_" + rand.Text(), Plugin: plugin, Agent: agent.Name, Namespace: namespace + "@" + plugin + "@" + agent.Name,
		Profile: narrower(agent.Profile, profile), Derived: true, LastUsed: time.Now()}
	row.Session = row.Handle
	if ttl > 0 {
		row.Expires = row.LastUsed.Add(ttl)
	}
	admitted, err := ss.db.HandleDerive(ctx, row, maxRuns)
	if err != nil {
		return "", err
	}
	if !admitted {
		return "", fault.New(fault.RunLimit, "plugin %q has %d derived runs open and releases none", plugin, maxRuns)
	}
	return row.Handle, nil
}

// patrolPrefix begins the id of the session in which an agent is told what a
// scheduled task of its own found due.
const patrolPrefix = "patrol:"

// Inbox is the session in whose inbox something for a session is put. For a run
// below patrol/TASK, which ends with what it was derived for, that is the session
// patrol:AGENT:TASK of its agent, which stays and which the agent can open.
func (ss *Sessions) Inbox(ctx context.Context, agent *policy.Agent, s *Session) (*Session, error) {
	task, ok := strings.CutPrefix(s.Namespace, "patrol/")
	if !ok {
		return s, nil
	}
	task, _, _ = strings.Cut(task, "@")
	return ss.Open(ctx, agent, patrolPrefix+agent.Name+":"+task)
}

// Release ends a derived run.
func (ss *Sessions) Release(ctx context.Context, plugin, handle string) error {
	if _, _, err := ss.ByHandle(ctx, plugin, handle); err != nil {
		return err
	}
	ss.mu.Lock()
	delete(ss.held, handle)
	ss.forget(handle)
	ss.mu.Unlock()
	_, err := ss.db.HandleDelete(ctx, handle)
	return err
}

var namespaceRule = regexp.MustCompile(`^(subagent|wisp|patrol)/[A-Za-z0-9._-]{1,100}$`)

// narrower keeps a derived run from gaining: only the main profile may choose.
func narrower(have, want string) string {
	if have == "main" || have == "" {
		if want == "" {
			return "subagent"
		}
		return want
	}
	return have
}
