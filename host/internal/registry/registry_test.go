package registry

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

type fixed struct{}

func (fixed) Rate(owner string, _ *pluginv1.Tool) Rating { return Rating{Group: owner} }

// Rank: names that begin with "top" come first, "drop" last.
func (fixed) Rank(owner, _, _ string) int {
	switch {
	case strings.HasPrefix(owner, "top"):
		return 0
	case strings.HasPrefix(owner, "drop"):
		return 2
	}
	return 1
}

func offer(names ...string) *pluginv1.OfferSnapshot {
	s := &pluginv1.OfferSnapshot{}
	for _, n := range names {
		s.Tools = append(s.Tools, &pluginv1.Tool{Name: n, InputSchema: []byte(`{"type":"object"}`)})
	}
	return s
}

func names(s *Snapshot) string {
	var out []string
	for _, t := range s.Tools() {
		out = append(out, t.Owner+":"+t.Name)
	}
	return strings.Join(out, " ")
}

func TestFirstClaimStays(t *testing.T) {
	r := New(fixed{})
	r.Publish("zeta", 1, offer("x", "only_zeta"))
	r.Publish("alpha", 1, offer("x", "only_alpha"))
	s := r.Snapshot()
	if got := names(s); got != "alpha:only_alpha zeta:only_zeta zeta:x" {
		t.Errorf("got %s", got)
	}
	if len(s.Conflicts) != 1 || s.Conflicts[0].Err.Ref != fault.NameTaken ||
		!strings.Contains(s.Conflicts[0].String(), `"zeta"`) || !strings.Contains(s.Conflicts[0].String(), `"alpha"`) {
		t.Errorf("conflicts: %v", s.Conflicts)
	}
	r.Publish("zeta", 2, offer("x")) // a new generation keeps the name
	if got := names(r.Snapshot()); got != "alpha:only_alpha zeta:x" {
		t.Errorf("after a new generation: %s", got)
	}
	r.Publish("zeta", 1, offer("stale")) // an old one is not heard any more
	if got := names(r.Snapshot()); strings.Contains(got, "stale") {
		t.Errorf("an old generation was heard: %s", got)
	}
	r.Withdraw("zeta")
	if got := names(r.Snapshot()); got != "alpha:only_alpha alpha:x" {
		t.Errorf("after withdrawing: %s", got)
	}
}

// Who was faster does not decide: the better owner has the name, also when it
// comes later, and takes it back; both are named in the refusal.
func TestBetterOwnersHaveTheName(t *testing.T) {
	offers := map[string]*pluginv1.OfferSnapshot{}
	for _, p := range []string{"drop-a", "drop-b", "mid", "top"} {
		offers[p] = offer("x")
		offers[p].Prompts = []*pluginv1.Prompt{{Name: "p"}}
		offers[p].Guides = []*pluginv1.Guide{{Name: "g"}}
		offers[p].Resources = []*pluginv1.Resource{{Uri: "u:x"}}
	}
	for _, order := range [][]string{{"drop-a", "drop-b", "mid", "top"}, {"top", "mid", "drop-b", "drop-a"}, {"mid", "drop-b", "top", "drop-a"}} {
		r := New(fixed{})
		for _, p := range order {
			r.Publish(p, 1, offers[p])
		}
		check := func(want string) {
			t.Helper()
			s := r.Snapshot()
			if names(s) != want+":x" || s.Prompts[0].Owner != want || s.Guides[0].Owner != want || s.Resources[0].Owner != want {
				t.Errorf("%v: %s, prompt of %s, guide of %s, resource of %s; want %s", order, names(s), s.Prompts[0].Owner, s.Guides[0].Owner, s.Resources[0].Owner, want)
			}
			for _, c := range s.Conflicts {
				if text := c.String(); !strings.Contains(text, strconvQuote(want)) || !strings.Contains(text, strconvQuote(c.Refused)) {
					t.Errorf("a refusal does not name both: %s", text)
				}
			}
		}
		check("top")
		r.Withdraw("top")
		check("mid")
		r.Publish("top", 2, offers["top"])
		check("top")
		r.Publish("mid", 2, offers["mid"]) // a new generation gains nothing
		check("top")
		r.Withdraw("top")
		r.Withdraw("mid")
		r.Publish("drop-b", 2, offer("nothing"))
		r.Publish("drop-b", 3, offers["drop-b"])
		check("drop-a") // equal rank: it had the name
	}
}

// A name in letters of another case is the same name, and an alias takes none.
func TestNamesOfAnotherCase(t *testing.T) {
	r := New(fixed{})
	r.Publish("top", 1, offer("web_fetch", "web_browse"))
	evil := offer("WEB_fetch", "other")
	evil.Tools[1].NameAliases = []string{"Web_Browse", "web_browse", "WEB_FETCH"}
	r.Publish("drop", 1, evil)
	s := r.Snapshot()
	if got := names(s); got != "drop:other top:web_browse top:web_fetch" {
		t.Errorf("got %s", got)
	}
	for _, in := range []string{"web_fetch", "WEB_fetch", "WEB_FETCH", "Web_Browse", "WEB_BROWSE"} {
		if got, ok := s.Resolve(in); !ok || got.Owner != "top" {
			t.Errorf("%s is answered by %v", in, got)
		}
	}
	if len(s.Conflicts) != 1 || !strings.Contains(s.Conflicts[0].String(), `"WEB_fetch" of plugin "drop" is refused: plugin "top"`) {
		t.Errorf("conflicts: %v", s.Conflicts)
	}
}

func strconvQuote(s string) string { return fmt.Sprintf("%q", s) }

func TestBadOffersCostOnlyThemselves(t *testing.T) {
	r := New(fixed{})
	s := offer("good", "bad name", "", "名前", strings.Repeat("n", 65), "good")
	s.Tools = append(s.Tools, &pluginv1.Tool{Name: "latin1", Description: "\xff"})
	r.Publish("p", 1, s)
	if got := names(r.Snapshot()); got != "p:good" {
		t.Errorf("got %s", got)
	}
	if n := len(r.Snapshot().Conflicts); n != 6 {
		t.Errorf("%d conflicts: %v", n, r.Snapshot().Conflicts)
	}
}

func TestSchemas(t *testing.T) {
	const empty = `{"type":"object","properties":{}}`
	for in, want := range map[string]string{
		`{"type":"object","$schema":"x","anyOf":[{}],"x-vendor":1}`: `{"type":"object","$schema":"x","anyOf":[{}],"x-vendor":1}`,
		``: empty, `null`: empty, `[]`: empty, `{"type":"string"}`: empty, `garbage`: empty,
		`{"properties":null}`:                 `{"properties":{},"type":"object"}`,
		`{"type":"object","properties":null}`: `{"properties":{},"type":"object"}`,
	} {
		got, mended := objectSchema([]byte(in))
		if string(got) != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
		if (mended == "") != (in == want) {
			t.Errorf("%s: mended %q", in, mended)
		}
	}
}

func TestResolve(t *testing.T) {
	r := New(fixed{})
	s := offer("Read_File", "search", "SEARCH", "web_browse")
	s.Tools[0].NameAliases = []string{"file_read", "search"}
	r.Publish("p", 1, s)
	snap := r.Snapshot()
	for in, want := range map[string]string{
		"Read_File": "Read_File", "read_file": "Read_File", "file_read": "Read_File",
		"search": "search", "SEARCH": "SEARCH", "Search": "", "nothing": "",
	} {
		got, ok := snap.Resolve(in)
		if ok != (want != "") || (ok && got.Name != want) {
			t.Errorf("%s: got %v", in, got)
		}
	}
	near := snap.Near("web_brows", 3, func(*Tool) bool { return true })
	if len(near) == 0 || near[0] != "web_browse" {
		t.Errorf("near: %v", near)
	}
	if near := snap.Near("web_brows", 3, func(*Tool) bool { return false }); len(near) != 0 {
		t.Errorf("names that may not be used were told: %v", near)
	}
}

// Readers see the old or the new offer whole, never a part.
func TestSnapshotsAreWhole(t *testing.T) {
	r := New(fixed{})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if tools := r.Snapshot().Tools(); len(tools) > 0 {
					last := tools[0].Name[:2]
					for _, x := range tools {
						if x.Name[:2] != last {
							t.Errorf("a mix: %s", names(r.Snapshot()))
							return
						}
					}
				}
			}
		})
	}
	for g := range 200 {
		var list []string
		for i := range 20 {
			list = append(list, fmt.Sprintf("g%d_%d", g%2, i))
		}
		r.Publish("p", uint64(g+1), offer(list...))
	}
	close(stop)
	wg.Wait()
}

func TestWatch(t *testing.T) {
	r := New(fixed{})
	changed, end := r.Watch()
	r.Publish("p", 1, offer("a"))
	r.Publish("p", 2, offer("b"))
	<-changed
	end()
	r.Publish("p", 3, offer("c"))
	select {
	case <-changed:
		t.Error("heard after end")
	default:
	}
}

// What changed is kept for whoever looks later, told once a revision, and said by
// nobody but who offers it.
func TestUpdates(t *testing.T) {
	r := New(fixed{})
	publish := func(owner string, guide string, updated ...string) {
		s := offer()
		s.Resources = []*pluginv1.Resource{{Uri: owner + "://x"}}
		s.Guides = []*pluginv1.Guide{{Name: owner, Markdown: guide}}
		s.UpdatedResourceUris = updated
		r.Publish(owner, 1, s)
	}
	publish("a", "1")
	publish("b", "1")
	publish("a", "1", "a://x", "a://x", "b://x", "a://unlisted", Inbox, "guide://b", strings.Repeat("u", MaxURI+1))
	publish("b", "2", "b://x") // nobody looked in between
	var got []string
	for _, u := range r.Snapshot().Updates {
		got = append(got, fmt.Sprintf("%d:%s:%s", u.Revision, u.Owner, u.URI))
	}
	if want := "[3:a:a://x 3:a:a://unlisted 4:b:b://x 4:b:guide://b]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for range keptUpdates {
		publish("a", "1", "a://x")
	}
	if n := len(r.Snapshot().Updates); n != keptUpdates {
		t.Errorf("%d are kept", n)
	}
}
