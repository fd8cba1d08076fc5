package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/guard"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/hide"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
)

// States of a server.
const (
	stateWaiting    = "waiting"
	stateConnecting = "connecting"
	stateReady      = "ready"
	stateFailed     = "failed"
	stateAuth       = "auth_required"
	stateRefused    = "refused"
	stateStopped    = "stopped"
)

const (
	firstBackoff = 250 * time.Millisecond
	// settledAfter is how long a connection must have lived for its end to be news.
	settledAfter = 10 * time.Second
	// debounce gathers notices of changes into one look.
	debounce = 500 * time.Millisecond
	// maxDebounce is what lies between two looks at a server that changes all the time,
	// and churning from where on its status says so.
	maxDebounce = 30 * time.Second
	churning    = 4 * time.Second
	// pingTime is how long a server of which a request had no answer has for a ping.
	pingTime = 3 * time.Second
	// maxTouched is how many resources that changed the host is told of at once.
	maxTouched = 1000
)

// server is one configured server. Its owner goroutine is run.
type server struct {
	b        *Bridge
	conf     settings.Server
	settings atomic.Pointer[settings.Settings] // those it is under; nil = those in force
	agent    bool                              // registered by an agent
	id       string
	log      *slog.Logger
	hide     *hide.Values // its own secrets
	allow    func(netip.AddrPort) error
	guards   []*guard.Guard

	newest  atomic.Pointer[view]
	full    atomic.Pointer[downstream.Surface] // what it is a view of
	written atomic.Pointer[summarized]
	wake    chan struct{} // somebody wants a connection now
	changed chan struct{} // the server said that its offer changed
	updated chan struct{} // a resource changed
	renewed chan *link    // this link is of no more use
	doubted chan *link    // a request over this link had no answer in its time
	retuned chan struct{} // what stands beside the servers' blocks changed
	quit    chan struct{}
	stop    sync.Once
	owner   sync.WaitGroup
	denied  atomic.Pointer[downstream.AuthError] // its credentials were refused while it was connected
	// borrowed says that what is offered is what another server of its name had.
	borrowed atomic.Bool

	mu     sync.Mutex
	link   *link
	state  string
	reason error
	mended string // why and when a connection that looked well was made anew
	next   time.Time
	// attempts counts those that ended; change is closed at the next change of
	// anything here.
	attempts int
	change   chan struct{}
	known    downstream.Known // the owner's alone
	churn    time.Duration    // between looks at a server that changes all the time; 0 = it does not
	touched  map[string]bool  // resources that changed since the host was told

	askMu  sync.Mutex
	asking map[*asking]bool // requests that run, to which questions may belong
}

func newServer(b *Bridge, conf settings.Server, agent bool) *server {
	secrets := hide.New(secretsOf(&conf)...)
	s := &server{b: b, conf: conf, agent: agent, id: identity(&conf), hide: secrets,
		log:  slog.New(hide.Log(b.plugin.Logger().Handler(), secrets)).With("server", conf.Name),
		wake: make(chan struct{}, 1), changed: make(chan struct{}, 1), updated: make(chan struct{}, 1), renewed: make(chan *link, 1), doubted: make(chan *link, 1), quit: make(chan struct{}), retuned: make(chan struct{}, 1),
		state: stateWaiting, change: make(chan struct{})}
	if agent {
		s.allow = b.mayDial(conf.URL, s.inForce)
	}
	s.guards, _ = conf.Guards() // Refused tells the error
	if why := conf.Refused(b.plugin.Facts().Granted); why != "" {
		s.state, s.reason, s.attempts = stateRefused, errors.New(why), 1
	}
	return s
}

// secretsOf are the values of a server's settings that nothing said of it repeats:
// what is in env and headers, its credentials, and the query of its address.
func secretsOf(c *settings.Server) []string {
	out := append(slices.Collect(maps.Values(c.Env)), slices.Collect(maps.Values(c.Headers))...)
	if c.Auth != nil {
		out = append(out, c.Auth.Bearer)
	}
	if u, err := url.Parse(c.URL); err == nil {
		for _, values := range u.Query() {
			out = append(out, values...)
		}
	}
	slices.Sort(out)
	return out
}

func (s *server) set() string { return "server " + strings.ToLower(s.conf.Name) }

func (s *server) inForce() *settings.Settings {
	if c := s.settings.Load(); c != nil {
		return c
	}
	return s.b.conf.Get()
}

// start begins the owner's work, once.
func (s *server) start(ctx context.Context) {
	if s.status().State == stateRefused {
		s.log.Warn("server is not connected", "reason", s.reason)
		return
	}
	s.owner.Go(func() { s.run(ctx) })
}

// halt ends the owner's work and waits for it. Leased links live on.
func (s *server) halt() {
	s.stop.Do(func() { close(s.quit) })
	s.owner.Wait()
}

func (s *server) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.end()
	s.owner.Go(func() {
		select {
		case <-s.quit:
			cancel()
		case <-ctx.Done():
		}
	})
	s.known = s.remembered(ctx)
	failures := 0
	for ctx.Err() == nil {
		l, err := s.connect(ctx)
		if err == nil {
			began := time.Now()
			s.serve(ctx, l)
			if auth := s.denied.Load(); auth != nil {
				s.failed(ctx, auth)
				<-ctx.Done() // as below
				return
			}
			if time.Since(began) > settledAfter {
				failures = 0
			}
			failures++
			if failures == 1 {
				continue // what worked is mended at once
			}
		} else {
			failures++
		}
		var auth *downstream.AuthError
		if errors.As(err, &auth) {
			<-ctx.Done() // only other settings can help
			return
		}
		s.pause(ctx, failures)
	}
}

// pause waits before the next attempt. Somebody who wants a connection cuts it
// short, though not to nothing when it fails again and again.
func (s *server) pause(ctx context.Context, failures int) {
	wait := firstBackoff << min(failures-1, 20)
	if most := s.inForce().ReconnectSweep.Std(); wait > most || wait <= 0 {
		wait = most
	}
	wait += time.Duration(rand.Int64N(int64(wait)/4 + 1))
	s.update(func() { s.next = time.Now().Add(wait) })
	if failures > s.inForce().ConnectRetries+1 {
		select {
		case <-time.After(min(time.Second, wait)):
		case <-ctx.Done():
		}
	}
	select {
	case <-ctx.Done():
	case <-s.wake:
	case <-time.After(time.Until(s.nextAttempt())):
	}
}

func (s *server) nextAttempt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// connect makes one attempt and publishes what came of it.
func (s *server) connect(ctx context.Context) (*link, error) {
	s.update(func() { s.state = stateConnecting })
	select {
	case <-s.wake: // this attempt is the answer
	default:
	}
	limit := s.inForce().ConnectTime(&s.conf)
	try, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := downstream.Connect(try, s.target(), downstream.Events{
		Changed:         func(downstream.Change) { poke(s.changed) },
		ResourceUpdated: s.touch,
		Asked:           s.onConnection,
	})
	var surface *downstream.Surface
	if err == nil {
		if surface, err = conn.List(try, nil); err != nil {
			go conn.Close() // a server that hangs may take its time
		}
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && try.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("not ready within connect_timeout %s", limit)
		}
		s.failed(ctx, err)
		return nil, err
	}
	s.remember(ctx, conn.Known)
	s.borrowed.Store(false)
	l := &link{server: s, conn: conn}
	l.view.Store(s.publish(surface))
	s.up(l)
	s.keep(surface)
	s.summarize(ctx, &conn.Info, l.view.Load())
	return l, nil
}

// update changes what others look at, and tells them.
func (s *server) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.change)
	s.change = make(chan struct{})
}

// end marks the owner's end, so that nobody waits for it.
func (s *server) end() {
	s.update(func() {
		if s.state != stateAuth {
			s.state = stateStopped
		}
	})
}

func (s *server) tried() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts > 0
}

// status is a server as others see it.
type status struct {
	State  string
	Reason string
	Note   string
	Next   time.Time
}

func (s *server) status() status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := status{State: s.state, Next: s.next}
	if s.reason != nil && s.state != stateReady {
		st.Reason = s.reason.Error()
	}
	if s.link != nil {
		if n := s.link.conn.Noise(); n.Lines > 0 {
			st.Note = fmt.Sprintf("%d lines on stdout that are no messages, the first: %s", n.Lines, n.First)
		}
		if s.link.conn.Slowed() > 0 {
			st.Note = strings.TrimPrefix(st.Note+"; it has sent more than is read of it, and had to wait", "; ")
		}
		if s.mended != "" {
			st.Note = strings.TrimPrefix(st.Note+"; "+s.mended, "; ")
		}
		if s.churn > 0 {
			st.Note = strings.TrimPrefix(fmt.Sprintf("%s; it says again and again that its offer changed, and is looked at every %s", st.Note, s.churn), "; ")
		}
		if notes := s.link.view.Load().surface.Notes; len(notes) > 0 {
			st.Note = strings.TrimPrefix(st.Note+"; "+strings.Join(notes[:min(len(notes), 3)], "; "), "; ")
			if more := len(notes) - 3; more > 0 {
				st.Note += fmt.Sprintf("; and %d more like these, in the log", more)
			}
		}
		st.Note = s.hide.Text(st.Note)
	}
	return st
}

// target is where the server is, from its settings.
func (s *server) target() downstream.Target {
	c := s.inForce()
	facts := s.b.plugin.Facts()
	headers := map[string]string{}
	for k, v := range s.conf.Headers {
		if v != "" {
			headers[k] = v
		}
	}
	if a := s.conf.Auth; a != nil && a.Bearer != "" {
		for k := range headers {
			if strings.EqualFold(k, "Authorization") {
				delete(headers, k)
			}
		}
		headers["Authorization"] = "Bearer " + a.Bearer
	}
	transport := s.conf.Transport
	if transport == "streamable-http" {
		transport = downstream.HTTP
	}
	t := downstream.Target{
		Name: s.conf.Name, Transport: transport, Known: s.known, URL: s.conf.URL, Headers: headers, AllowAddr: s.allow,
		Command: s.conf.Command, Dir: s.conf.Dir, Env: s.conf.Env, CallTimeout: c.CallTimeout(&s.conf), Log: s.log, ClientVersion: Version,
		Walls: downstream.Walls{SharedDir: facts.SharedDir}, Isolated: s.conf.Isolation == "server", Asks: s.asks(),
		Secrets: secretsOf(&s.conf),
	}
	if s.conf.Stdio() {
		t.Walls.Home = filepath.Join(facts.DataDir, "servers", s.conf.Name)
	}
	if x := s.conf.Sandbox; x != nil {
		t.Walls.Profile, t.Walls.NoNetwork, t.Walls.Read, t.Walls.Write, t.Walls.DataMemory = x.Profile, x.Network == "none", x.Read, x.Write, x.Memory.Bytes()
	}
	return t
}

// remembered is what an earlier connect found, while the settings are the same.
func (s *server) remembered(ctx context.Context) downstream.Known {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var kept struct {
		Identity string
		At       time.Time
		Known    downstream.Known
	}
	raw, _, found, err := s.b.plugin.Host().State().Get(ctx, "known/"+strings.ToLower(s.conf.Name))
	if err != nil || !found || json.Unmarshal(raw, &kept) != nil || kept.Identity != s.id || time.Since(kept.At) > 24*time.Hour {
		return downstream.Known{}
	}
	return kept.Known
}

func (s *server) remember(ctx context.Context, k downstream.Known) {
	if k == s.known {
		return
	}
	s.known = k
	raw, err := json.Marshal(map[string]any{"Identity": s.id, "At": time.Now(), "Known": k})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := s.b.plugin.Host().State().Put(ctx, "known/"+strings.ToLower(s.conf.Name), raw, false); err != nil {
		s.log.Debug("how the server speaks is not kept", "error", err)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
