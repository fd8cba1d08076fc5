package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// names settles who has which name. A typed name is its server's by its making. A
// bare one goes to the first server that has it, in the order of the settings, and
// never over a typed name, one of the bridge's own or one that the host has given
// to another plugin: who can't have it gets the name with a hash.
type names struct {
	mu   sync.Mutex // held while names are given and offers are made of them
	lost map[string]bool
}

// takenNames are names that are not to be had, in lower case: the host takes letters
// of another case for the same name.
type takenNames struct{ tools, prompts map[string]bool }

func (t *takenNames) add(v *view) {
	for _, n := range append(v.typedNames(), v.promptTools()...) {
		t.tools[strings.ToLower(n)] = true
	}
	for _, p := range v.prompts {
		t.prompts[strings.ToLower(p.name)] = true
	}
}

func (s *server) bare() bool { return s.conf.Naming == "bare" }

// publish offers what a server has, and gives the view of it. Where that takes a
// bare name from another server, that one is offered anew as well.
func (s *server) publish(full *downstream.Surface) *view {
	b := s.b
	b.names.mu.Lock()
	defer b.names.mu.Unlock()
	s.full.Store(full)
	all := b.all()
	if !slices.ContainsFunc(all, (*server).bare) {
		v := s.viewOf(full, nil)
		s.told(s.offer(v))
		return v
	}
	b.rename(all, s)
	if v := s.newest.Load(); v != nil && v.of == full {
		return v
	}
	v := s.viewOf(full, nil) // it has left the settings meanwhile
	s.newest.Store(v)
	return v
}

// renamed gives names anew after a server has gone or a name was lost.
func (b *Bridge) renamed() {
	b.names.mu.Lock()
	defer b.names.mu.Unlock()
	if all := b.all(); slices.ContainsFunc(all, (*server).bare) {
		b.rename(all, nil)
	}
}

// rename gives bare names anew; fresh is offered in any case. b.names.mu is held.
func (b *Bridge) rename(all []*server, fresh *server) {
	taken := &takenNames{tools: map[string]bool{}, prompts: map[string]bool{}}
	for n := range descriptions {
		taken.tools[n] = true
	}
	for n := range b.names.lost {
		taken.tools[n] = true
	}
	views := map[*server]*view{}
	for _, bare := range []bool{false, true} {
		for _, s := range all {
			if full := s.full.Load(); full != nil && s.bare() == bare && !s.hidden() {
				v := s.newest.Load()
				if bare || s == fresh || v == nil {
					v = s.viewOf(full, taken)
				}
				views[s] = v
				taken.add(v)
			}
		}
	}
	// A name that moves is twice in use until both have been offered anew.
	var again []*server
	for _, s := range all {
		if v := views[s]; v != nil && (s == fresh || !v.sameNames(s.newest.Load())) && s.offer(v) != nil {
			again = append(again, s)
		}
	}
	for _, s := range again {
		s.told(s.offer(views[s]))
	}
	for s, v := range views {
		s.mu.Lock()
		if s.link != nil && s != fresh {
			s.link.view.Store(v)
		}
		s.mu.Unlock()
	}
}

func (s *server) told(err error) {
	if err != nil {
		s.log.Warn("part of what the server offers is left out", "reason", err)
	}
}

// hidden reports whether nothing of the server is offered, whatever it once had.
func (s *server) hidden() bool {
	st := s.status().State
	return st == stateAuth || st == stateRefused
}

// lose notes that the host has given a name to another plugin.
func (b *Bridge) lose(name string) {
	b.names.mu.Lock()
	if b.names.lost == nil {
		b.names.lost = map[string]bool{}
	}
	b.names.lost[strings.ToLower(name)] = true
	b.names.mu.Unlock()
	b.plugin.Logger().Warn("another plugin has the bare name of a tool; the tool is offered under another", "name", name)
	b.renamed()
}

// lostAny finds out whether bare names among these are another plugin's, and gives
// the tools other names.
func (b *Bridge) lostAny(ctx context.Context, call *sdk.Call, typed []string) (lost bool) {
	if call.SessionRef == "" || !call.ListsFindTools {
		return false
	}
	for _, s := range b.all() {
		v := s.last()
		if !s.bare() || v == nil {
			continue
		}
		for _, n := range append(v.typedNames(), v.promptTools()...) {
			if !slices.Contains(typed, n) {
				continue
			}
			var e *sdk.Error
			if _, _, err := call.Host().Session().Activate(ctx, n); errors.As(err, &e) && e.Code == sdk.Denied {
				b.lose(n)
				lost = true
			}
		}
	}
	return lost
}

const (
	// renameTime is how long the host may take to hear of a new name, renamePause
	// what lies between two looks.
	renameTime  = 3 * time.Second
	renamePause = 50 * time.Millisecond
)

// callOwn calls one of the server's tools by way of the host, by the name it has
// there, and never another's: the host compares owner and server before it runs
// anything.
func (s *server) callOwn(ctx context.Context, call *sdk.Call, tool string, args json.RawMessage) (sdk.Result, error) {
	var renamed time.Time
	for {
		t, ok := s.last().tool(tool)
		if !ok {
			return sdk.Result{}, sdk.Errorf(sdk.ToolNotFound, "server %q no longer has the tool %q", s.conf.Name, tool)
		}
		result, err := call.Host().CallOwnTool(ctx, t.typed, s.source(), args, 0, sdk.CallEvents{Progress: call.Progress})
		if err != nil || result.Error == nil {
			return result, err
		}
		switch {
		case result.Error.Ref == sdk.RefNameTaken && s.bare() && renamed.IsZero():
			renamed = time.Now()
			s.b.lose(t.typed)
		case result.Error.Code == sdk.ToolNotFound && !renamed.IsZero() && time.Since(renamed) < renameTime:
			select { // the host has not heard of the new name yet
			case <-time.After(renamePause):
			case <-ctx.Done():
				return sdk.Result{}, ctx.Err()
			}
		default:
			return sdk.Result{}, result.Error
		}
	}
}
