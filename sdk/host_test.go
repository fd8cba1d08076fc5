package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func one(name string, f func(ctx context.Context, call *sdk.Call) (sdk.Result, error)) *sdk.Plugin {
	return &sdk.Plugin{Name: "one", Version: "1", Tools: []*sdk.Tool{
		sdk.NewTool(name, "Does it.", func(ctx context.Context, call *sdk.Call, _ struct{}) (sdk.Result, error) { return f(ctx, call) }),
	}}
}

func TestStateOfThePlugin(t *testing.T) {
	s := sdktest.Start(t, one("go", func(ctx context.Context, call *sdk.Call) (sdk.Result, error) {
		state := call.Host().State()
		v1, err := state.Put(ctx, "k/a", []byte("one"), false)
		if err != nil {
			return sdk.Result{}, err
		}
		lost, have, _ := state.CompareAndSet(ctx, "k/a", v1+7, []byte("no"), false)
		won, _, err := state.CompareAndSet(ctx, "k/a", v1, []byte("two"), true)
		if err != nil || lost || !won || have != v1 {
			return sdk.Result{}, fmt.Errorf("%v %v %v %v", lost, won, have, err)
		}
		if _, err := state.Put(ctx, "k/b", []byte("b"), false); err != nil {
			return sdk.Result{}, err
		}
		page, next, _ := state.List(ctx, "k/", "", 1)
		rest, end, _ := state.List(ctx, "k/", next, 1)
		_, err = state.Put(ctx, "big", make([]byte, 1<<20+1), false)
		value, _, found, _ := state.Get(ctx, "k/a")
		gone, _ := state.Delete(ctx, "k/a")
		return sdk.Textf("%s %v %v %s %s %q %s", value, found, gone, page[0].Key, rest[0].Key, end, sdk.CodeOf(err)), nil
	}))
	s.Call("go", `{}`).WantText(`two true true k/a k/b "" too_large`)
	if v, _ := s.Host.State("k/b"); string(v) != "b" {
		t.Errorf("%q", v)
	}
}

func TestSessionServices(t *testing.T) {
	s := sdktest.Start(t, one("go", func(ctx context.Context, call *sdk.Call) (sdk.Result, error) {
		h := call.Host()
		key, err := h.Memory().Put(ctx, sdk.MemoryItem{Key: "note", Value: []byte("a needle here"), Category: "c", Tags: []string{"t"}, TTL: time.Minute})
		if err != nil {
			return sdk.Result{}, err
		}
		part, total, _, _ := h.Memory().Get(ctx, key, 2, 6)
		hits, _ := h.Memory().Search(ctx, "needle", "c", []string{"t"}, 5)
		if _, err := h.Publish(ctx, sdk.Event{Kind: "k", Text: "hello", Data: json.RawMessage(`{"n":1}`), DedupID: "x"}); err != nil {
			return sdk.Result{}, err
		}
		if _, err := h.Publish(ctx, sdk.Event{Kind: "k", Text: "again", DedupID: "x"}); err != nil {
			return sdk.Result{}, err
		}
		if _, _, err := h.Session().Activate(ctx, "tool_a"); err != nil {
			return sdk.Result{}, err
		}
		if err := h.Session().Pin(ctx, "set", "tool_b"); err != nil {
			return sdk.Result{}, err
		}
		list, _ := h.Session().Listed(ctx)
		turns, _ := h.Session().Turns(ctx, 1)
		a, err := call.Ask(ctx, sdk.Approval("ok", "May I?"))
		if err != nil {
			return sdk.Result{}, err
		}
		return sdk.Textf("%s %d %d %v %s %v", part, total, len(hits), list.Names, turns[0].Text, a.Accepted()), nil
	}))
	s.Host.Say("user", "first")
	s.Host.Say("user", "last words")
	s.Host.Answer(func(q sdktest.Question) sdk.Answer { return sdk.Answer{Action: "approve"} })
	s.Call("go", `{}`).WantText("needle 13 1 [tool_a tool_b] last words true")
	if e := s.Host.Events(); len(e) != 1 || e[0].Text != "hello" || string(e[0].Data) != `{"n":1}` {
		t.Errorf("%+v", e)
	}
}

func TestNestedCalls(t *testing.T) {
	s := sdktest.Start(t, one("go", func(ctx context.Context, call *sdk.Call) (sdk.Result, error) {
		progress := 0
		r, err := call.Host().CallTool(ctx, "llm_generate", json.RawMessage(`{"n":9007199254740993}`), time.Second,
			sdk.CallEvents{Progress: func(float64, float64, string) { progress++ }})
		if err != nil {
			return sdk.Result{}, err
		}
		_, denied := call.Host().CallTool(ctx, "other", json.RawMessage(`{}`), 0)
		return sdk.Textf("%s %d %s", r.Structured, progress, sdk.CodeOf(denied)), nil
	}))
	s.Host.Tool("llm_generate", func(args json.RawMessage) (sdk.Result, error) { return sdk.RawJSON(args), nil })
	s.Call("go", `{}`).WantText(`{"n":9007199254740993} 1 denied`)
}

func TestAfterTheCallOnlyTheHandleCounts(t *testing.T) {
	var kept *sdk.Host
	var handle string
	p := one("go", func(_ context.Context, call *sdk.Call) (sdk.Result, error) {
		kept, handle = call.Host(), call.SessionRef
		return sdk.TextResult("ok"), nil
	})
	s := sdktest.Start(t, p)
	s.Call("go", `{}`)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := kept.Publish(ctx, sdk.Event{Text: "late"}); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("a call that ended still speaks: %v", err)
	}
	if _, err := p.HostFor(handle).Publish(ctx, sdk.Event{Text: "by handle"}); err != nil {
		t.Error(err)
	}
	child, err := p.Host().DeriveRun(ctx, handle, "wisp/7", "main", 0)
	if err != nil || child == "" {
		t.Fatal(err)
	}
	if key, err := p.HostFor(child).Memory().Put(ctx, sdk.MemoryItem{Key: "k"}); err != nil || !strings.Contains(key, "wisp/7") {
		t.Errorf("%q %v", key, err)
	}
	if err := p.Host().ReleaseRun(ctx, child); err != nil {
		t.Error(err)
	}
}

func TestOffersChange(t *testing.T) {
	p := one("go", func(context.Context, *sdk.Call) (sdk.Result, error) { return sdk.TextResult("static"), nil })
	s := sdktest.Start(t, p)
	dynamic := func(name string) *sdk.Tool {
		return sdk.RawTool(name, "Dynamic.", json.RawMessage(`{"type":"object"}`), func(context.Context, *sdk.Call) (sdk.Result, error) {
			return sdk.TextResult("dynamic"), nil
		})
	}
	if err := p.Offers().Set("srv", sdk.Offer{Tools: []*sdk.Tool{dynamic("srv__a"), dynamic("srv__b")}}); err != nil {
		t.Fatal(err)
	}
	if got := s.ToolNames(); !slices.Equal(got, []string{"go", "srv__a", "srv__b"}) {
		t.Errorf("%v", got)
	}
	s.Call("srv__b", `{}`).WantText("dynamic")
	err := p.Offers().Set("other", sdk.Offer{Tools: []*sdk.Tool{dynamic("go"), dynamic("srv__a"), dynamic("not ok"), dynamic("other__x")}})
	for _, want := range []string{`"go" of "other" is left out: "the plugin"`, `"srv__a" of "other" is left out: "srv"`, "not ok"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	s.Call("go", `{}`).WantText("static")
	p.Offers().Remove("srv")
	if got := s.ToolNames(); !slices.Equal(got, []string{"go", "srv__a", "other__x"}) {
		t.Errorf("%v", got) // the name that became free is the other set's now
	}
	s.Call("srv__b", `{}`).WantError("tool_not_found", "srv__b")
}

func TestLargeOffersComeInParts(t *testing.T) {
	p := one("go", func(context.Context, *sdk.Call) (sdk.Result, error) { return sdk.Result{}, nil })
	s := sdktest.Start(t, p)
	var tools []*sdk.Tool
	for i := range 3000 {
		tools = append(tools, sdk.RawTool(fmt.Sprintf("t%04d", i), strings.Repeat("long ", 1000), json.RawMessage(`{"type":"object"}`),
			func(context.Context, *sdk.Call) (sdk.Result, error) { return sdk.Result{}, nil }))
	}
	if err := p.Offers().Set("many", sdk.Offer{Tools: tools}); err != nil {
		t.Fatal(err)
	}
	if got := s.ToolNames(); len(got) != 3001 || got[3000] != "t2999" {
		t.Errorf("%d tools came", len(got))
	}
}

func TestSharedFolder(t *testing.T) {
	s := sdktest.Start(t, one("go", func(_ context.Context, call *sdk.Call) (sdk.Result, error) {
		sh := call.Shared()
		ref, err := sh.WriteFile("results/deep/out.json", []byte(`{"a":1}`))
		if err != nil {
			return sdk.Result{}, err
		}
		var codes []string
		for _, bad := range []string{"/etc/passwd", "../x", "/shared/../etc/passwd", "/shared/link", "/shared/none", "/shared/results", "plain"} {
			_, err := sh.ReadFile(bad, 100)
			if err == nil {
				return sdk.Result{}, fmt.Errorf("%q was read", bad)
			}
			if strings.Contains(err.Error(), "root-only") {
				return sdk.Result{}, err
			}
			codes = append(codes, string(sdk.CodeOf(err)))
		}
		_, big := sh.ReadFile(ref.Path, 3)
		r := sdk.Files(ref)
		r.Content = append(r.Content, sdk.Text(strings.Join(codes, " ")+" "+string(sdk.CodeOf(big))))
		return r, nil
	}))
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("root-only"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(s.SharedDir, "link")); err != nil {
		t.Fatal(err)
	}
	r := s.Call("go", `{}`)
	r.WantText("invalid_arguments invalid_arguments invalid_arguments invalid_arguments not_found invalid_arguments invalid_arguments too_large")
	want := sdk.FileRef{Path: "/shared/results/deep/out.json", Name: "out.json", Size: 7, MIME: "application/json"}
	if len(r.Files) != 1 || r.Files[0] != want {
		t.Errorf("%+v", r.Files)
	}
	real, err := os.ReadFile(filepath.Join(s.SharedDir, "results/deep/out.json"))
	if err != nil || string(real) != `{"a":1}` {
		t.Errorf("%s %v", real, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.SharedDir, "results/deep/.part-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestBackgroundWorkEndsWithTheDrain(t *testing.T) {
	ended := make(chan string, 2)
	p := one("go", func(context.Context, *sdk.Call) (sdk.Result, error) { return sdk.Result{}, nil })
	p.Activate = func(ctx context.Context) error {
		go func() { <-ctx.Done(); ended <- "work" }()
		return nil
	}
	p.Drain = func(_ context.Context, reason string) error { ended <- "drain " + reason; return nil }
	s := sdktest.Start(t, p)
	s.Drain(time.Second)
	got := []string{<-ended, <-ended}
	slices.Sort(got)
	if !slices.Equal(got, []string{"drain stop", "work"}) {
		t.Errorf("%v", got)
	}
}
